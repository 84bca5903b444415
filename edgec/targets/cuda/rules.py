"""How an NVIDIA GPU runs nests: rules, best first.

Sums of products of int8 take matrix instructions, or one of four products. Every other nest runs
on the GPU as well: the plain loops of all targets, bound to blocks and threads.
"""

from __future__ import annotations

from dataclasses import replace

from edgec.targets.common import loops
from edgec.targets.common.recurrent import is_lstm
from edgec.targets.cuda.depthwise import is_depthwise, schedule_depthwise
from edgec.targets.cuda.dots import is_dot
from edgec.targets.cuda.kernels.depthwise import MULTIPLY
from edgec.targets.cuda.kernels.dots import DOT
from edgec.targets.cuda.kernels.mma import COPY, COPY_HALVES, MMA, MMA_FLOATS, MMA_HALVES
from edgec.targets.cuda.reductions import is_long_sum, schedule_shared_sums
from edgec.targets.cuda.rows import on_threads, schedule_gates
from edgec.targets.cuda.tiles import schedule_products
from edgec.targets.rule import Rule, always

#: Matrix instructions, or four products at once.
PRODUCTS = Rule(
    "products", is_dot, schedule_products,
    kernels=(DOT, MMA, MMA_HALVES, MMA_FLOATS, COPY, COPY_HALVES), ends_menu=always,
)  # fmt: skip

#: Four channels of a pixel in a thread, or one.
DEPTHWISE = Rule(
    "channels", is_depthwise, schedule_depthwise, kernels=(MULTIPLY,), ends_menu=always
)

#: Sums that threads share.
SUMS = Rule("shared sums", is_long_sum, schedule_shared_sums, ends_menu=always)

#: Sums of layers with a memory.
GATES = Rule("gates", is_lstm, loops.finished(schedule_gates), ends_menu=always)

RULES = (
    PRODUCTS,
    DEPTHWISE,
    SUMS,
    *(replace(rule, apply=on_threads(rule.apply)) for rule in (GATES, *loops.LOOPS)),
)
