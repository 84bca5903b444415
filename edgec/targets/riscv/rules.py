"""RISC-V: products on its vectors; or plain loops, the windows of some convolutions gathered."""

from edgec.targets.common import copies, loops, low_rank, sum_blocks
from edgec.targets.riscv import products

RULES = (
    low_rank.RULE, *products.RULES, sum_blocks.on_vectors("rv32v"),
    *sum_blocks.RULES, loops.GATHERED_RULE, copies.RULE, *loops.RULES, *loops.LOOPS,
)  # fmt: skip
