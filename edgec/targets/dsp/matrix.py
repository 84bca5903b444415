"""Convolution and dense for the DSP extension: packed inputs, two channels to a weight word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.ir import PrimFunc
from edgec.loop.primitives.int4 import fits_int4
from edgec.loop.primitives.loops import Tail
from edgec.loop.rewrite import blocks_of
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.loop.window import Window
from edgec.targets.common.constant_channels import (
    MOST_SUM,
    fold_constant_channels,
    has_plain_scales,
    most_shift,
    replace_constants,
    sum_bounds,
)
from edgec.targets.common.kernels.rescaling import ONNX, ONNX_TO_16, RESCALINGS, TFLM, Rescaling
from edgec.targets.common.limits import find_limits
from edgec.targets.common.nests import find_param
from edgec.targets.dsp.columns import BLOCK, SIDE_BY_SIDE
from edgec.targets.dsp.kernels.int4_steps import step_of
from edgec.targets.dsp.kernels.matrix import can_share_words
from edgec.targets.dsp.kernels.matrix_four import FOUR, ROOM, needs_int4
from edgec.targets.dsp.kernels.matrix_int4 import MOST_INT4_SUM
from edgec.targets.dsp.kernels.products import GROUPS, INT4
from edgec.targets.dsp.shared_shift import share_shift
from edgec.targets.rule import Nest

#: What the names of loops over the last pixels of a row end in.
END = "_end"
#: Up to this many pixels, kernels of three pixels are tried beside kernels of four. Of few pixels,
#: four at a time may compute more twice, because the last block overlaps the one before.
MOST_BY_THREE = 6
#: Kernels that gather windows byte by byte, by how many pixels they take and the most inputs of a
#: window, the smallest first: the copies that they make are on the stack.
BY_TAPS = {
    BLOCK: {32: "ec_pack_few_taps_3_s8_dsp", 80: "ec_pack_taps_3_s8_dsp"},
    FOUR: {28: "ec_pack_few_taps_4_s8_dsp", 80: "ec_pack_taps_4_s8_dsp"},
}


def product_schedules(nest: Nest) -> list[Schedule]:
    """Products of gathered inputs, with weights of all bits that they may have.

    Rows whose last pixels are taken two at a time are also offered with a last block that overlaps
    the one before: two pixels need a kernel of their own, which windows of odd bytes lack.
    """
    found = _with_all_weights(nest, partial(schedule_product, nest))
    overlapping = schedule_product(nest, "", overlaps=True) if nest.in_rows else None
    return [*found, overlapping] if overlapping is not None else found


def plain_schedules(nest: Nest) -> list[Schedule]:
    """A dense layer whose kernel takes unpacked inputs and weights, eight inputs at a time."""
    channels, depth = nest.tables["w"].shape
    if depth % 8 or channels < 4 or find_param(nest.func, "out").elements // channels > 2:
        return []

    def scheduled(stored: str) -> Schedule | None:
        chosen = _choose(
            nest.func, nest.tables, nest.core.features, quads=2, paired=nest.paired, stored=stored
        )
        if chosen is None:
            return None
        schedule = nest.schedule()
        try:
            schedule.compute_at("acc", "out_d1")
            schedule.decompose_reduction("acc", "acc_k")
            schedule.simplify()
            sizes = {"octets": depth // 8, **chosen.sizes}
            schedule.tensorize("out_d1", chosen.kernel("matrix_1_plain"), sizes)
        except ScheduleError:
            return None
        replace_constants(schedule, nest.tables, chosen.constants)
        return schedule

    return _with_all_weights(nest, scheduled)


def _with_all_weights(nest: Nest, scheduled: Callable[[str], Schedule | None]) -> list[Schedule]:
    """Return the schedules of `scheduled` for each way to store weights, the fastest first.

    One pixel by int4 weights without shifts is also offered to the kernel of groups, which other
    layers of the model may call.
    """
    short = [scheduled(way) for way in (INT4, GROUPS) if 4 in nest.weight_bits]
    if any(short) and 8 not in nest.weight_bits:
        return [product for product in short if product is not None]
    return [product for product in (scheduled(""), *short) if product is not None]


@dataclass(frozen=True)
class _Chosen:
    """The arguments of a product kernel.

    stored: the part of its name for weights and scales. sizes: all but the number of inputs.
    """

    rescaling: Rescaling
    constants: Mapping[str, Array]
    sizes: dict[str, int]
    stored: str

    def kernel(self, products: str) -> str:
        """The name of the kernel of these products."""
        return self.rescaling.kernel(products + self.stored)


def _choose(
    func: PrimFunc,
    tables: Mapping[str, Array],
    features: frozenset[str],
    *,
    shares_words: bool = True,
    quads: int,
    paired: bool,
    stored: str,
) -> _Chosen | None:
    """The kernel for these sums, whose inputs come in `quads` of four; None where none fits.

    shares_words: whether two channels share words of weights.
    """
    found = find_limits(func)
    if found is None or not found.rescaling.needs <= features:
        return None
    rescaling, zero_point = found.rescaling, found.zero_point
    constants = fold_constant_channels(tables, rescaling, zero_point)
    if not (fits_products(constants, paired) if shares_words else has_small_sums(constants)):
        return None
    if not fits_rescaling(constants, rescaling, zero_point):
        return None
    way = _way_of(constants, rescaling, quads, stored, by_three=shares_words and quads == 1)
    if way is None:
        return None
    suffix, group = way
    ends = found.sizes if rescaling is ONNX_TO_16 else {"zero_point": zero_point}
    if rescaling is TFLM and not (shares_words or stored):
        constants, ends["shift"] = share_shift(constants, zero_point)
    sizes = {"channels": find_param(func, "out").shape[-1], **group, **ends}
    return _Chosen(rescaling, constants, sizes, suffix)


def schedule_product(nest: Nest, stored: str, overlaps: bool = False) -> Schedule | None:
    """Products of inputs that are gathered, on microkernels; None where they cannot do it.

    stored: INT4 or GROUPS, where the weights stay in four bits, with a shift for each group of
    them; or nothing. overlaps: nothing is made but blocks of three pixels of a row whose last
    pixels two at a time would be.
    """
    axes = [axis.var.name for axis in blocks_of(nest.func.body)["col"].axes]
    is_block = axes == [*SIDE_BY_SIDE]
    by_four = find_param(nest.func, "col").dtype == "int8"
    pixels = find_param(nest.func, "out").shape[0]
    if by_four and not (is_worth_four(nest) or pixels % (2 * FOUR) == 0):
        return None
    quads = 1 if is_block else 2
    chosen = _choose(
        nest.func, nest.tables, nest.core.features, shares_words=not by_four, quads=quads,
        paired=nest.paired, stored=stored,
    )  # fmt: skip
    if chosen is None or (by_four and not _takes_four(nest, chosen)):
        return None
    if is_block and not by_four and _is_for_four(nest, chosen, pixels):
        return None
    if by_four and not stored and 4 in nest.weight_bits and _is_for_int4(chosen):
        return None
    by_threes = is_block and not (by_four or stored)
    has_ends = by_threes and nest.in_rows and chosen.rescaling is TFLM
    by_two = pixels_by_two(pixels) if has_ends else 0
    if overlaps and not by_two:
        return None
    blocks = _Blocks(FOUR if by_four else BLOCK, pixels, 0 if overlaps else by_two)
    return _scheduled(nest, chosen, blocks if is_block else None)


def _scheduled(nest: Nest, chosen: _Chosen, blocks: _Blocks | None) -> Schedule | None:
    """The sums on a kernel of several pixels, or of one; None where it cannot do them."""
    schedule = nest.schedule()
    try:
        if blocks is not None:
            _schedule_blocks(schedule, chosen, blocks)
            window = nest.window
            if "padded" in nest.temporaries and window is not None:
                window = _pad(schedule, blocks.pixels, window)
            _pack_columns(schedule, blocks, window)
        else:
            _schedule_row(schedule, chosen)
    except ScheduleError:
        return None
    replace_constants(schedule, nest.tables, chosen.constants)
    return schedule


def is_worth_four(nest: Nest) -> bool:
    """Whether time has the higher price than RAM: for that, narrow rows go by three and two.

    Rows of a multiple of eight pixels, whose blocks of four do not overlap, go by either.
    """
    return nest.options.prices.time > nest.options.prices.ram


def _takes_four(nest: Nest, chosen: _Chosen) -> bool:
    """Whether a kernel of four pixels rescales so.

    ONNX Runtime's rounding in rows: it halves the arena of a quantized ResNet8, for 2 KB of code.
    """
    may_stream = nest.spares_ram or not nest.in_rows
    return chosen.rescaling is TFLM or (chosen.rescaling is ONNX and may_stream)


def _is_for_four(nest: Nest, chosen: _Chosen, pixels: int) -> bool:
    """Whether to refuse a kernel of three pixels, because it would save too little for its code.

    Other layers of the model take four pixels at a time, so that kernel is there anyway.
    """
    has_kernel = _takes_four(nest, chosen) and not nest.options.no_asm and is_worth_four(nest)
    return has_kernel and (nest.in_rows or pixels > MOST_BY_THREE)


def _is_for_int4(chosen: _Chosen) -> bool:
    """Whether four pixels are faster by the same weights in four bits."""
    if chosen.rescaling is not ONNX or not fits_int4_products(chosen.constants):
        return False
    return needs_int4(chosen.constants["scale"], chosen.sizes["zero_point"])


@dataclass(frozen=True)
class _Blocks:
    """This number of pixels, `width` at a time, but the last `by_two` two at a time."""

    width: int
    pixels: int
    by_two: int

    @property
    def parts(self) -> list[tuple[str, int]]:
        """The ends of loops' names, and the number of pixels at a time."""
        return [("", self.width)] + [(END, 2)] * bool(self.by_two)


def _schedule_blocks(schedule: Schedule, chosen: _Chosen, blocks: _Blocks) -> None:
    quads = find_param(schedule.func, "w").shape[1]
    if blocks.by_two:
        schedule.cut("out_p", blocks.pixels - blocks.by_two, ("col", "acc"), END)
    for end, width in blocks.parts:
        tail: Tail = "exact" if blocks.by_two else "shift"
        block, _ = schedule.split(f"out_p{end}", width, tail=tail)
        schedule.compute_at(f"acc{end}", f"out_c{end}")
        schedule.compute_at(f"col{end}", block, scope="scratch")
        schedule.decompose_reduction(f"acc{end}", f"acc_q{end}")
    schedule.simplify()
    if blocks.width == FOUR:
        schedule.storage_align("col", -2, ROOM)
    for end, width in blocks.parts:
        kernel = chosen.kernel(f"matrix_{width}")
        schedule.tensorize(f"out_p{end}_i", kernel, {"quads": quads, **chosen.sizes})


def _schedule_row(schedule: Schedule, chosen: _Chosen) -> None:
    """One pixel, its inputs packed."""
    pixels = find_param(schedule.func, "out").shape[0]
    quads = find_param(schedule.func, "w").shape[1]
    depth = find_param(schedule.func, "x").elements // pixels
    schedule.compute_at("acc", "out_c")
    schedule.compute_at("col", "out_p", scope="scratch")
    schedule.decompose_reduction("acc", "acc_q")
    schedule.simplify()
    sizes = {"octets": quads // 2, **chosen.sizes}
    schedule.tensorize("out_c", chosen.kernel("matrix_1"), sizes)
    schedule.tensorize("col_q", "ec_pack_row_s8_dsp", {"depth": depth})


def _scales(constants: Mapping[str, Array], rescaling: Rescaling, quads: int) -> str:
    """Return the part of a one-pixel kernel's name that says that all channels have one scale."""
    is_one = rescaling is ONNX and quads == 2 and len(set(constants["scale"].tolist())) == 1
    return "_shared" if is_one else ""


def _way_of(
    constants: Mapping[str, Array], rescaling: Rescaling, quads: int, stored: str, by_three: bool
) -> tuple[str, dict[str, int]] | None:
    """Return the part of a kernel's name for weights stored so, and its additional size in `quads`.

    None where they cannot be stored so.
    """
    if not stored:
        return _scales(constants, rescaling, quads), {}
    is_int4 = rescaling in RESCALINGS and fits_int4_products(constants)
    if stored == INT4:
        return ("_s4", {}) if is_int4 else None
    # Of three pixels, what sharing a kernel saves is less than it costs.
    group = 0 if is_int4 and by_three else _group_of(constants, rescaling, quads)
    return ("_groups", {"group": group}) if group else None


def _group_of(constants: Mapping[str, Array], rescaling: Rescaling, quads: int) -> int:
    """Number of quads of weights with one shift; 0 without such groups."""
    w = constants["w"].reshape(len(constants["bias"]), -1, 2, 2)
    return step_of(w, quads) // quads if rescaling is ONNX else 0


def pixels_by_two(pixels: int) -> int:
    """Number of pixels at the end to take by two, so that three divide the others."""
    return 2 * (-pixels % 3) if pixels > 4 else 0


def _pack_columns(schedule: Schedule, blocks: _Blocks, window: Window | None) -> None:
    """Pack on microkernels."""
    width, by_two = blocks.width, blocks.by_two
    begin = blocks.pixels - by_two
    last = begin - width if not by_two else None
    _pack_block(schedule, "", width, _first("out_p_o", 0, begin, width, last), window)
    if by_two:
        _pack_block(schedule, END, 2, _first(f"out_p{END}_o", begin, by_two, 2, None), window)


def _first(loop: str, begin: int, pixels: int, width: int, last: int | None) -> str:
    """The first pixel of a block, in terms of the loop over blocks, if there are several."""
    if pixels <= width:
        return str(begin)
    if last is not None:
        return f"min({loop}*{width}, {last})"
    return f"{loop}*{width} + {begin}"


def _pack_block(
    schedule: Schedule, end: str, width: int, first: str, window: Window | None
) -> None:
    # Where the outer loop has one step, it is gone.
    room = ROOM if width == FOUR else width
    elements = find_param(schedule.func, f"col{end}").elements
    loop = f"col_q{end}" if elements > 4 * room else f"col_s{end}"
    if window is None or window.is_pixel:
        depth = find_param(schedule.func, "x").shape[-1]
        schedule.tensorize(loop, f"ec_pack_rows_{width}_s8_dsp", {"depth": depth})
        return
    sizes = window.over(find_param(schedule.func, "x").shape[0]).sizes
    schedule.tensorize(loop, _window_kernel(width, window), sizes, {"pixel": first})


def _window_kernel(width: int, window: Window) -> str:
    """The name of the kernel that packs the windows of `width` pixels. Raises ScheduleError."""
    channels, (_, kernel_w) = window.shape[2], window.kernel
    if width == FOUR and _are_neighbours(window):
        return "ec_pack_neighbours_4_s8_dsp"
    in_words = kernel_w * channels % 4 == 0 and not window.is_padded and window.dilation[1] == 1
    if channels % 4 == 0 or in_words:
        return f"ec_pack_windows_{width}_s8_dsp"
    return _tap_kernel(width, window)


def _tap_kernel(width: int, window: Window) -> str:
    """The same of windows that are packed tap by tap."""
    fits = [name for most, name in BY_TAPS.get(width, {}).items() if window.depth <= most]
    if not fits or window.dilation[1] > 1:
        raise ScheduleError("the inputs of a window are no whole words")
    return fits[0]


def _are_neighbours(window: Window) -> bool:
    """Whether four pixels have windows of three columns, one beside the other.

    All four are of one row, and only the first and the last of the six columns may be outside.
    """
    _, width, channels = window.shape
    is_beside = (window.kernel[1], window.stride[1], window.dilation[1]) == (3, 1, 1)
    left, last = window.corner[1], window.out_width - 1
    is_inside = left <= 1 and last - left + 1 < width
    return is_beside and is_inside and channels % 4 == 0 and window.out_width % FOUR == 0


def _pad(schedule: Schedule, pixels: int, window: Window) -> Window:
    """Pad on a microkernel; the window over the copy."""
    inner = window.padded(pixels // window.out_width)
    names = ("height", "width", "channels", "top", "left", "zero_point")
    sizes = {name: window.sizes[name] for name in names}
    sizes |= {"out_height": inner.shape[0], "out_width": inner.shape[1]}
    schedule.tensorize("padded_h", "ec_pad_s8", sizes)
    return inner


def has_small_sums(tables: Mapping[str, Array]) -> bool:
    """Whether all sums have 24 bits."""
    least, most = sum_bounds(tables)
    return bool(most.max() < MOST_SUM and least.min() >= -MOST_SUM)


def fits_products(tables: Mapping[str, Array], paired: bool = False) -> bool:
    """Whether the weights of two channels can share words."""
    if not has_small_sums(tables):
        return False
    w = tables["w"]
    if w.min(initial=0) >= -127 or not paired:
        return bool(w.min(initial=0) >= -127)
    first = np.arange(0, len(w) - 1, 1 if len(w) % 2 else 2)  # units overlap where it is odd
    return bool(can_share_words(w)[first, first + 1].all())


def fits_int4_products(tables: Mapping[str, Array]) -> bool:
    """Whether weights have four bits, and sums are small enough for kernels that read such."""
    least, most = sum_bounds(tables)
    is_small = most.max() < MOST_INT4_SUM and least.min() >= -MOST_INT4_SUM
    return is_small and fits_int4(tables["w"])


def fits_rescaling(tables: Mapping[str, Array], rescaling: Rescaling, zero_point: int) -> bool:
    """Whether the sums can be rescaled in a few instructions.

    The correction of negative ties is right only where a second rounding follows.
    """
    if not has_plain_scales(tables):
        return False
    if rescaling is not TFLM:
        return True
    shift = tables["shift"].astype(np.int64)
    return bool(
        tables["multiplier"].min() >= 1 << 30
        and shift.max() <= (0 if zero_point == -128 else -1)
        and shift.min() >= -most_shift(zero_point)
    )


def fits_any_shift(tables: Mapping[str, Array]) -> bool:
    """Whether products share words, and can be rescaled to int16 by shifts of both directions.

    Factors repeat after a few channels.
    """
    if not fits_products(tables):
        return False
    shift = tables["shift"].astype(np.int64)
    most = np.maximum(*(np.abs(bound) for bound in sum_bounds(tables)))
    return bool(
        tables["multiplier"].min() >= 1 << 30
        and shift.min() >= -most_shift(0)
        and (most.reshape(-1, len(shift)) << np.maximum(shift, 0)).max() < 1 << 30
    )
