"""Rules of the DSP extension: pairs of int16 in a register."""

from __future__ import annotations

from edgec.loop.ir import Load, Store
from edgec.loop.rewrite import loops_of, statements, subexpressions
from edgec.targets.common.elements import schedule_mul
from edgec.targets.common.gathered import plain_matrix, whole_windows
from edgec.targets.common.recurrent import is_filter, is_lstm
from edgec.targets.common.sums import Kind
from edgec.targets.dsp.columns import columns, fours, padded_columns, padded_fours, row
from edgec.targets.dsp.depthwise import column_planes, column_schedules, window_schedules
from edgec.targets.dsp.elements import schedule_add
from edgec.targets.dsp.int16 import schedule_short_windows, schedule_shorts
from edgec.targets.dsp.kernels.pool import MOST_TAPS, POOLED
from edgec.targets.dsp.matrix import plain_schedules, product_schedules
from edgec.targets.dsp.plane_windows import schedule_plane_windows
from edgec.targets.dsp.pools import schedule_image_sum, schedule_pool, schedule_row_sum
from edgec.targets.dsp.softmax import schedule_softmax
from edgec.targets.dsp.steps import steps_by_quads
from edgec.targets.dsp.svdf import schedule_time
from edgec.targets.dsp.tiles import schedule_tiles
from edgec.targets.rule import Match, Nest, Rule, as_defined

DSP = frozenset({"dsp"})
#: Not where vectors do it.
VECTORS = frozenset({"mve"})


def rescaled(dtype: str, *kinds: Kind) -> Match:
    """Whether sums of these kinds, of inputs of this dtype, become integers again."""

    def match(nest: Nest) -> bool:
        sums = nest.sums
        return sums is not None and nest.dtype == dtype and sums.kind in kinds and sums.is_rescaled

    return match


def _adds_two(nest: Nest) -> bool:
    """Whether each output is made of one element of each of two int8 tensors."""
    stores = [s for s in statements(nest.func.body) if isinstance(s, Store)]
    if nest.dtype != "int8" or nest.temporaries or len(stores) != 1:
        return False
    loads = [part for part in subexpressions(stores[0].value) if isinstance(part, Load)]
    return nest.out_dtype == "int8" and len(loads) == 2


def pools(*kinds: Kind) -> Match:
    """Whether elements of windows of each channel of int8 images are added or compared."""

    def match(nest: Nest) -> bool:
        is_pool = nest.sums is not None and nest.sums.kind in kinds and nest.dtype == "int8"
        return is_pool and "acc_kh" in loops_of(nest.func.body)

    return match


def _totals(loop: str) -> Match:
    """Whether elements of int8 are added, and this is the loop over them."""

    def match(nest: Nest) -> bool:
        is_total = nest.sums is not None and nest.sums.kind is Kind.TOTAL and nest.dtype == "int8"
        found = loops_of(nest.func.body)
        return is_total and loop in found and "acc_kh" not in found

    return match


RECURRENT = (
    Rule(
        "gates by quads", lambda nest: nest.dtype == "int8" and is_lstm(nest), steps_by_quads,
        needs=DSP, kernels=("ec_matrix_1_plain_s8_s16_dsp", "ec_copy_row_s8"), prepare=as_defined,
    ),
)  # fmt: skip

SHORTS = (
    Rule(
        "products of int16", rescaled("int16", Kind.WINDOWS, Kind.MATRIX), schedule_shorts,
        needs=DSP, kernels=("ec_matrix_1_s16*", "ec_gather_window_s16", "ec_copy_row_s16"),
        prepare=as_defined,
    ),
    Rule(
        "channels' windows of int16", rescaled("int16", Kind.CHANNEL_WINDOWS),
        schedule_short_windows,
        needs=DSP, kernels=("ec_depthwise_windows_*s16*_dsp",), is_assembly=True,
        prepare=whole_windows,
    ),
)  # fmt: skip

PRODUCTS = (
    Rule(
        "floored sums", _adds_two, schedule_add,
        needs=DSP, lacks=VECTORS, kernels=("ec_add_s8_dsp",), prepare=as_defined,
    ),
    Rule(
        "windows of one channel", rescaled("int8", Kind.WINDOWS, Kind.CHANNEL_WINDOWS),
        schedule_plane_windows, needs=DSP, kernels=("ec_plane_*",), prepare=whole_windows,
    ),
    Rule(
        "tiles of windows", rescaled("int8", Kind.WINDOWS), schedule_tiles,
        needs=DSP, lacks=VECTORS, for_size=False, kernels=("ec_tiles_*",), is_assembly=True,
        prepare=whole_windows,
    ),
    *(
        Rule(
            f"products: {prepare.__name__}", rescaled("int8", *kinds), product_schedules,
            needs=DSP, kernels=kernels, is_assembly=prepare in (fours, padded_fours),
            prepare=prepare,
        )
        for prepare, kinds, kernels in (
            (padded_fours, [Kind.WINDOWS], ("ec_pad_s8", "ec_pack_*")),
            (fours, [Kind.WINDOWS], ("ec_matrix_4*_dsp",)),
            (padded_columns, [Kind.WINDOWS], ("ec_pad_s8", "ec_pack_*")),
            (columns, [Kind.WINDOWS], ("ec_matrix_3*_dsp", "ec_matrix_2*_dsp")),
            (row, [Kind.WINDOWS, Kind.MATRIX], ("ec_matrix_1*_dsp", "ec_pack_row_s8_dsp")),
        )
    ),
    Rule(
        "products in place", rescaled("int8", Kind.MATRIX), plain_schedules,
        needs=DSP, kernels=("ec_matrix_1_plain*_dsp",), prepare=plain_matrix,
    ),
    Rule(
        "planes of int16", rescaled("int8", Kind.CHANNEL_WINDOWS), column_schedules,
        needs=DSP, kernels=("ec_depthwise_3x3*_dsp", "ec_pack_columns*"), prepare=column_planes,
    ),
    Rule(
        "channels' windows", rescaled("int8", Kind.CHANNEL_WINDOWS), window_schedules,
        needs=DSP, kernels=("ec_depthwise_windows*_dsp", "ec_depthwise_row*"),
        prepare=whole_windows,
    ),
)  # fmt: skip

ELEMENTS = (
    Rule(
        "filters", is_filter, lambda nest: schedule_time(nest, "dsp"),
        needs=DSP, lacks=VECTORS, kernels=("ec_svdf_time_*_dsp",),
    ),
    Rule(
        "softmax", lambda nest: {"largest_k", "total_k"} <= loops_of(nest.func.body).keys(),
        schedule_softmax, needs=DSP, for_size=False,
        kernels=("ec_largest_s8_dsp", "ec_sum_exponentials_s8_dsp", "ec_softmax_s8_dsp"),
    ),
    Rule(
        "largest elements", pools(Kind.LARGEST),
        lambda nest: schedule_pool(nest, "ec_max_pool_s8_dsp", POOLED),
        needs=DSP, kernels=("ec_max_pool_s8_dsp",),
    ),
    Rule(
        "means", pools(Kind.TOTAL),
        lambda nest: schedule_pool(nest, "ec_mean_s8_dsp", POOLED, MOST_TAPS),
        needs=DSP, kernels=("ec_mean_s8_dsp",),
    ),
    Rule(
        "sums of a row", _totals("acc_kw"), schedule_row_sum,
        needs=DSP, kernels=("ec_add_channels_s8_dsp",),
    ),
    Rule(
        "sums of an image", _totals("acc_k1"), schedule_image_sum,
        needs=DSP, kernels=("ec_sum_channels_s8_dsp",),
    ),
    Rule(
        "products of elements", lambda nest: not nest.temporaries,
        lambda nest: schedule_mul(nest.func, "dsp"), needs=DSP, kernels=("ec_mul*_s8_dsp",),
    ),
)  # fmt: skip
