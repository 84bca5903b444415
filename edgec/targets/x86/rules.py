"""Rules of x86: products of int8 on its kernels, sums of floats on vectors by schedules."""

from __future__ import annotations

from edgec.targets.common import channel_vectors, vector_gates, winograd
from edgec.targets.common.products import product_rules
from edgec.targets.dsp.rules import rescaled
from edgec.targets.x86.kernels.products import vectors_of

RULES = (
    *winograd.rules("avx2"), *channel_vectors.rules("avx2"), *vector_gates.rules("avx2"),
    *product_rules(rescaled, vectors_of, "avx2"),
)  # fmt: skip
