"""Convolution and dense for the DSP extension: packed inputs, two channels to a weight word."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

import edgec.loop.microkernels  # noqa: F401  registers what is named here
from edgec.errors import ScheduleError
from edgec.loop.intrinsics import INT32_MAX, INT32_MIN, requantize_tflm_right
from edgec.loop.ir import Binary, Const, Intrinsic, PrimFunc, Store
from edgec.loop.lowering import COLUMNS, PADDED_COLUMNS, PLAIN_ROW, ROW
from edgec.loop.policies.common import find_param
from edgec.loop.rewrite import subexpressions, walk
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.loop.window import Window

#: Forms worth trying for a convolution or dense with its requantize, the fastest first.
FORMS = {"conv2d": (PADDED_COLUMNS, COLUMNS, ROW), "dense": (ROW, PLAIN_ROW)}

#: The sum of the second channel of a pair is told as 256 times itself.
MOST_SUM = 1 << 23
#: Inputs of a window that the runtime gathers byte by byte.
MOST_TAPS = 80


def _most_shift(zero_point: int) -> int:
    """Beyond, the constant of the short requantization, a rounded zero point, does not fit."""
    return 15 if zero_point == -128 else 22


def product_forms(operators: tuple[str, ...]) -> tuple[str, ...]:
    """Forms for a group of these operators; what does not fit them yields no schedule."""
    if operators[1:] != ("requantize",):
        return ()
    return FORMS.get(operators[0], ())


def schedule_product(
    func: PrimFunc, form: str, tables: Mapping[str, Array], window: Window | None
) -> Schedule | None:
    """A function lowered as a product, on microkernels; None where they cannot do it."""
    pixels, channels = find_param(func, "out").shape
    zero_point = _zero_point(func)
    if zero_point is None:
        return None
    constants = settled(tables, zero_point)
    if not _has_short_requantization(constants, zero_point):
        return None
    by_three = form in (COLUMNS, PADDED_COLUMNS)
    if channels < (2 if by_three else 4) or by_three != (pixels >= 3):
        return None
    if form == PADDED_COLUMNS and not is_worth_padding(window):
        return None
    quads = tables["w"].shape[1]
    schedule = Schedule(func)
    sizes = {"channels": channels, "zero_point": zero_point}
    try:
        if by_three:
            block, lane = schedule.split("out_d0", 3, tail="shift")
            schedule.compute_at("acc", "out_d1")
            schedule.compute_at("col", block, scope="scratch")
            schedule.decompose_reduction("acc", "acc_q")
            schedule.simplify()
            schedule.tensorize(lane, "ec_matrix_3_s8_dsp", {"quads": quads, **sizes})
            if form == PADDED_COLUMNS and window is not None:
                window = _pad(schedule, pixels, window)
            _pack_columns(schedule, pixels, window)
        elif form == ROW:
            schedule.compute_at("acc", "out_d1")
            schedule.compute_at("col", "out_d0", scope="scratch")
            schedule.decompose_reduction("acc", "acc_q")
            schedule.simplify()
            schedule.tensorize("out_d1", "ec_matrix_1_s8_dsp", {"octets": quads // 2, **sizes})
            depth = find_param(func, "x").elements // pixels
            schedule.tensorize("col_q", "ec_pack_row_s8_dsp", {"depth": depth})
        else:
            schedule.compute_at("acc", "out_d1")
            schedule.decompose_reduction("acc", "acc_q")
            schedule.simplify()
            schedule.tensorize(
                "out_d1", "ec_matrix_1_plain_s8_dsp", {"octets": quads // 2, **sizes}
            )
    except ScheduleError:
        return None
    for name, array in constants.items():
        if not np.array_equal(array, tables[name]):
            schedule.repacked[name] = _replaced(array)
    return schedule


def _replaced(array: Array) -> Callable[[Array], Array]:
    return lambda before: array


def _pack_columns(schedule: Schedule, pixels: int, window: Window | None) -> None:
    loop = "col_q" if find_param(schedule.func, "col").elements > 12 else "col_s"  # of one step
    if window is None or window.is_pixel:
        depth = find_param(schedule.func, "x").shape[-1]
        schedule.tensorize(loop, "ec_pack_rows_3_s8_dsp", {"depth": depth})
        return
    channels, (_, kernel_w) = window.shape[2], window.kernel
    in_words = kernel_w * channels % 4 == 0 and not window.is_padded and window.dilation[1] == 1
    kernel = "ec_pack_windows_3_s8_dsp"
    if channels % 4 != 0 and not in_words:
        kernel = "ec_pack_taps_3_s8_dsp"
        if window.depth > MOST_TAPS or window.dilation[1] > 1:
            raise ScheduleError("the inputs of a window are no whole words")
    first = {"pixel": f"min(out_d0_o*3, {pixels - 3})" if pixels > 3 else "0"}  # one step, no loop
    schedule.tensorize(loop, kernel, window.sizes, first)


def is_worth_padding(window: Window | None) -> bool:
    """Whether a padded copy helps: few channels, so that taps at the edges are slow."""
    return window is not None and window.is_padded and window.shape[2] % 4 != 0


def _pad(schedule: Schedule, pixels: int, window: Window) -> Window:
    """Pad on a microkernel; the window over the copy."""
    inner = window.padded(pixels // window.out_width)
    names = ("height", "width", "channels", "top", "left", "zero_point")
    sizes = {name: window.sizes[name] for name in names}
    sizes |= {"out_height": inner.shape[0], "out_width": inner.shape[1]}
    schedule.tensorize("padded_h", "ec_pad_s8", sizes)
    return inner


def _zero_point(func: PrimFunc) -> int | None:
    """The zero point added to rescaled sums, if the result is then only saturated to int8."""
    for stmt, _ in walk(func.body):
        if not isinstance(stmt, Store) or stmt.buffer.name != "out":
            continue
        for part in subexpressions(stmt.value):
            if (
                isinstance(part, Binary)
                and part.op == "add"
                and isinstance(part.left, Intrinsic)
                and part.left.name == "requantize_tflm_right"
                and isinstance(part.right, Const)
            ):
                return int(part.right.value)
    return None


def _bounds(tables: Mapping[str, Array]) -> tuple[Array, Array]:
    """The least and the largest sum of each channel, for any int8 inputs."""
    w = tables["w"].reshape(tables["w"].shape[0], -1).astype(np.int64)
    bias = tables["bias"].astype(np.int64)
    low, high = w * -128, w * 127
    return bias + np.minimum(low, high).sum(axis=1), bias + np.maximum(low, high).sum(axis=1)


def settled(tables: Mapping[str, Array], zero_point: int) -> dict[str, Array]:
    """The tables with channels that are always the same told by small numbers.

    Training leaves channels with a huge bias and a tiny scale; what they give is one value.
    """
    result = {name: tables[name].copy() for name in ("w", "bias", "multiplier", "shift")}
    most = _most_shift(zero_point)
    for channel, (low, high) in enumerate(zip(*_bounds(tables), strict=True)):
        multiplier, shift = tables["multiplier"][channel], tables["shift"][channel]
        is_plain = multiplier >= 1 << 30 and shift >= -most
        if is_plain and low >= -MOST_SUM and high < MOST_SUM:
            continue
        if low < INT32_MIN or high > INT32_MAX or shift > 0:
            continue
        scale = int(multiplier), int(shift)
        rounded = [requantize_tflm_right(int(end), *scale) + zero_point for end in (low, high)]
        first, last = (min(max(value, -128), 127) for value in rounded)
        if first == last:  # a quarter of four times the value is exact
            result["w"][channel] = 0
            result["bias"][channel] = 4 * (first - zero_point)
            result["multiplier"][channel], result["shift"][channel] = 1 << 30, -1
    return result


def _has_short_requantization(tables: Mapping[str, Array], zero_point: int) -> bool:
    """Whether the weights can share words, and the sums be rescaled in a few instructions.

    The correction of negative ties is right only where a second rounding follows.
    """
    least, most = _bounds(tables)
    shift = tables["shift"].astype(np.int64)
    return bool(
        tables["w"].min(initial=0) >= -127
        and most.max() < MOST_SUM
        and least.min() >= -MOST_SUM
        and tables["multiplier"].min() >= 1 << 30
        and shift.max() <= (0 if zero_point == -128 else -1)
        and shift.min() >= -_most_shift(zero_point)
    )
