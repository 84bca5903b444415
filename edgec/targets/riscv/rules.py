"""RISC-V: plain loops, the windows of some convolutions gathered."""

from edgec.targets.common import loops, sum_blocks

RULES = (*sum_blocks.RULES, loops.GATHERED_RULE, *loops.RULES, *loops.LOOPS)
