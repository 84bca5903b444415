"""Kernels for the DSP extension of ARMv7E-M; importing the package registers them."""

from edgec.targets.dsp.kernels import (
    depthwise,
    depthwise_row,
    elements,
    matrix,
    matrix_int16,
    matrix_nibbles,
    matrix_offset,
    matrix_to_int16,
    matrix_to_int16_onnx,
    packing,
    plane_windows,
    pool,
    softmax,
    svdf,
    windows,
    windows_int16,
)

__all__ = [
    "depthwise",
    "depthwise_row",
    "elements",
    "matrix",
    "matrix_int16",
    "matrix_nibbles",
    "matrix_offset",
    "matrix_to_int16",
    "matrix_to_int16_onnx",
    "packing",
    "plane_windows",
    "pool",
    "softmax",
    "svdf",
    "windows",
    "windows_int16",
]
