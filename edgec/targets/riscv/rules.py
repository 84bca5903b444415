"""RISC-V: plain loops, the windows of some convolutions gathered."""

from edgec.targets.common import loops

RULES = (loops.GATHERED_RULE, *loops.RULES, *loops.LOOPS)
