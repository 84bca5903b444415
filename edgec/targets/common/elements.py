"""Products and sums of two tensors of int8, element by element, on microkernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from edgec.errors import ScheduleError
from edgec.loop.intrinsics import HALF
from edgec.loop.ir import Binary, Buffer, Cast, Const, Expr, Intrinsic, Load, PrimFunc, Store
from edgec.loop.primitives.floor_sum import SumOfTwo, find_sum
from edgec.loop.rewrite import statements, with_constant, with_constants
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import find_param, output_loops

#: The fewest elements of a call, if a nest makes many calls.
FEWEST_ELEMENTS = 16
#: Multipliers below this leave a product of two int8 in 16 bits, a zero point added.
MOST_MULTIPLIER = 1 << 30
#: Right shifts that do so and leave room for adding a zero point.
SHIFTS = range(-20, 0)


def schedule_mul(func: PrimFunc, unit: str) -> list[Schedule]:
    """A product of int8 on the kernel of `dsp` or `mve`; none for all others.

    If each channel of an image is multiplied by its own number, a call does one pixel's channels.
    """
    found = _operands(func)
    if found is None:
        return []
    operands, kernel, sizes = found
    made = on_elements(Schedule(func), operands, f"ec_{kernel}_s8_{unit}", sizes)
    return [] if made is None else [made]


def on_elements(
    schedule: Schedule,
    operands: Sequence[Buffer],
    kernel: str,
    sizes: Mapping[str, int],
    *,
    multiple: int = 1,
) -> Schedule | None:
    """The schedule with calls of a kernel for `count` elements of each operand and of the output.

    A call does the last axes, along which no operand is broadcast. None for few elements, for a
    count that is not a multiple, and if the kernel does not match.
    """
    out = find_param(schedule.func, "out")
    dense = 0
    shapes = [out.shape, *(operand.shape for operand in operands)]
    while dense < min(map(len, shapes)) and len({shape[-1 - dense] for shape in shapes}) == 1:
        dense += 1
    is_whole = dense == len(out.shape)
    count = prod(out.shape[len(out.shape) - dense :])
    if not dense or (count < FEWEST_ELEMENTS and not is_whole) or count % multiple:
        return None
    loop, *inner = output_loops(schedule.func, "out", "out")[-dense:]
    try:
        for name in inner:
            loop = schedule.fuse(loop, name)
        schedule.simplify()
        schedule.tensorize(loop, kernel, {"count": count, **sizes})
    except ScheduleError:
        return None
    return schedule


def _operands(func: PrimFunc) -> tuple[tuple[Buffer, Buffer], str, dict[str, int]] | None:
    """Both buffers of a product, and the kernel that rescales it so, with its numbers."""
    bounded = limited(func)
    if bounded is None:
        return None
    rescaled, zero_point = with_constant(bounded, "add") or (bounded, 0)
    if not isinstance(rescaled, Intrinsic):
        return None
    product, *rest = rescaled.args
    numbers = [int(arg.value) for arg in rest if isinstance(arg, Const)]
    if len(numbers) != len(rest):
        return None
    if rescaled.name == "requantize_tflm" and numbers[1] in SHIFTS:
        kernel, sizes = "mul", {"shift": numbers[1], "zero_point": zero_point}
    elif rescaled.name == "multiply_add_high" and numbers[1] == HALF and rescaled is bounded:
        if numbers[0] >= MOST_MULTIPLIER:
            return None
        kernel, sizes = "mul_high", {"zero_point": numbers[2]}
    else:
        return None
    if not isinstance(product, Binary) or product.op != "mul":
        return None
    buffers, moved = [], []
    for factor in (product.left, product.right):
        value, offset = with_constant(factor, "add") or (factor, 0)
        if not isinstance(value, Cast) or not isinstance(value.value, Load):
            return None
        buffers.append(value.value.buffer)
        moved.append(offset)
    if any(buffer.dtype != "int8" for buffer in buffers):
        return None
    sizes |= {"first": moved[0], "second": moved[1], "multiplier": numbers[0]}
    return (buffers[0], buffers[1]), kernel, sizes


def sum_of_two(func: PrimFunc) -> SumOfTwo | None:
    """The sum of two int8 that a function of one statement stores; None for all others."""
    stores = [s for s in statements(func.body) if isinstance(s, Store)]
    return find_sum(stores[0].value) if len(stores) == 1 else None


def limited(func: PrimFunc) -> Expr | None:
    """The value that a function of one statement limits to int8's range and stores."""
    stores = [s for s in statements(func.body) if isinstance(s, Store)]
    if len(stores) != 1 or not isinstance(stores[0].value, Cast):
        return None
    found = with_constants(stores[0].value.value, "min", "max")
    return found[0] if found and found[1] == [127, -128] else None
