"""RISC-V: plain loops, the windows of some convolutions gathered; or vectors of sums."""

from edgec.targets.common import copies, loops, sum_blocks

RULES = (
    sum_blocks.on_vectors("rv32v"),
    *sum_blocks.RULES, loops.GATHERED_RULE, copies.RULE, *loops.RULES, *loops.LOOPS,
)  # fmt: skip
