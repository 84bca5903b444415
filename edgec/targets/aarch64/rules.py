"""Rules of 64-bit Arm: products of int8 on its kernels, sums of floats on vectors by schedules."""

from __future__ import annotations

from edgec.targets.aarch64 import tiles
from edgec.targets.aarch64.kernels.products import vectors_of
from edgec.targets.common import channel_vectors, vector_gates, winograd
from edgec.targets.common.products import product_rules
from edgec.targets.dsp.rules import rescaled

RULES = (
    *tiles.RULES, *winograd.rules("neon"), *channel_vectors.rules("neon"),
    *vector_gates.rules("neon"), *product_rules(rescaled, vectors_of, "neon"),
)  # fmt: skip
