"""A dense layer of floats on a C function: `edgec build MODEL --kernels kernels.py`."""

from math import inf
from pathlib import Path

from edgec import external


def use(nest: external.Nest) -> external.Use | None:
    """How to call my_dense_f32 for a nest; None where it does something else."""
    found = external.products(nest)
    if found is None or found.sort != "dense" or nest.dtype != "float32":
        return None
    if found.x[0] != 1 or (found.minimum, found.maximum) != (-inf, inf):
        return None
    channels, depth = found.weights.shape
    return external.Use(
        ["x", "out", found.weights, found.bias, channels, depth],
        instructions=channels * depth / 100,  # so few that it is taken: state what you measured
    )


KERNELS = [external.Kernel("my_dense_f32", Path(__file__).with_name("dense_f32.c"), use=use)]
