"""Kernels of int8 for the vectors of RISC-V; importing the package registers them."""

from edgec.targets.riscv.kernels import products

__all__ = ["products"]
