"""Kernels of NVIDIA GPUs, registered by importing this package."""

from edgec.targets.cuda.kernels import dots, mma

__all__ = ["dots", "mma"]
