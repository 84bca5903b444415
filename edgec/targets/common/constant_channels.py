"""Channels whose results never change, given by numbers that microkernels can take."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from edgec.loop.intrinsics import INT32_MAX, INT32_MIN, requantize_onnx, requantize_tflm
from edgec.loop.ir import PrimFunc
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.targets.common.kernels.rescaling import Rescaling
from edgec.targets.common.limits import find_limits
from edgec.targets.common.sums import Kind, find_sums

#: Microkernels return sums times 256.
MOST_SUM = 1 << 23
#: Scales of floats: neither do products leave int32, nor 256ths lose bits.
LEAST_SCALE, MOST_SCALE = 2.0**-60, 2.0**7


def most_shift(zero_point: int) -> int:
    """Beyond, the constant of the short requantization, a rounded zero point, does not fit."""
    return 15 if zero_point == -128 else 22


def sum_bounds(tables: Mapping[str, Array]) -> tuple[Array, Array]:
    """The least and the largest sum of each channel, for any int8 inputs."""
    w = tables["w"].reshape(tables["w"].shape[0], -1)
    bias = tables["bias"].astype(np.int64)
    positive, negative = (
        some(w, 0).sum(axis=1, dtype=np.int64) for some in (np.maximum, np.minimum)
    )
    return bias - 128 * positive + 127 * negative, bias + 127 * positive - 128 * negative


def folded_channels(func: PrimFunc, tables: Mapping[str, Array]) -> Mapping[str, Array]:
    """The constants of a nest, with small numbers for channels whose output never changes.

    Training leaves channels with a huge bias and a tiny scale, whose output is one value. Where a
    layer has one factor, the rules that spread it over the channels do the same afterwards.
    """
    limits, sums = find_limits(func), find_sums(func)
    if limits is None or sums is None or not tables.keys() >= set(limits.rescaling.sources):
        return tables
    axis = -1 if sums.kind is Kind.CHANNEL_WINDOWS else 0
    w = np.moveaxis(tables["w"], axis, 0)
    if any(len(array) != len(w) for array in (tables[k] for k in limits.rescaling.sources[1:])):
        return tables
    folded = fold_constant_channels({**tables, "w": w}, limits.rescaling, limits.zero_point)
    folded["w"] = np.ascontiguousarray(np.moveaxis(folded["w"], 0, axis))
    changed = {k: made for k, made in folded.items() if not np.array_equal(made, tables[k])}
    return {**tables, **changed}


def fold_constant_channels(
    tables: Mapping[str, Array], rescaling: Rescaling, zero_point: int
) -> dict[str, Array]:
    """The same of tables that have an entry for each channel, the weights' first axis."""
    result = {name: tables[name].copy() for name in rescaling.sources}
    if "scale" in rescaling.tables:
        info = np.iinfo(rescaling.result)
        _fold_by_scales(result, zero_point, (int(info.min), int(info.max)))
    else:
        _fold_by_multipliers(result, zero_point)
    return result


def _fold_by_scales(result: dict[str, Array], zero_point: int, limits: tuple[int, int]) -> None:
    bounds = sum_bounds(result)
    for channel, (low, high) in enumerate(zip(*bounds, strict=True)):
        scale = float(result["scale"][channel])
        fits = LEAST_SCALE <= scale < MOST_SCALE and low >= -MOST_SUM and high < MOST_SUM
        if fits or low < INT32_MIN or high > INT32_MAX:
            continue
        rounded = [requantize_onnx(int(end), scale) + zero_point for end in (low, high)]
        first, last = (min(max(value, limits[0]), limits[1]) for value in rounded)
        if first == last and scale >= 0:
            result["w"][channel] = 0
            result["bias"][channel] = first - zero_point
            result["scale"][channel] = 1.0


def _fold_by_multipliers(result: dict[str, Array], zero_point: int) -> None:
    tables = {name: array.copy() for name, array in result.items()}
    most = most_shift(zero_point)
    for channel, (low, high) in enumerate(zip(*sum_bounds(tables), strict=True)):
        multiplier, shift = tables["multiplier"][channel], tables["shift"][channel]
        is_plain = multiplier >= 1 << 30 and shift >= -most
        if is_plain and low >= -MOST_SUM and high < MOST_SUM:
            continue
        if low < INT32_MIN or high > INT32_MAX or shift > 0:
            continue
        scale = int(multiplier), int(shift)
        rounded = [requantize_tflm(int(end), *scale) + zero_point for end in (low, high)]
        first, last = (min(max(value, -128), 127) for value in rounded)
        if first == last:  # 128 times the result, times 2**-7: exact, by a shift that kernels take
            result["w"][channel] = 0
            result["bias"][channel] = 128 * (first - zero_point)
            result["multiplier"][channel], result["shift"][channel] = 1 << 30, -6


def has_plain_scales(constants: Mapping[str, Array]) -> bool:
    """Whether kernels that rescale by floats take these, as far as scales go."""
    if "scale" not in constants:
        return True
    scale = constants["scale"]
    return bool(scale.min() >= LEAST_SCALE and scale.max() < MOST_SCALE)


def replace_constants(
    schedule: Schedule, tables: Mapping[str, Array], constants: Mapping[str, Array]
) -> None:
    """Replace the function's `tables` that differ from `constants`."""
    for name, array in constants.items():
        if not np.array_equal(array, tables[name]):
            schedule.repacked[name] = _replaced(array)


def _replaced(array: Array) -> Callable[[Array], Array]:
    return lambda before: array
