"""Kernels for the DSP extension of ARMv7E-M; importing the package registers them."""

from edgec.targets.dsp.kernels import (
    depthwise,
    depthwise_row,
    elements,
    matrix_int16,
    matrix_to_int16,
    packing,
    plane_windows,
    pool,
    products,
    softmax,
    svdf,
    tiles,
    windows,
    windows_int16,
)

__all__ = [
    "depthwise",
    "depthwise_row",
    "elements",
    "matrix_int16",
    "matrix_to_int16",
    "packing",
    "plane_windows",
    "pool",
    "products",
    "softmax",
    "svdf",
    "tiles",
    "windows",
    "windows_int16",
]
