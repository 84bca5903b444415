"""Kernels in plain C, for every core; importing the package registers them."""

from edgec.targets.common.kernels import (
    gather_plane,
    image_rows,
    products,
    rescaling,
    shift_down,
    window,
)

__all__ = [
    "gather_plane",
    "image_rows",
    "products",
    "rescaling",
    "shift_down",
    "window",
]
