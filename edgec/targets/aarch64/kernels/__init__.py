"""Kernels of int8 for the vectors of 64-bit Arm; importing the package registers them."""

from edgec.targets.aarch64.kernels import products, winograd

__all__ = ["products", "winograd"]
