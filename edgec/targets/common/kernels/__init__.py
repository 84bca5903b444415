"""Kernels in plain C, for every core; importing the package registers them."""

from edgec.targets.common.kernels import (
    gather_plane,
    rescaling,
    shift_down,
    window,
)

__all__ = [
    "gather_plane",
    "rescaling",
    "shift_down",
    "window",
]
