"""RISC-V: plain loops, the windows of some convolutions gathered."""

from edgec.targets.common import copies, loops, sum_blocks

RULES = (*sum_blocks.RULES, loops.GATHERED_RULE, copies.RULE, *loops.RULES, *loops.LOOPS)
