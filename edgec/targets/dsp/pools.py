"""Pools of int8 and sums of its channels on microkernels."""

from __future__ import annotations

from collections.abc import Callable

from edgec.errors import ScheduleError
from edgec.loop.ir import Binary, Cast, Const, For, Load, PrimFunc, Store
from edgec.loop.microkernel import get_microkernel
from edgec.loop.rewrite import statements, subexpressions
from edgec.loop.schedule import Schedule
from edgec.numerics.term import Var
from edgec.targets.common.nests import find_param
from edgec.targets.dsp.kernels.pool import MOST_TAPS, SUMMED
from edgec.targets.rule import Nest


def schedule_pool(
    nest: Nest, kernel: str, lanes: int = 1, most: int | None = None
) -> list[Schedule]:
    """A pool of whole windows, a call for each pixel or row; none where the kernel cannot do it."""
    return _tried(nest, lambda schedule: _pool(schedule, kernel, lanes, most))


def schedule_row_sum(nest: Nest) -> list[Schedule]:
    """A row added to the sums of its channels."""
    return _tried(nest, _add_rows)


def schedule_image_sum(nest: Nest) -> list[Schedule]:
    """The sums of all channels of an image, and then what becomes of each."""
    return _tried(nest, _sum_image)


def _tried(nest: Nest, apply: Callable[[Schedule], None]) -> list[Schedule]:
    schedule = Schedule(nest.func)
    try:
        apply(schedule)
    except ScheduleError:
        return []
    return [schedule]


def _pool(schedule: Schedule, kernel: str, lanes: int, most_taps: int | None) -> None:
    """A pool on a kernel for a pixel or a row; ScheduleError where that cannot do it."""
    x, out = (find_param(schedule.func, name) for name in ("x", "out"))
    if out.shape[3] % lanes:
        raise ScheduleError(f"{out.shape[3]} channels are no multiple of {lanes}")
    schedule.compute_at("acc", "out_d3")
    schedule.decompose_reduction("acc", "acc_kh")
    schedule.simplify()
    sizes = _window(kernel, schedule.func, x.shape, out.shape)
    if most_taps is not None and sizes["kernel_h"] * sizes["kernel_w"] > most_taps:
        raise ScheduleError("the window has too many elements")
    schedule.tensorize("out_d2" if sizes.get("pixels", 1) > 1 else "out_d3", kernel, sizes)


def _add_rows(schedule: Schedule) -> None:
    """A row added to the sums of its channels."""
    _, _, count, channels = find_param(schedule.func, "x").shape
    if channels % SUMMED or count > MOST_TAPS:
        raise ScheduleError("the row does not fit the kernel")
    schedule.compute_at("acc", "out_d3")
    schedule.decompose_reduction("acc", "acc_kw")
    schedule.simplify()
    schedule.tensorize("out_d3", "ec_add_channels_s8_dsp", {"count": count, "channels": channels})


def _sum_image(schedule: Schedule) -> None:
    """The sums of all channels of an image, and then what becomes of each."""
    shape = find_param(schedule.func, "x").shape
    if len(shape) != 4 or find_param(schedule.func, "out").elements != shape[3]:
        raise ScheduleError("it is no sum over a whole image")
    _, height, width, channels = shape
    if channels % SUMMED:
        raise ScheduleError("the channels do not fit the kernel")
    sizes = {"kernel_h": height, "kernel_w": width, "channels": channels}
    schedule.cache_write("acc", "acc_d3")
    schedule.decompose_reduction("acc", "acc_k1")
    schedule.simplify()
    schedule.tensorize("acc_d3", "ec_sum_channels_s8_dsp", sizes)


def _window(
    kernel: str, func: PrimFunc, x: tuple[int, ...], out: tuple[int, ...]
) -> dict[str, int]:
    """The sizes of a kernel for a pool by rows; ScheduleError where windows reach outside."""
    found = {"kernel_h": 1, "kernel_w": 1, "channels": out[3]}
    stride = 0
    for stmt in statements(func.body):
        if isinstance(stmt, For) and stmt.var.name in ("acc_kh", "acc_kw"):
            extent = stmt.extent
            if stmt.start.constant != 0 or extent is None:
                raise ScheduleError("some windows are not whole")
            found["kernel" + stmt.var.name[-2:].replace("k", "_")] = extent
        elif isinstance(stmt, Store):
            for part in subexpressions(stmt.value):
                if isinstance(part, Load) and part.buffer.name == "x":
                    columns = part.indices[2].parts
                    stride = sum(k for a, k in columns if isinstance(a, Var) and a.name == "out_d2")
            if stmt.buffer.name == "acc" and isinstance(stmt.value, Const):
                found["lowest"] = int(stmt.value.value)
            elif stmt.buffer.name == "out":
                found |= _limits(stmt)
    if "maximum" not in found:
        raise ScheduleError("the output has other limits than a pool")
    found |= {"pitch": x[2] * x[3], "step": stride * x[3], "pixels": out[2]}
    return {name: found[name] for name in get_microkernel(kernel).sizes}


def _limits(store: Store) -> dict[str, int]:
    """Return an output's limits: by its maximum, or by its minimum and then its maximum."""
    upper = store.value.value if isinstance(store.value, Cast) else store.value
    if not isinstance(upper, Binary) or upper.op != "min" or not isinstance(upper.right, Const):
        return {}
    found = {"maximum": int(upper.right.value)}
    lower = upper.left
    if isinstance(lower, Binary) and lower.op == "max" and isinstance(lower.right, Const):
        found["minimum"] = int(lower.right.value)
    return found
