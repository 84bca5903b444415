"""Kernels for the vectors of Cortex-M55 (MVE); importing the package registers them."""

from edgec.targets.helium.kernels import (
    depthwise,
    depthwise_int16,
    elements,
    int4,
    matrix,
    planes,
    rows,
    svdf,
)

__all__ = ["depthwise", "depthwise_int16", "elements", "int4", "matrix", "planes", "rows", "svdf"]
