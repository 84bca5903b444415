"""Sums of a nest rescaled by a line, where that is proven to store the same values.

    out[c] = int8(min(max(requantize_tflm(acc[c], multiplier[c], int32(shift[c])) - 128, ..
    out[c] = int8(min(max(multiply_add_high(acc[c], multiplier[c], int32(offset[c]) << 8, -128), ..
    out[c] = int8(min(max(rescale_parts(acc[c], multiplier[c], int32(offset[c])) - 128, ..

`edgec.numerics.short_rescale` defines lines, and finds and proves them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgec.loop.access import accesses
from edgec.loop.intrinsics import get_intrinsic
from edgec.loop.ir import Block, Buffer, Cast, Intrinsic, Load, PrimFunc, Stmt, Store, shared
from edgec.loop.primitives.lookup import fresh, with_changes
from edgec.loop.rewrite import blocks_of, with_constants
from edgec.loop.values import Array, ExprValue, as_expr, cast, clamp, int32, intrinsic
from edgec.numerics.short_rescale import PART_BITS, Line, find_staircase, high_line, parts_line

#: By the upper word of a product, for cores with a long multiply; by a multiplier in parts.
HIGH, PARTS = "high", "parts"
#: By method: the search for a line, the multipliers' dtype, and the shift at which offsets are
#: added.
WAYS = {HIGH: (high_line, "int32", 16), PARTS: (parts_line, "uint32", PART_BITS[0])}
#: Ways to round that may have a line: ties to even are seldom on one.
ROUNDED = {("int8", f"requantize_{way}") for way in ("tflm", "tflm_right", "single")}


@dataclass(frozen=True)
class Ending:
    """clamp(`rounded` + zero_point, minimum, maximum), stored as `dtype`."""

    rounded: Intrinsic
    zero_point: int
    minimum: int
    maximum: int
    dtype: str


@dataclass(frozen=True)
class Accumulators:
    """Sums that a buffer has: the smallest and largest of each channel, if that is known."""

    buffer: str
    interval: Callable[[], tuple[Array, Array] | None]


def ending_of(store: Stmt) -> Ending | None:
    """The rescaling of a statement's value; None unless it stores one rescaled number."""
    if not isinstance(store, Store) or not isinstance(store.value, Cast):
        return None
    dtype, found = store.buffer.dtype, with_constants(store.value.value, "min", "max", "add")
    rounded, (maximum, minimum, zero_point) = found or (None, (0, 0, 0))
    if not isinstance(rounded, Intrinsic) or (zero_point and dtype != "int8"):
        return None
    return Ending(rounded, zero_point, minimum, maximum, dtype)


def by_line(
    func: PrimFunc, tables: Mapping[str, Array], sums: Accumulators | None, way: str
) -> tuple[PrimFunc, Mapping[str, Array]]:
    """The function and its constants, these sums rescaled by a line of this way if one is found."""
    found = _find(func, sums.buffer) if sums is not None and way in WAYS else None
    if found is None or sums is None:
        return func, tables
    block, ending, constants = found
    line = _line(ending, [tables[constant.name] for constant in constants], sums, way)
    return (func, tables) if line is None else _with(func, tables, block, ending, line, way)


def _find(func: PrimFunc, sums: str) -> tuple[Block, Ending, list[Buffer]] | None:
    """The block that rescales elements of a buffer, and the constants that it alone does so by."""
    for block in blocks_of(func.body).values():
        ending = ending_of(block.body)
        if ending is None or (ending.dtype, ending.rounded.name) not in ROUNDED:
            continue
        loads = [a.value if isinstance(a, Cast) else a for a in ending.rounded.args]
        buffers = [load.buffer for load in loads if isinstance(load, Load)]
        read = sum(access.buffer in buffers[1:] for access in accesses(func.body))
        if [b.name for b in buffers[:1]] == [sums] and len(buffers) == len(loads) == read + 1:
            return block, ending, buffers[1:]
    return None


def _line(ending: Ending, factors: list[Array], sums: Accumulators, way: str) -> Line | None:
    interval = sums.interval()
    if interval is None:
        return None
    low, high = interval
    multiplier, shift = (each.astype(np.int64) for each in factors)
    single, zero_point = len(multiplier) == 1, ending.zero_point
    if single:
        low, high = low.min(keepdims=True), high.max(keepdims=True)
    rescale, limits = get_intrinsic(ending.rounded.name).on_arrays, (ending.minimum, ending.maximum)
    assert rescale is not None
    stairs = find_staircase(
        lambda acc: np.clip(rescale(acc, multiplier, shift) + zero_point, *limits),
        low, high, multiplier * 2.0 ** (shift - 31), zero_point, limits,
    )  # fmt: skip
    return None if stairs is None else WAYS[way][0](stairs, zero_point, single)


def _with(
    func: PrimFunc, tables: Mapping[str, Array], block: Block, ending: Ending, line: Line, way: str
) -> tuple[PrimFunc, Mapping[str, Array]]:
    """The function with the line in place of the block's last operations."""
    _, dtype, added_at = WAYS[way]
    acc, load, last = ending.rounded.args
    assert isinstance(load, Load) and isinstance(last, Cast) and isinstance(last.value, Load)
    store, old, offset = block.body, (load.buffer, last.value.buffer), line.offset
    shift = line.offset_shift - added_at
    arrays: list[Array] = [line.multiplier.astype(dtype), offset]
    if len(offset) == 1:  # layers that differ in the shift share their code then
        arrays[1], shift = offset.astype(np.int32) << shift, 0
    names = (load.buffer.name, fresh(func, "offset"))
    new = [Buffer(n, a.shape, a.dtype.name, "constant") for n, a in zip(names, arrays, strict=True)]
    factor, last_value = (ExprValue(Load(each, load.indices)) for each in new)
    added = int32(last_value) << shift if shift else int32(last_value)
    if way == PARTS:
        total = intrinsic("rescale_parts", ExprValue(acc), factor, added) + ending.zero_point
    else:
        high = intrinsic("multiply_add_high", ExprValue(acc), factor, added, line.start >> 32)
        total = high >> line.shift - 32 if line.shift > 32 else high
    stored = as_expr(cast(clamp(total, ending.minimum, ending.maximum), ending.dtype), ending.dtype)
    assert isinstance(store, Store)
    made = with_changes(func, [(block, replace(block, body=replace(store, value=stored)))])
    by_old = dict(zip(old, new, strict=True))
    own = {each.name: (n, a) for each, n, a in zip(old, names, arrays, strict=True)}
    return (
        shared(replace(made, params=tuple(by_old.get(p, p) for p in func.params))),
        dict(own.get(name, (name, array)) for name, array in tables.items()),
    )
