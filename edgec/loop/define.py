"""Define-by-run: an operator writes its meaning over indices, once, and gets a loop nest.

    b = Definition("dense")
    x = b.input("x", (1, 8), "int8")
    w = b.constant("w", (4, 8), "int8")
    out = b.output("out", (1, 4), "int32")
    b.reduce(out, [("k", 0, 8)], init=lambda n, c: 0,
             update=lambda acc, n, c, k: acc + int32(x[n, k]) * int32(w[c, k]))
    func = b.build()                     # the PrimFunc
    b.evaluate({"x": ..., "w": ...})     # the same bodies on NumPy arrays: {"out": ...}

Stages run in the order they are written. A stage `acc` with axes n, c, k becomes the block `acc`
with axes n, c, k inside the loops `acc_n`, `acc_c`, `acc_k`: schedules use these names.
Axis names are the names of the lambda's parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Union

import numpy as np

from edgec.errors import ContractError
from edgec.loop.ir import Buffer, Gather, IndexValue, Load, PrimFunc, Scope, Seq, Stmt
from edgec.loop.nest import loop_of_steps, nest_of_stage
from edgec.loop.values import Array, ArrayValue, ExprValue, Operand, Value, as_array
from edgec.numerics.term import Term, Var, as_term

Bound = Union[int, Term, Callable[..., Any]]
ReduceAxis = tuple[str, Bound, Bound]


class Tensor:
    """A buffer inside a definition; `x[n, h + 1, c]` reads an element.

    An index is an int, an index term, or (for a table) an int32 value.
    """

    def __init__(self, owner: Definition, buffer: Buffer) -> None:
        self.owner = owner
        self.buffer = buffer

    @property
    def name(self) -> str:
        """The buffer's name."""
        return self.buffer.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The buffer's shape."""
        return self.buffer.shape

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.buffer.dtype

    def __getitem__(self, indices: Any) -> Value:
        indices = indices if isinstance(indices, tuple) else (indices,)
        if len(indices) != len(self.shape):
            raise ContractError(
                f"{self.name} has {len(self.shape)} dimensions, {len(indices)} indices were given"
            )
        if self.owner.arrays is not None:
            return ArrayValue(self._gather(self.owner.arrays[self.name], indices))
        if any(isinstance(i, ExprValue) for i in indices):
            exprs = tuple(
                i.expr if isinstance(i, ExprValue) else IndexValue(as_term(i)) for i in indices
            )
            return ExprValue(Gather(self.buffer, exprs))
        return ExprValue(Load(self.buffer, tuple(as_term(i) for i in indices)))

    def _gather(self, array: Array, indices: tuple[Any, ...]) -> Array:
        grids = []
        for position, (index, extent) in enumerate(zip(indices, self.shape, strict=True)):
            grid = index.array if isinstance(index, ArrayValue) else np.asarray(index)
            bad = (grid < 0) | (grid >= extent)
            if bad.any():
                if self.owner.mask is None or (bad & self.owner.mask).any():
                    raise ContractError(
                        f"index {position} of {self.name} leaves 0..{extent}",
                        details=(f"it ranges over {grid.min()}..{grid.max()}",),
                    )
                grid = np.clip(grid, 0, extent - 1)
            grids.append(grid)
        axes = [_moving_axis(grid) for grid in grids]
        known = [axis for axis in axes if axis is not None and axis >= 0]
        if None in axes or len(set(known)) < len(known):
            return np.asarray(array[tuple(np.broadcast_arrays(*grids))])
        return _taken(array, grids, [axis for axis in axes if axis is not None])


def _moving_axis(grid: Array) -> int | None:
    """The only axis along which an index changes, -1 if there is none, None if there are more."""
    moving = [axis for axis, extent in enumerate(grid.shape) if extent > 1]
    if len(moving) > 1:
        return None
    return moving[0] if moving else -1


def _taken(array: Array, grids: Sequence[Array], axes: Sequence[int]) -> Array:
    """Elements at indices of which each changes along an axis of its own, without big indices."""
    lines = [grid.reshape(-1) for grid in grids]
    array = array[tuple(_as_slice(line) for line in lines)]
    for position, line in enumerate(lines):
        if _as_slice(line) == slice(None):
            array = np.take(array, line, position)
    order = sorted(range(len(axes)), key=lambda position: axes[position])
    array = array.transpose(order)[(0,) * axes.count(-1)]
    rank = max((grid.ndim for grid in grids), default=0)
    return array[tuple(slice(None) if axis in axes else None for axis in range(rank))]


def _as_slice(line: Array) -> slice:
    """The indices of a vector as a slice; `slice(None)` if their distances differ."""
    first, step = int(line[0]), int(line[1] - line[0]) if line.size > 1 else 1
    if step <= 0 or (line.size > 2 and (np.diff(line) != step).any()):
        return slice(None)
    return slice(first, first + (line.size - 1) * step + 1, step)


@dataclass(frozen=True)
class Stage:
    """One block to be: what it stores, over which axes.

    `update` is None for a stage without reduction, whose value is `init`. `at` maps the spatial
    axes to indices of the target (the identity if None). In a `Definition.steps` loop the first of
    `axes` is its step, which is not in `shape`, and which bodies and `at` are given first.
    """

    name: str
    target: Tensor
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    reduce_axes: tuple[ReduceAxis, ...]
    init: Callable[..., Operand]
    update: Callable[..., Operand] | None
    at: Callable[..., tuple[Any, ...]] | None
    steps: Steps | None = None


@dataclass(frozen=True, eq=False)
class Steps:
    """A loop around several stages: all of them run for one step before the next begins."""

    name: str
    count: int


class Definition:
    """Collects buffers and stages of one PrimFunc, in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: dict[str, Tensor] = {}
        self.stages: list[Stage] = []
        self.loop: Steps | None = None  # around the stages that are added now
        self.arrays: dict[str, Array] | None = None  # set while stages compute on arrays
        self.mask: Array | None = None

    def _declare(self, name: str, shape: Sequence[int], dtype: str, scope: Scope) -> Tensor:
        if name in self.tensors:
            raise ContractError(f"{self.name} declares buffer {name!r} twice")
        extents = tuple(int(e) for e in shape)
        tensor = Tensor(self, Buffer(name, extents, dtype, scope))
        self.tensors[name] = tensor
        return tensor

    def input(self, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        """An activation that is read; a parameter of scope arena."""
        return self._declare(name, shape, dtype, "arena")

    def output(self, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        """An activation that is written; a parameter of scope arena."""
        return self._declare(name, shape, dtype, "arena")

    def constant(self, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        """Weights or a table; a parameter of scope constant."""
        return self._declare(name, shape, dtype, "constant")

    def temporary(self, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        """A temporary that several stages write; each then says where (`at`)."""
        return self._declare(name, shape, dtype, "scratch")

    @contextmanager
    def steps(self, name: str, count: int) -> Iterator[None]:
        """Stages added inside run one after the other in a loop of `count` steps.

        What a step stores the next one reads: a recurrence. Their bodies take the step first:

            with b.steps("steps", 3):
                b.compute(h, lambda t, c: ...)                       h[c], overwritten each time
                b.compute(y, lambda t, c: h[c], shape=(8,), at=lambda t, c: (t, c))
        """
        if self.loop is not None:
            raise ContractError(f"{self.name} has a loop of steps inside another one")
        self.loop = Steps(name, count)
        try:
            yield
        finally:
            self.loop = None

    def compute(
        self,
        target: Tensor | str,
        body: Callable[..., Operand],
        *,
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        at: Callable[..., tuple[Any, ...]] | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Add a stage: target[i...] = body(i...) for every i in shape.

        `target` is a declared tensor, or the name of a temporary of `shape` and `dtype`. With
        `at`, element i is stored at target[at(i...)]; then `shape` is the domain, and the stage
        covers a part of the target. `name` names the block (the target's name otherwise).
        """
        return self._add(target, shape, dtype, (), body, None, at, name)

    def reduce(
        self,
        target: Tensor | str,
        axes: Sequence[ReduceAxis],
        *,
        init: Callable[..., Operand],
        update: Callable[..., Operand],
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Add a stage: target[i...] = init(i...), then update(acc, i..., k...) for every k.

        A reduce axis is (name, start, stop); its bounds are ints or functions of the spatial
        indices (clipped padding). The last axis runs fastest.
        """
        return self._add(target, shape, dtype, tuple(axes), init, update, None, name)

    def _add(
        self,
        target: Tensor | str,
        shape: Sequence[int] | None,
        dtype: str | None,
        reduce_axes: tuple[ReduceAxis, ...],
        init: Callable[..., Operand],
        update: Callable[..., Operand] | None,
        at: Callable[..., tuple[Any, ...]] | None,
        name: str | None,
    ) -> Tensor:
        if isinstance(target, str):
            if shape is None or dtype is None:
                raise ContractError(f"temporary {target!r} needs a shape and a dtype")
            target = self._declare(target, shape, dtype, "scratch")
        domain = target.shape if shape is None else tuple(int(e) for e in shape)
        block = name or target.name
        if any(block == s.name for s in self.stages):
            raise ContractError(f"{self.name} has two stages named {block!r}; give one a name")
        axes = _axis_names(init, len(domain) + (self.loop is not None))
        names = [*axes, *(a[0] for a in reduce_axes)]
        if len(set(names)) != len(names):
            raise ContractError(f"axes of {block} share a name: {', '.join(names)}")
        self.stages.append(
            Stage(block, target, domain, axes, reduce_axes, init, update, at, self.loop)
        )  # fmt: skip
        return target

    def build(self) -> PrimFunc:
        """The loop nests of all stages, in order, as one PrimFunc.

        Parameters: arena buffers in the order declared, then constants, then temporaries (scope
        scratch; a schedule turns most of them into registers).
        """
        buffers = [t.buffer for t in self.tensors.values()]
        params: list[Buffer] = []
        for scope in ("arena", "constant", "scratch"):
            params += [b for b in buffers if b.scope == scope]
        stmts: list[Stmt] = []
        for steps, stages in groupby(self.stages, key=lambda stage: stage.steps):
            nests: list[Stmt] = []
            for stage in stages:
                nests += nest_of_stage(stage, needs_own_init=self._may_be_empty(stage))
            stmts += nests if steps is None else [loop_of_steps(steps, nests)]
        body = stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))
        return PrimFunc(self.name, tuple(params), (), body)

    def _may_be_empty(self, stage: Stage) -> bool:
        """Whether some element has no reduce step, so that init must be a block of its own."""
        grids = _grids(stage.shape)
        if stage.steps is not None:
            grids.insert(0, np.arange(stage.steps.count).reshape((-1, *[1] * len(grids))))
        for _, start, stop in stage.reduce_axes:
            if np.any(_bound(start, grids) >= _bound(stop, grids)):
                return True
        return False

    def evaluate(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Compute all stages on arrays, whole index grids at once.

        `arrays` gives the inputs and constants; the result holds every buffer a stage writes.
        """
        self.arrays = {}
        written = {stage.target.name for stage in self.stages}
        for name, tensor in self.tensors.items():
            given = arrays.get(name)
            if given is None:
                self.arrays[name] = np.zeros(tensor.shape, dtype=tensor.dtype)
                continue
            if given.shape != tensor.shape or str(given.dtype) != tensor.dtype:
                raise ContractError(
                    f"{name} is {given.dtype}{list(given.shape)}, "
                    f"not {tensor.dtype}{list(tensor.shape)}"
                )
            self.arrays[name] = given.copy() if name in written else given
        try:
            for steps, group in groupby(self.stages, key=lambda stage: stage.steps):
                stages = list(group)
                for step in range(1 if steps is None else steps.count):
                    for stage in stages:
                        self._evaluate_stage(stage, self.arrays, step)
            return {s.target.name: self.arrays[s.target.name] for s in self.stages}
        finally:
            self.arrays, self.mask = None, None

    def _evaluate_stage(self, stage: Stage, arrays: dict[str, Array], step: int) -> None:
        grids = _grids(stage.shape)
        at = [np.asarray(step), *grids] if stage.steps is not None else grids
        dtype = stage.target.dtype
        value = np.broadcast_to(as_array(stage.init(*at), dtype), stage.shape)
        if stage.update is not None:
            bounds = [(_bound(start, at), _bound(stop, at)) for _, start, stop in stage.reduce_axes]
            for offset in np.ndindex(*(int(stop.max() - start.min()) for start, stop in bounds)):
                point = [int(b[0].min()) + s for b, s in zip(bounds, offset, strict=True)]
                self.mask = _mask(point, bounds, stage.shape)
                steps = [np.asarray(p) for p in point]
                new = as_array(stage.update(ArrayValue(value), *at, *steps), dtype)
                value = new if self.mask is None else np.where(self.mask, new, value)
            self.mask = None
        if str(value.dtype) != dtype:
            raise ContractError(f"stage {stage.name} computes {value.dtype}, not {dtype}")
        if stage.at is None and stage.shape == stage.target.shape:
            arrays[stage.target.name] = np.array(value)
            return
        where = grids if stage.at is None else list(stage.at(*at))
        full = np.broadcast_arrays(*(np.asarray(w) for w in where), np.empty(stage.shape))[:-1]
        arrays[stage.target.name][tuple(full)] = value


def _mask(
    point: Sequence[int], bounds: Sequence[tuple[Array, Array]], shape: tuple[int, ...]
) -> Array | None:
    """Which elements have this reduce point; None if all do."""
    if all(start.ndim == stop.ndim == 0 for start, stop in bounds):
        return None
    mask = np.ones(shape, dtype=bool)
    for position, (start, stop) in zip(point, bounds, strict=True):
        mask = mask & (start <= position) & (position < stop)
    return mask


def _axis_names(body: Callable[..., Any], count: int) -> tuple[str, ...]:
    parameters = list(inspect.signature(body).parameters.values())
    if len(parameters) == 1 and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(f"d{i}" for i in range(count))
    if len(parameters) != count:
        raise ContractError(f"the body takes {len(parameters)} indices, the shape has {count}")
    return tuple(p.name for p in parameters)


def _grids(shape: tuple[int, ...]) -> list[Array]:
    grids = []
    for position, extent in enumerate(shape):
        form = [1] * len(shape)
        form[position] = extent
        grids.append(np.arange(extent).reshape(form))
    return grids


def _bound(bound: Bound, grids: list[Array]) -> Array:
    if isinstance(bound, (Term, Var)):
        value = as_term(bound).constant
        if value is None:
            raise ContractError(f"reduce bound {bound} must be a function of the spatial indices")
        return np.asarray(value)
    return np.asarray(bound(*grids) if callable(bound) else bound)
