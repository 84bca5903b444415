"""Kernels for the floating-point units of Cortex-M; importing the package registers them."""

from edgec.targets.cortex_m.kernels import float_rows, products

__all__ = ["float_rows", "products"]
