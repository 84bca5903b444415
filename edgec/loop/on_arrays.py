"""The second reading of a definition: its stages on NumPy arrays, whole index grids at once.

The steps of a reduction are taken together where what they do with the accumulator is a chain of
operations (`acc + x * w`): the operands of all steps are computed at once, then combined in the
order of the steps, so that floats have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.errors import ContractError
from edgec.loop.dtype import is_float
from edgec.loop.values import (
    FUNCTIONS,
    Accumulator,
    Array,
    ArrayValue,
    NotAChain,
    Operand,
    apply,
    as_array,
    name_of,
)
from edgec.numerics.term import Term, Var, as_term

if TYPE_CHECKING:
    from edgec.loop.define import Bound, Stage, Tensor

#: Most elements that the steps of a reduction compute at once.
_MOST_AT_ONCE = 1 << 20
#: What integers and truths may be combined by in any order.
_ASSOCIATIVE = ("add", "mul", "min", "max", "and", "or", "xor")


@lru_cache(maxsize=512)
def index_grids(shape: tuple[int, ...]) -> tuple[Array, ...]:
    """For each axis its indices, along that axis: the same arrays for the same shape."""
    grids = []
    for position, extent in enumerate(shape):
        form = [1] * len(shape)
        form[position] = extent
        grids.append(np.arange(extent).reshape(form))
    return tuple(grids)


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


def run_stage(stage: Stage, arrays: dict[str, Array], step: int) -> None:
    """Store what a stage computes in its array."""
    if 0 in stage.shape:
        return
    grids = index_grids(stage.shape)
    at = [np.asarray(step), *grids] if stage.steps is not None else grids
    dtype = stage.target.dtype
    value = np.broadcast_to(as_array(stage.init(*at), dtype), stage.shape)
    if stage.update is not None:
        value = _reduced(stage, value, at)
    if name_of(value.dtype) != dtype:
        raise ContractError(f"stage {stage.name} computes {value.dtype}, not {dtype}")
    if stage.at is None and stage.shape == stage.target.shape:
        arrays[stage.target.name] = np.array(value)
        return
    where = grids if stage.at is None else list(stage.at(*at))
    full = np.broadcast_arrays(*(np.asarray(w) for w in where), np.empty(stage.shape))[:-1]
    arrays[stage.target.name][tuple(full)] = value


def _reduced(stage: Stage, value: Array, at: Sequence[Array]) -> Array:
    """The accumulators after all steps."""
    bounds = [(bound_on(start, at), bound_on(stop, at)) for _, start, stop in stage.reduce_axes]
    if any((stop <= start).all() for start, stop in bounds):
        return value
    joined = _joined(bounds, prod(stage.shape))
    try:
        return _stepped(stage, value, at, bounds, joined)
    except NotAChain:
        return _stepped(stage, value, at, bounds, 0)
    finally:
        stage.target.owner.mask = None


def _joined(bounds: Sequence[tuple[Array, Array]], elements: int) -> int:
    """How many of the last axes are taken at once: their bounds are the same everywhere."""
    count = 0
    for start, stop in reversed(bounds):
        elements *= int(stop.max() - start.min())
        if start.ndim or stop.ndim or elements > _MOST_AT_ONCE:
            break
        count += 1
    return count


def _stepped(
    stage: Stage, value: Array, at: Sequence[Array], bounds: Sequence[tuple[Array, Array]],
    joined: int,
) -> Array:  # fmt: skip
    """The accumulators after all steps, of which those of the last `joined` axes are one."""
    assert stage.update is not None
    single, together = bounds[: len(bounds) - joined], bounds[len(bounds) - joined :]
    lines = [np.arange(int(start), int(stop)) for start, stop in together]
    ranges = index_grids((*(line.size for line in lines), *(1 for _ in stage.shape)))
    steps = [line[grid] for line, grid in zip(lines, ranges, strict=False)]
    outer = [grid.reshape((1,) * (joined + len(stage.shape) - grid.ndim) + grid.shape)
             for grid in at] if joined else at  # fmt: skip
    for offset in np.ndindex(*(int(stop.max() - start.min()) for start, stop in single)):
        point = [int(b[0].min()) + s for b, s in zip(single, offset, strict=True)]
        mask = stage.target.owner.mask = _mask(point, single, stage.shape)
        acc = Accumulator(name_of(value.dtype)) if joined else ArrayValue(value)
        found = stage.update(acc, *outer, *(np.asarray(p) for p in point), *steps)
        if joined:
            new = _combined(value, found, tuple(line.size for line in lines))
        else:
            new = as_array(found, stage.target.dtype)
        value = new if mask is None else np.where(mask, new, value)
    return value


def _combined(value: Array, found: Operand, extents: tuple[int, ...]) -> Array:
    """The accumulators after the chain of each step, in order."""
    if not isinstance(found, Accumulator):
        raise NotAChain
    axes = tuple(range(len(extents)))
    chain = [(op, np.broadcast_to(x, extents + value.shape), swap) for op, x, swap in found.chain]
    op, operand, _ = chain[0] if len(chain) == 1 else ("", value, False)
    if op in _ASSOCIATIVE and not is_float(found.dtype):
        total = FUNCTIONS[op].reduce(operand, axis=axes, dtype=operand.dtype)
        return apply(op, value, total)
    if op == "add":
        rows = operand.reshape(-1, *value.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.add.accumulate(np.concatenate([value[None], rows]))[-1])
    found_at_once = _extreme(value, chain)
    if found_at_once is not None:
        return found_at_once
    for step in np.ndindex(*extents):
        for op, operand, swap in chain:
            pair = (operand[step], value) if swap else (value, operand[step])
            value = apply(op, *pair)
    return value


def _extreme(value: Array, chain: Sequence[tuple[str, Array, bool]]) -> Array | None:
    """The largest or smallest float; None where the order decides: NaNs, zeros of both signs."""
    kinds = {op for op, _, _ in chain}
    if kinds not in ({"max"}, {"min"}):
        return None
    rows = np.concatenate([value[None], *(x.reshape(-1, *value.shape) for _, x, _ in chain)])
    best = np.asarray(FUNCTIONS[kinds.pop()].reduce(rows, axis=0))
    if np.isnan(best).any():
        return None
    if not best.all():
        is_zero, is_negative = rows == 0, np.signbit(rows)
        both = (is_zero & is_negative).any(axis=0) & (is_zero & ~is_negative).any(axis=0)
        if (both & (best == 0)).any():
            return None
    return best


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


def gathered(tensor: Tensor, array: Array, indices: tuple[Any, ...]) -> Array:
    """The elements of a tensor's array at index grids.

    Raises ContractError where an index that counts leaves the tensor.
    """
    if len(indices) and all(map(is_, indices, index_grids(tensor.shape))):
        return array
    mask, grids = tensor.owner.mask, []
    for position, (index, extent) in enumerate(zip(indices, tensor.shape, strict=True)):
        grid = index.array if isinstance(index, ArrayValue) else np.asarray(index)
        bad = (grid < 0) | (grid >= extent)
        if bad.any():
            if mask is None or (bad & mask).any():
                raise ContractError(
                    f"index {position} of {tensor.name} leaves 0..{extent}",
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
