"""Kernels in plain C, for every core; importing the package registers them."""

from edgec.targets.common.kernels import (
    float_rows,
    gather_plane,
    image_rows,
    products,
    rescaling,
    shift_down,
    sum_blocks,
    window,
)

__all__ = [
    "float_rows",
    "gather_plane",
    "image_rows",
    "products",
    "rescaling",
    "shift_down",
    "sum_blocks",
    "window",
]
