"""Kernels of int8 for the vectors of x86; importing the package registers them."""

from edgec.targets.x86.kernels import products

__all__ = ["products"]
