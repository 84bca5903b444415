"""Rules of Helium (MVE): vectors of integers along the channels."""

from __future__ import annotations

from edgec.targets.common.elements import schedule_mul
from edgec.targets.common.gathered import padded_columns, padded_rows, plain_matrix
from edgec.targets.common.recurrent import is_filter, is_lstm
from edgec.targets.common.sums import Kind
from edgec.targets.dsp.pools import schedule_pool
from edgec.targets.dsp.rules import pools, rescaled
from edgec.targets.dsp.steps import steps_on_vectors
from edgec.targets.dsp.svdf import schedule_time
from edgec.targets.helium.elements import schedule_linear_sum, schedule_mean, schedule_real_mean
from edgec.targets.helium.matrix import schedule_vectors
from edgec.targets.helium.planes import channel_planes, schedule_planes
from edgec.targets.rule import Nest, Prepare, Rule, always, as_defined

MVE = frozenset({"mve"})


def _products(name: str, prepare: Prepare, *kinds: Kind) -> Rule:
    def match(nest: Nest) -> bool:
        return rescaled("int8", *kinds)(nest) or rescaled("int16", *kinds)(nest)

    return Rule(
        name, match, schedule_vectors, needs=MVE,
        kernels=("ec_conv_*_mve", "ec_dense_*_mve", "ec_depthwise_*_mve", "ec_columns_*_mve",
                 "ec_pad_rows_*_mve"),
        prepare=prepare,
    )  # fmt: skip


RECURRENT = (
    Rule(
        "gates", lambda nest: nest.dtype == "int8" and is_lstm(nest), steps_on_vectors,
        needs=MVE, kernels=("ec_dense_s8_s16_mve", "ec_copy_row_s8"), prepare=as_defined,
    ),
)  # fmt: skip

PRODUCTS = (
    Rule(
        "planes of channels",
        rescaled("int8", Kind.CHANNEL_WINDOWS),
        schedule_planes,
        needs=MVE,
        kernels=("ec_depthwise_planes_s8_mve", "ec_pack_planes_s8_mve"),
        prepare=channel_planes,
    ),
    _products("matrices", plain_matrix, Kind.WINDOWS, Kind.MATRIX),
    _products("channels' windows side by side", padded_columns, Kind.CHANNEL_WINDOWS),
    _products("rows of windows", padded_rows, Kind.WINDOWS, Kind.CHANNEL_WINDOWS),
    _products("windows side by side", padded_columns, Kind.WINDOWS),
)

#: Whole functions on vectors: nothing else is offered.
ELEMENTS = (
    Rule(
        "means of an image", pools(Kind.TOTAL),
        lambda nest: schedule_mean(nest) or schedule_real_mean(nest),
        needs=MVE, kernels=("ec_mean_s8_mve", "ec_sum_real_channels_s8_mve"), ends_menu=always,
    ),
    Rule(
        "largest elements", pools(Kind.LARGEST),
        lambda nest: schedule_pool(nest, "ec_max_pool_s8_mve"),
        needs=MVE, kernels=("ec_max_pool_s8_mve",), ends_menu=always,
    ),
    Rule(
        "products of elements", lambda nest: not nest.temporaries,
        lambda nest: schedule_mul(nest.func, "mve"),
        needs=MVE, kernels=("ec_mul*_s8_mve",), ends_menu=always,
    ),
    Rule(
        "linear sums", lambda nest: not nest.temporaries, schedule_linear_sum,
        needs=MVE, kernels=("ec_linear_sum_s8_mve",), ends_menu=always,
    ),
    Rule(
        "filters", is_filter, lambda nest: schedule_time(nest, "mve"),
        needs=MVE, kernels=("ec_svdf_time_*_mve",),
    ),
)  # fmt: skip
