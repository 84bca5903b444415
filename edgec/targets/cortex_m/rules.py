"""Cortex-M: its rules in order, vectors first and plain loops last."""

from __future__ import annotations

from edgec.targets.common import copies, loops, low_rank, sum_blocks
from edgec.targets.cortex_m.float_rows import (
    is_float_sum,
    replaces_loops,
    schedule_floats,
    schedule_small_floats,
)
from edgec.targets.cortex_m.gates import gates_by_products, is_float_lstm
from edgec.targets.dsp import rules as dsp
from edgec.targets.helium import rules as helium
from edgec.targets.rule import Rule, always, as_defined

FLOATS = (
    Rule(
        "gates of floats", is_float_lstm, gates_by_products,
        needs=frozenset({"fpu"}), for_size=False, ends_menu=always,
        kernels=("ec_add_products_f32",), prepare=as_defined,
    ),
    Rule(
        "rows of floats", is_float_sum, schedule_floats,
        needs=frozenset({"fpu"}), for_size=False, ends_menu=replaces_loops,
        kernels=(
            "ec_conv_row_f32*", "ec_conv_units_f32", "ec_dense_row_f32", "ec_depthwise_row_f32*",
            "ec_depthwise_units_f32",
        ),
    ),
    Rule(
        "rows of floats in few bytes", is_float_sum, schedule_small_floats,
        needs=frozenset({"fpu"}), for_size=True, ends_menu=always,
        kernels=("ec_conv_row_f32_*", "ec_depthwise_row_f32_*"),
    ),
)  # fmt: skip

RULES = (
    low_rank.RULE,
    *helium.RECURRENT,
    *dsp.RECURRENT,
    *helium.PRODUCTS,
    *dsp.SHORTS,
    *dsp.PRODUCTS,
    *sum_blocks.RULES,
    loops.GATHERED_RULE,
    copies.RULE,
    *loops.RULES,
    *helium.ELEMENTS,
    *dsp.ELEMENTS,
    *FLOATS,
    *loops.LOOPS,
)
