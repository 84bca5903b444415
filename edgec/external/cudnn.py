"""Convolutions of float32 on a GPU by NVIDIA's cuDNN, which the program opens where it runs.

cuDNN always runs one algorithm, implicit matrix products, so that every run has the same bits and
nothing is searched for. The C is `runtime_c/cuda/ec_cudnn.h`.
"""

from __future__ import annotations

from functools import partial
from math import inf

from edgec.external.gpu_libraries import float_products, gpu_kernels, in_tiles
from edgec.targets.common.described import Products
from edgec.targets.external import Kernel, Use
from edgec.targets.rule import Nest


def cudnn(cost: float = 1.0) -> tuple[Kernel, ...]:
    """Convolutions with bias, and ReLU after them, by cuDNN 8 or 9.

    They add in another order, which only `float_sums="free"` allows, and run as nodes of a graph.
    cost: a factor of the estimated time; less than 1 prefers them.
    """
    return gpu_kernels("cudnn", partial(_use, cost))


def _use(cost: float, nest: Nest) -> Use | None:
    found = float_products(nest, "conv")
    if found is None or not _is_known(found):
        return None
    numbers = (
        *found.x, *found.out, *found.kernel, *found.stride, *found.dilation, *found.padding,
        found.minimum == 0,
    )  # fmt: skip
    return in_tiles(found, numbers, cost)


def _is_known(found: Products) -> bool:
    """Whether cuDNN has the limits, and the same windows with equal padding on both sides."""
    ends = (found.minimum, found.maximum) in ((-inf, inf), (0, inf))
    reached = tuple(
        (extent + 2 * before - (kernel - 1) * dilation - 1) // stride + 1
        for extent, before, kernel, dilation, stride in zip(
            found.x[1:3], found.padding, found.kernel, found.dilation, found.stride, strict=True
        )
    )
    return ends and reached == found.out[1:3]
