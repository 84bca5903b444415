"""Kernels of NVIDIA GPUs, registered by importing this package."""

from edgec.targets.cuda.kernels import depthwise, dots, mma

__all__ = ["depthwise", "dots", "mma"]
