"""The microkernels of the runtime, registered by importing their files."""

from edgec.loop.microkernels import (
    depthwise,
    dsp_depthwise,
    dsp_depthwise_row,
    dsp_windows,
    float_rows,
    matrix,
    matrix_int16,
    matrix_to_int16,
    mve_depthwise,
    mve_elements,
    mve_matrix,
    mve_rows,
    packing,
    pool,
    rows,
    window,
)

__all__ = [
    "depthwise",
    "dsp_depthwise",
    "dsp_depthwise_row",
    "dsp_windows",
    "float_rows",
    "matrix",
    "matrix_int16",
    "matrix_to_int16",
    "mve_depthwise",
    "mve_elements",
    "mve_matrix",
    "mve_rows",
    "packing",
    "pool",
    "rows",
    "window",
]
