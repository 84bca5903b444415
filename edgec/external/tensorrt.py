"""Layers of float32 on a GPU by NVIDIA's TensorRT; each becomes an engine on the GPU that runs it.

TensorRT has no function that computes a layer: its C++ builder makes engines, on the very GPU. The
C++ is `runtime_c/cuda/ec_tensorrt.cpp`, a library of its own that the model's C opens; that file
explains how the engines compute the same bits in every run. The cost includes two kernels in
addition to `edgec.external.gpu_libraries`: TensorRT moves the input's elements to one plane for
each channel, and the output's elements back.
"""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from edgec.external.gpu_libraries import blocks_of, float_products, gpu_kernels, in_tiles
from edgec.targets.cuda.costs import FIRST_CYCLES, GPUS, LIBRARY_LANES
from edgec.targets.external import Kernel, Use
from edgec.targets.rule import Nest

#: Instructions to move an element, and the kernels that move elements.
MOVE_INSTRUCTIONS, MOVES = 8, 2


def tensorrt(cost: float = 1.0) -> tuple[Kernel, ...]:
    """Convolutions and dense layers with bias and limits after them, by TensorRT 8.6 or newer.

    They add in another order, which only `float_sums="free"` allows, and run as nodes of a graph.
    cost: a factor of the estimated time; less than 1 prefers them.
    """
    return gpu_kernels("tensorrt", partial(_use, cost))


def _use(cost: float, nest: Nest) -> Use | None:
    found = float_products(nest, "conv", "dense")
    if found is None:
        return None
    # A dense layer is a convolution of images of one pixel, one for each row.
    x, out = (
        shape if found.sort == "conv" else (prod(shape[:-1]), 1, 1, shape[-1])
        for shape in (found.x, found.out)
    )
    after = found.padding_after if found.sort == "conv" else (0, 0)
    limits = np.array((found.minimum, found.maximum), np.float32).view(np.int32)
    numbers = (
        *x, *out, *found.kernel, *found.stride, *found.dilation, *found.padding, *after, *limits,
    )  # fmt: skip
    return in_tiles(found, numbers, cost, _to_move(nest, prod(x) + prod(out), blocks_of(found)))


def _to_move(nest: Nest, elements: int, blocks: int) -> float:
    """The cost of the kernels that move elements, as equivalent work of blocks."""
    gpu = GPUS[nest.core.gpu_architecture]
    cycles = MOVES * (gpu.node_us * gpu.clock_mhz + FIRST_CYCLES)
    return MOVE_INSTRUCTIONS * elements + cycles * LIBRARY_LANES * min(blocks, gpu.multiprocessors)
