"""Convolutions of float32 on a GPU by NVIDIA's cuDNN, which the program opens where it runs.

One algorithm, the products of implicit matrices, so that every run has the same bits and nothing
is searched for. The C is `runtime_c/cuda/ec_cudnn.h`. What a call takes is a model, no measurement:
tiles of 128 pixels by 64 channels, each a block's, which a multiprocessor computes at 70 % of its
peak.
"""

from __future__ import annotations

from functools import partial
from math import inf, prod

from edgec.loop.primitives.call_foreign import Argument
from edgec.resources import resource_dir
from edgec.targets.common.described import Products, products_of
from edgec.targets.external import Kernel, Use
from edgec.targets.rule import Nest

PIXELS, CHANNELS, OF_PEAK = 128, 64, 0.7


def cudnn(cost: float = 1.0) -> tuple[Kernel, ...]:
    """Convolutions with bias, and ReLU after them, by cuDNN 8 or 9.

    They add in another order, which only `float_sums="free"` allows, and run as nodes of a graph.
    cost: a factor of the estimated time; less than 1 prefers them.
    """
    source = resource_dir("runtime_c") / "cuda" / "ec_cudnn.h"
    return (Kernel("edgec_cudnn_conv_f32", source, use=partial(_use, cost), on_gpu=True),)


def _use(cost: float, nest: Nest) -> Use | None:
    found = float_products(nest)
    if found is None or found.sort != "conv" or not _is_known(found):
        return None
    numbers = (
        *found.x, *found.out, *found.kernel, *found.stride, *found.dilation, *found.padding,
        int(found.minimum == 0),
    )  # fmt: skip
    given: list[Argument] = ["x", "out", found.weights, found.bias, *map(int, numbers)]
    instructions, blocks = in_tiles(found)
    return Use(given, instructions * cost, blocks)


def float_products(nest: Nest) -> Products | None:
    """Products of float32 as nodes of a graph, where any order of a sum will do; else None."""
    options = nest.options
    is_free = nest.dtype == "float32" and options.float_sums == "free"
    found = products_of(nest) if is_free and options.driver in ("auto", "graph") else None
    return None if found is None or found.rounding else found


def in_tiles(found: Products) -> tuple[float, int]:
    """Instructions, and blocks that share them, of a library's products of matrices."""
    pixels, channels = prod(found.out[:-1]), found.out[-1]
    blocks = -(-pixels // PIXELS) * -(-channels // CHANNELS)
    each = PIXELS * CHANNELS * found.weights[0].size / OF_PEAK
    return blocks * each, blocks


def _is_known(found: Products) -> bool:
    """Whether cuDNN has this end, and with the same padding on both sides the same windows."""
    ends = (found.minimum, found.maximum) in ((-inf, inf), (0, inf))
    reached = tuple(
        (extent + 2 * before - (kernel - 1) * dilation - 1) // stride + 1
        for extent, before, kernel, dilation, stride in zip(
            found.x[1:3], found.padding, found.kernel, found.dilation, found.stride, strict=True
        )
    )
    return ends and reached == found.out[1:3]
