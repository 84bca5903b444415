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
from edgec.loop.on_arrays import Trace, bound_on
from edgec.loop.read_arrays import gathered, index_grids
from edgec.loop.tape import Array, Program
from edgec.loop.values import ExprValue, Operand, Value
from edgec.numerics.term import Term, as_term

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
        if self.owner.trace is not None:
            return gathered(self, self.owner.trace, indices)
        if any(isinstance(i, ExprValue) for i in indices):
            exprs = tuple(
                i.expr if isinstance(i, ExprValue) else IndexValue(as_term(i)) for i in indices
            )
            return ExprValue(Gather(self.buffer, exprs))
        return ExprValue(Load(self.buffer, tuple(as_term(i) for i in indices)))


@dataclass(frozen=True)
class Stage:
    """A future block: its stored value and its axes.

    `update` is None for a stage without reduction, whose value is `init`. `at` maps the spatial
    axes to indices of the target (the identity if None). In a `Definition.steps` loop the first of
    `axes` is the step; it is not in `shape`, and it is the first argument of bodies and `at`.
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
        self.trace: Trace | None = None  # while stages are read on arrays

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

        Each step reads the values that the previous one stored: a recurrence. Bodies take the step
        as their first argument:

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
        grids = list(index_grids(stage.shape))
        if stage.steps is not None:
            grids.insert(0, np.arange(stage.steps.count).reshape((-1, *[1] * len(grids))))
        for _, start, stop in stage.reduce_axes:
            if np.any(bound_on(start, grids) >= bound_on(stop, grids)):
                return True
        return False

    def evaluate(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Compute all stages on arrays, whole index grids at once.

        arrays: inputs and constants. The result has every buffer that a stage writes.
        """
        for name, array in arrays.items():
            tensor = self.tensors.get(name)
            if tensor and (array.shape != tensor.shape or array.dtype != tensor.dtype):
                raise ContractError(
                    f"{name} is {array.dtype}{list(array.shape)}, "
                    f"not {tensor.dtype}{list(tensor.shape)}"
                )
        written = list(dict.fromkeys(stage.target.name for stage in self.stages))
        made = self.program(list(arrays), written, {}).run(list(arrays.values()))
        return dict(zip(written, made, strict=True))

    def program(
        self, inputs: Sequence[str], outputs: Sequence[str], constants: Mapping[str, Array]
    ) -> Program:
        """All stages as a program from some buffers to others; `constants` are known."""
        trace = self.trace = Trace(self.stages, constants)
        try:
            for name in inputs:
                trace.declare_input(name, self.tensors.get(name))
            for tensor in self.tensors.values():
                trace.declare(tensor)
            for steps, group in groupby(self.stages, key=lambda stage: stage.steps):
                stages = list(group)
                for step in range(1 if steps is None else steps.count):
                    for stage in stages:
                        trace.stage(stage, step)
            return trace.program(outputs)
        finally:
            self.trace = None


def _axis_names(body: Callable[..., Any], count: int) -> tuple[str, ...]:
    parameters = list(inspect.signature(body).parameters.values())
    if len(parameters) == 1 and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(f"d{i}" for i in range(count))
    if len(parameters) != count:
        raise ContractError(f"the body takes {len(parameters)} indices, the shape has {count}")
    return tuple(p.name for p in parameters)
