"""Convolution and dense on MVE: vectors of bytes along the input channels."""

from __future__ import annotations

from dataclasses import dataclass

import edgec.loop.microkernels  # noqa: F401  registers what is named here
from edgec.errors import ScheduleError
from edgec.loop.ir import Binary, Cast, Const, Expr, Intrinsic, PrimFunc, Store
from edgec.loop.lowering import MATRIX
from edgec.loop.microkernels.mve_matrix import CONV_UNIT, DENSE_UNIT
from edgec.loop.policies.common import find_param
from edgec.loop.rewrite import walk
from edgec.loop.schedule import Schedule
from edgec.loop.window import Window

#: Forms worth trying for an operator with its requantize, the fastest first.
FORMS = {"conv2d": (MATRIX,), "dense": (MATRIX,)}


def mve_forms(operators: tuple[str, ...]) -> tuple[str, ...]:
    """Forms for a group of these operators; what does not fit them yields no schedule."""
    if operators[1:] != ("requantize",):
        return ()
    return FORMS.get(operators[0], ())


@dataclass(frozen=True)
class Limits:
    """What is added to a rescaled sum, and the range that it is then limited to."""

    zero_point: int
    minimum: int
    maximum: int

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers as microkernels call them."""
        return {
            "zero_point": self.zero_point, "minimum": self.minimum, "maximum": self.maximum
        }  # fmt: skip


def schedule_vectors(func: PrimFunc, form: str, window: Window | None) -> Schedule | None:
    """A function lowered in one of the forms on microkernels; None where they cannot do it."""
    limits = find_limits(func)
    if limits is None:
        return None
    schedule = Schedule(func)
    try:
        if form == MATRIX:
            _matrix(schedule, limits, window)
    except ScheduleError:
        return None
    return schedule


def _matrix(schedule: Schedule, limits: Limits, window: Window | None) -> None:
    """All pixels in one call: the output follows the input through memory."""
    if window is not None and not window.is_pixel:
        raise ScheduleError("the windows are not single pixels")
    pixels, channels = find_param(schedule.func, "out").shape
    depth = find_param(schedule.func, "w").shape[1]
    schedule.compute_at("acc", "out_d1")
    schedule.decompose_reduction("acc", "acc_k")
    schedule.simplify()
    if pixels == 1 and channels >= DENSE_UNIT:
        sizes = {"depth": depth, "channels": channels, **limits.sizes}
        schedule.tensorize("out_d1", "ec_dense_s8_mve", sizes)
        return
    _require_channels(channels)
    sizes = {
        "kernel_h": 1, "kernel_w": 1, "in_channels": depth, "pitch": 0, "step": depth,
        "pixels": pixels, "channels": channels, **limits.sizes,
    }  # fmt: skip
    schedule.tensorize("out_d0" if pixels > 1 else "out_d1", "ec_conv_s8_mve", sizes)


def _require_channels(channels: int) -> None:
    if channels < CONV_UNIT:
        raise ScheduleError("there are fewer channels than a unit has")


def find_limits(func: PrimFunc) -> Limits | None:
    """How a function's output ends, if that is clamp(rescaled + zero point) to int8."""
    stores = [s for s, _ in walk(func.body) if isinstance(s, Store) and s.buffer.name == "out"]
    if len(stores) != 1 or not isinstance(stores[0].value, Cast):
        return None
    upper = _with_constant(stores[0].value.value, "min")
    lower = None if upper is None else _with_constant(upper[0], "max")
    offset = None if lower is None else _with_constant(lower[0], "add")
    if upper is None or lower is None or offset is None:
        return None
    rounded = offset[0]
    if not isinstance(rounded, Intrinsic) or rounded.name != "requantize_tflm_right":
        return None
    return Limits(offset[1], lower[1], upper[1])


def _with_constant(expr: Expr, op: str) -> tuple[Expr, int] | None:
    if isinstance(expr, Binary) and expr.op == op and isinstance(expr.right, Const):
        return expr.left, int(expr.right.value)
    return None
