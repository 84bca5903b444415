"""The second reading of a definition: its stages on NumPy arrays, whole index grids at once.

Stages are traced: indices are known arrays; operations on inputs become calls of a tape. The steps
of a reduction are computed together if they change the accumulator by a chain of operations (`acc +
x * w`): the operands of all steps are computed at once, then combined in the order of the steps, so
that floats have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from edgec.errors import ContractError
from edgec.loop.dtype import is_float
from edgec.loop.read_arrays import index_grids, offsets_of, view_of
from edgec.loop.repeated_calls import without_repeats
from edgec.loop.tape import Array, Program, Tape
from edgec.loop.values import (
    FUNCTIONS,
    Accumulator,
    ArrayValue,
    NotAChain,
    Operand,
    as_array,
    function_of,
    noted,
)
from edgec.numerics.term import Term, Var, as_term

if TYPE_CHECKING:
    from edgec.loop.define import Bound, Stage, Tensor

#: Most elements that the steps of a reduction compute at once.
_MOST_AT_ONCE = 1 << 20
#: Operations that combine integers and truths in any order.
_ASSOCIATIVE = ("add", "mul", "min", "max", "and", "or", "xor")


def bound_on(bound: Bound, grids: Sequence[Array]) -> Array:
    """The bound of a reduction axis: a number, or one for each of the spatial indices."""
    if isinstance(bound, (Term, Var)):
        value = as_term(bound).constant
        if value is None:
            raise ContractError(f"reduce bound {bound} must be a function of the spatial indices")
        return np.asarray(value)
    found = np.asarray(bound(*grids) if callable(bound) else bound)
    is_one = found.size > 0 and bool((found == found.flat[0]).all())
    return np.asarray(found.flat[0]) if is_one else found


class Trace:
    """The tape of a definition, and the slot that holds each buffer so far.

    mask: the elements that take part in the current step of a reduction; None for all.
    """

    def __init__(self, stages: Sequence[Stage], constants: Mapping[str, Array]) -> None:
        self.tape = Tape()
        self.mask: Array | None = None
        self.constants = constants
        self.inputs: list[int] = []
        self.buffers: dict[str, ArrayValue] = {}
        self.written = {stage.target.name for stage in stages}

    def declare_input(self, name: str, tensor: Tensor | None) -> None:
        """Give an array of each run its slot."""
        slot = self.tape.slot()
        self.inputs.append(slot)
        if tensor is not None:
            copied = self.tape.note(np.copy, [slot]) if name in self.written else slot
            self.buffers[name] = ArrayValue.traced(self.tape, copied, tensor.dtype)

    def declare(self, tensor: Tensor) -> None:
        """Give a buffer its slot, filled with a constant or zeros."""
        name, dtype = tensor.name, tensor.dtype
        if name in self.constants:
            self.buffers[name] = ArrayValue(self.constants[name])
        elif name not in self.buffers:
            slot = self.tape.note(partial(np.zeros, tensor.shape, dtype), ())
            self.buffers[name] = ArrayValue.traced(self.tape, slot, dtype)

    def program(self, outputs: Sequence[str]) -> Program:
        """The traced function, with these buffers as results."""
        slots = [self.buffers[name].slot_in(self.tape) for name in outputs]
        self.tape.calls = without_repeats(self.tape.calls, self.tape.slots)
        return Program(self.tape, self.inputs, slots)

    def stage(self, stage: Stage, step: int) -> None:
        """Store a stage's values in its buffer."""
        if 0 in stage.shape:
            return
        grids = index_grids(stage.shape)
        at = [np.asarray(step), *grids] if stage.steps is not None else grids
        dtype, name = stage.target.dtype, stage.target.name
        self.tape.elements = prod(stage.shape)
        value = as_array(stage.init(*at), dtype)
        if stage.update is not None:
            value = _reduced(self, stage, value, at)
        if value.dtype != dtype:
            raise ContractError(f"stage {stage.name} computes {value.dtype}, not {dtype}")
        if stage.at is not None:
            slot = self._store(stage, tuple(map(np.asarray, stage.at(*at))), value)
        elif stage.shape != stage.target.shape:
            slot = self._store(stage, grids, value)
        else:
            slot = self._store_all(stage, value)
        self.buffers[name] = ArrayValue.traced(self.tape, slot, dtype)

    def _store_all(self, stage: Stage, value: ArrayValue) -> int:
        """Record that values become the stage's buffer; copy another buffer's values."""
        is_kept = value.tape is None or value in self.buffers.values()
        function = partial(copied if is_kept else whole, stage.shape)
        return self.tape.note(function, [value.slot_in(self.tape)])

    def _store(self, stage: Stage, where: tuple[Array, ...], value: ArrayValue) -> int:
        """Note that values go to these indices of the stage's buffer."""
        target = stage.target
        view = view_of(offsets_of(where, target.shape), np.dtype(target.dtype))
        full = np.broadcast_arrays(*where, np.empty(stage.shape))[:-1]
        operands = [v.slot_in(self.tape) for v in (self.buffers[target.name], value)]
        return self.tape.note(partial(stored_at, tuple(full), view), operands)


def whole(shape: tuple[int, ...], value: Array) -> Array:
    """The value as a buffer of its own, which it may be itself."""
    is_own = value.shape == shape and value.base is None and value.flags.carray
    return value if is_own and shape else copied(shape, value)  # not () of a NumPy scalar


def copied(shape: tuple[int, ...], value: Array) -> Array:
    return np.array(value if value.shape == shape else np.broadcast_to(value, shape), order="C")


def stored_at(
    indices: tuple[Array, ...], view: Callable[[Array], Array] | None, buffer: Array, value: Array
) -> Array:
    """The buffer with the value at these indices, which may be a view of it."""
    part = None if view is None else view(buffer)
    if part is not None and indices and part.shape == indices[0].shape:
        part[...] = value
    else:
        buffer[indices] = value
    return buffer


def _reduced(trace: Trace, stage: Stage, value: ArrayValue, at: Sequence[Array]) -> ArrayValue:
    """The accumulators after all steps."""
    bounds = [(bound_on(start, at), bound_on(stop, at)) for _, start, stop in stage.reduce_axes]
    if any((stop <= start).all() for start, stop in bounds):
        return value
    joined, calls = _joined(bounds, prod(stage.shape)), len(trace.tape.calls)
    try:
        return _stepped(trace, stage, value, at, bounds, *joined)
    except NotAChain:
        del trace.tape.calls[calls:]
        return _stepped(trace, stage, value, at, bounds, 0, 1)
    finally:
        trace.mask = None


def _joined(bounds: Sequence[tuple[Array, Array]], elements: int) -> tuple[int, int]:
    """Number of last axes that are taken at once, and steps of the first of them.

    Their bounds are the same everywhere.
    """
    count, size = 0, 1
    for start, stop in reversed(bounds):
        extent, room = int(stop.max() - start.min()), _MOST_AT_ONCE // max(elements, 1)
        if start.ndim or stop.ndim or room < min(extent, 2):
            break
        count, size, elements = count + 1, min(extent, room), elements * extent
    return count, size


def _stepped(
    trace: Trace, stage: Stage, value: ArrayValue, at: Sequence[Array],
    bounds: Sequence[tuple[Array, Array]], joined: int, size: int,
) -> ArrayValue:  # fmt: skip
    """The accumulators after all steps; the last `joined` axes are reduced together.

    size: steps of the first of these axes that are reduced at once.
    """
    assert stage.update is not None
    single, together = bounds[: len(bounds) - joined], bounds[len(bounds) - joined :]
    lines = [np.arange(int(start), int(stop)) for start, stop in together]
    parts = [[line[at : at + size] for at in range(0, line.size, size)] for line in lines[:1]]
    outer = [grid.reshape((1,) * (joined + len(stage.shape) - grid.ndim) + grid.shape)
             for grid in at] if joined else at  # fmt: skip
    extents = (int(stop.max() - start.min()) for start, stop in single)
    for *offset, number in np.ndindex(*extents, *map(len, parts) if joined else (1,)):
        point = [int(b[0].min()) + s for b, s in zip(single, offset, strict=True)]
        mask = trace.mask = _mask(point, single)
        acc = Accumulator(value.dtype) if joined else value
        taken = [*(each[number] for each in parts), *lines[1:]]
        ranges = index_grids((*(line.size for line in taken), *(1 for _ in stage.shape)))
        steps = [line[grid] for line, grid in zip(taken, ranges, strict=False)]
        trace.tape.elements = prod(stage.shape) * prod(line.size for line in taken)
        found = stage.update(acc, *outer, *(np.asarray(p) for p in point), *steps)
        if joined:
            new = _combined(value, found, tuple(line.size for line in taken), stage.shape)
        else:
            new = as_array(found, stage.target.dtype)
        value = new if mask is None else noted(np.where, new.dtype, ArrayValue(mask), new, value)
    return value


def _combined(
    value: ArrayValue, found: Operand, extents: tuple[int, ...], shape: tuple[int, ...]
) -> ArrayValue:
    """The accumulators after the chain of each step, in order."""
    if not isinstance(found, Accumulator):
        raise NotAChain
    kinds = [op for op, _, _ in found.chain]
    operands = [operand for _, operand, _ in found.chain]
    chain = [(function_of(op, value.dtype), swap) for op, _, swap in found.chain]
    function: Callable[..., Array] = partial(in_order, chain, extents, shape)
    if len(chain) == 1 and not is_float(value.dtype) and kinds[0] in _ASSOCIATIVE:
        function = partial(in_any_order, FUNCTIONS[kinds[0]], extents, shape)
    elif kinds in (["add"], ["mul"]):
        function = partial(accumulated, FUNCTIONS[kinds[0]], extents, shape)
    elif set(kinds) in ({"max"}, {"min"}) and len({swap for _, swap in chain}) == 1:
        of_equal = first_extreme if chain[0][1] else extreme
        function = partial(of_equal, FUNCTIONS[kinds[0]], extents, shape)
    return noted(function, value.dtype, value, *operands)


def in_any_order(
    function: np.ufunc, extents: tuple[int, ...], shape: tuple[int, ...], value: Array, x: Array
) -> Array:
    """Integers: all steps at once."""
    total = function.reduce(_rows(x, extents, shape), axis=0, dtype=x.dtype)
    return np.asarray(function(value, total))


def _rows(x: Array, extents: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """The operands of all steps, one after the other in memory: NumPy then reduces them fast."""
    return np.ascontiguousarray(np.broadcast_to(x, extents + shape)).reshape(-1, *shape)


def _after(
    value: Array, operands: Sequence[Array], extents: tuple[int, ...], shape: tuple[int, ...]
) -> Array:
    """The accumulator, and after it the operands of all steps."""
    rows = np.empty((prod(extents) * len(operands) + 1, *shape), value.dtype)
    rows[0] = value
    for number, each in enumerate(operands):
        rows[1 + number :: len(operands)] = _rows(each, extents, shape)
    return rows


def accumulated(
    function: np.ufunc, extents: tuple[int, ...], shape: tuple[int, ...], value: Array, x: Array
) -> Array:
    """Floats, added or multiplied one by one."""
    rows = _after(value, [x], extents, shape)
    return np.asarray(function.accumulate(rows, out=rows)[-1])


def in_order(
    chain: Sequence[tuple[Callable[..., Array], bool]], extents: tuple[int, ...],
    shape: tuple[int, ...], value: Array, *operands: Array,
) -> Array:  # fmt: skip
    """Step after step."""
    rows = [np.broadcast_to(operand, extents + shape) for operand in operands]
    for step in np.ndindex(*extents):
        for (function, swap), row in zip(chain, rows, strict=True):
            value = function(row[step], value) if swap else function(value, row[step])
    return value


def extreme(
    function: np.ufunc, extents: tuple[int, ...], shape: tuple[int, ...], value: Array,
    *operands: Array,
) -> Array:  # fmt: skip
    """The largest or smallest float, as C's comparisons choose it in order.

    Of zeros of both signs, the last one. A NaN restarts the comparison with the next element.
    """
    rows = _after(value, operands, extents, shape)
    best = function.reduce(rows, axis=0)
    if np.isnan(best).any():
        is_nan = np.isnan(rows[:-1])
        later = np.logical_or.accumulate(is_nan[::-1])[::-1]
        rows[:-1][later] = -np.inf if function is np.maximum else np.inf
        best = function.reduce(rows, axis=0)
    if not best.all():
        last = len(rows) - 1 - (rows == 0)[::-1].argmax(axis=0)
        best = np.where(best == 0, np.take_along_axis(rows, last[np.newaxis], axis=0)[0], best)
    return np.asarray(best)


def first_extreme(
    function: np.ufunc, extents: tuple[int, ...], shape: tuple[int, ...], value: Array,
    *operands: Array,
) -> Array:  # fmt: skip
    """The same of `operand > value ? operand : value`, where the operand stands first.

    Of zeros of both signs the first; NaNs are passed over, but one to begin with stays.
    """
    rows = _after(value, operands, extents, shape)
    rows[np.isnan(rows)] = -np.inf if function is np.maximum else np.inf
    best = function.reduce(rows, axis=0)
    first = np.take_along_axis(rows, (rows == 0).argmax(axis=0)[np.newaxis], axis=0)[0]
    return np.where(np.isnan(value), value, np.where(best == 0, first, best))


def _mask(point: Sequence[int], bounds: Sequence[tuple[Array, Array]]) -> Array | None:
    """The elements that have this reduce point; None for all."""
    if all(start.ndim == stop.ndim == 0 for start, stop in bounds):
        return None
    mask = np.asarray(True)
    for position, (start, stop) in zip(point, bounds, strict=True):
        mask = mask & (start <= position) & (position < stop)
    return mask
