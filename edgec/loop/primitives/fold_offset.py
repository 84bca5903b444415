"""fold_offset: move the offset that a sum adds to each input into its initial value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.ir import Cast, If, Load, PrimFunc, Store
from edgec.loop.primitives.lookup import with_changes
from edgec.loop.primitives.sum_term import SumTerm, find_term
from edgec.loop.primitives.tensorize import Packed

Array = npt.NDArray[Any]


def fold_offset(func: PrimFunc, block: str, buffer: str) -> tuple[PrimFunc, Packed]:
    """Add the offset of all inputs of a sum of products at once: to the constant it starts from.

        acc[c] = bias[c]                                acc[c] = bias[c]
        for k in 0..9 {                                 for k in 0..9 {
          acc[c] = acc[c] + (x[k] + 5) * w[c, k]   ->     acc[c] = acc[c] + x[k] * w[c, k]
        }                                               }

    and 5 * (w[c, 0] + ... + w[c, 8]) is added to bias[c] at compile time: exact, since sums of
    integers wrap. Requires: every output adds all products with the weights of its index, and
    starts from a constant with this index. Returns how to make that constant anew.
    """
    term = find_term("fold_offset", func, block, buffer)
    start, weight = _start(term), term.weight
    while isinstance(weight, Cast):
        weight = weight.value
    if not isinstance(weight, Load) or weight.buffer.scope != "constant":
        raise ScheduleError(f"fold_offset: the products of {block} are not by constants")
    (channel,) = start.indices
    own = [axis for axis, index in enumerate(weight.indices) if index == channel]
    steps = {axis.var for axis in term.block.axes if axis.kind == "reduce"}
    others = [index for axis, index in enumerate(weight.indices) if axis not in own]
    if len(own) != 1 or any(not index.variables() <= steps for index in others):
        raise ScheduleError(f"fold_offset: the weights of {block} do not belong to an output")
    outputs = {var for a in term.block.axes if a.kind != "reduce" for var in a.binding.variables()}
    moved = [a for a in term.block.axes if a.kind == "reduce" and a.binding.variables() & outputs]
    is_guarded = any(isinstance(stmt, If) for stmt in term.above)
    varies = any(None in (loop.start.constant, loop.stop.constant) for loop in term.loops)
    if moved or is_guarded or varies:
        raise ScheduleError(f"fold_offset: not every output of {block} adds all products")
    for index, extent in zip(weight.indices, weight.buffer.shape, strict=True):
        if index not in start.indices and index.bounds() != (0, extent - 1):
            raise ScheduleError(f"fold_offset: {block} does not add all products")
    sources = {"start": start.buffer.name, "weights": weight.buffer.name}
    made = Packed(start.buffer.name, sources, partial(_folded, own[0], term.offset))
    return with_changes(func, [(term.block, term.with_read(term.read, 0))]), made


def _folded(own: int, offset: int, arrays: Mapping[str, Array]) -> Array:
    """The constant plus the offset's share in each channel; own: the dimension of channels."""
    weights, bias = arrays["weights"], arrays["start"]
    axes = tuple(axis for axis in range(weights.ndim) if axis != own)
    total = bias.astype(np.int64) + offset * weights.sum(axis=axes, dtype=np.int64)
    return np.asarray(total.astype(bias.dtype))


def _start(term: SumTerm) -> Load:
    store = term.block.init
    value = store.value if isinstance(store, Store) else None
    if not isinstance(value, Load) or value.buffer.scope != "constant" or len(value.indices) != 1:
        raise ScheduleError(f"fold_offset: {term.block.name} does not start from a constant")
    if value.buffer.dtype not in ("int32", "int64"):
        raise ScheduleError(f"fold_offset: {value.buffer.name} holds no integers")
    return value


def adds_offset(func: PrimFunc, block: str, buffer: str) -> bool:
    """Whether a sum of products adds a number to each element that it reads from a buffer."""
    return bool(find_term("fold_offset", func, block, buffer).offset)
