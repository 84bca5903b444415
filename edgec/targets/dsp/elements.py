"""Sums of two int8 tensors on a kernel for the DSP extension."""

from __future__ import annotations

from edgec.loop.ir import Binary, Buffer, Cast, Expr, Load
from edgec.loop.schedule import Schedule
from edgec.targets.common.elements import limited, on_elements
from edgec.targets.common.nests import find_param, with_constant
from edgec.targets.rule import Nest

#: A sum of fewer elements saves less time than the kernel takes code, unless it is one row of many.
FEWEST_SUMS = 512


def schedule_add(nest: Nest) -> list[Schedule]:
    """A sum of two tensors, lowered in the form FLOORED; none for all others."""
    func = nest.func
    if not nest.in_rows and find_param(func, "out").elements < FEWEST_SUMS:
        return []
    bounded = limited(func)
    moved = bounded and with_constant(bounded, "sub")
    shifted = moved and moved[1] == 128 and with_constant(moved[0], "shr")
    if not shifted or shifted[1] != 16 or not isinstance(shifted[0], Binary):
        return []
    total = with_constant(shifted[0].left, "add")
    factors = [total and _floored_factor(total[0]), _floored_factor(shifted[0].right)]
    if shifted[0].op != "add" or total is None or None in factors:
        return []
    (first, second), (operand, other) = zip(*filter(None, factors), strict=True)
    sizes = {"first": first, "second": second, "constant": total[1]}
    total_on_kernel = on_elements(func, (operand, other), "ec_add_s8_dsp", sizes, multiple=4)
    return [] if total_on_kernel is None else [total_on_kernel]


def _floored_factor(term: Expr) -> tuple[int, Buffer] | None:
    """The factor and the buffer of int32(int64(x) * factor >> 8)."""
    shifted = with_constant(term.value, "shr") if isinstance(term, Cast) else None
    product = shifted and shifted[1] == 8 and with_constant(shifted[0], "mul")
    if not product:
        return None
    loaded: Expr = product[0]
    while isinstance(loaded, Cast):
        loaded = loaded.value
    if not isinstance(loaded, Load) or loaded.buffer.dtype != "int8":
        return None
    return product[1], loaded.buffer
