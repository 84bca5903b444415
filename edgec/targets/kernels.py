"""Every kernel of the runtime, registered by importing the targets' packages."""

from edgec.targets.aarch64 import kernels as aarch64
from edgec.targets.common import kernels as common
from edgec.targets.cortex_m import kernels as cortex_m
from edgec.targets.cuda import kernels as cuda
from edgec.targets.dsp import kernels as dsp
from edgec.targets.helium import kernels as helium
from edgec.targets.riscv import kernels as riscv
from edgec.targets.x86 import kernels as x86

__all__ = ["aarch64", "common", "cortex_m", "cuda", "dsp", "helium", "riscv", "x86"]
