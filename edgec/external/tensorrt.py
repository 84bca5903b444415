"""Layers of float32 on a GPU by NVIDIA's TensorRT, each an engine that is made where it runs.

TensorRT has no function of a layer: its builder makes engines, on the very GPU, through C++. The
C++ is `runtime_c/cuda/ec_tensorrt.cpp`, a library of its own that the model's C opens; how the
engines get the same bits in every run is said there. What one takes is a model, no measurement: the
tiles of `edgec.external.cudnn` and a kernel on each side, which lays the channels apart and
together again.
"""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from edgec.external.cudnn import float_products, in_tiles
from edgec.loop.primitives.call_foreign import Argument
from edgec.resources import resource_dir
from edgec.targets.cuda.costs import FIRST_CYCLES, GPUS, LIBRARY_LANES
from edgec.targets.external import Kernel, Use
from edgec.targets.rule import Nest

#: Instructions to move an element, and how often one kernel on each side does.
MOVE_INSTRUCTIONS, MOVES = 8, 2


def tensorrt(cost: float = 1.0) -> tuple[Kernel, ...]:
    """Convolutions and dense layers with bias and limits after them, by TensorRT 8.6 or newer.

    They add in another order, which only `float_sums="free"` allows, and run as nodes of a graph.
    cost: a factor of the estimated time; less than 1 prefers them.
    """
    source = resource_dir("runtime_c") / "cuda" / "ec_tensorrt.h"
    return (Kernel("edgec_tensorrt_conv_f32", source, use=partial(_use, cost), on_gpu=True),)


def _use(cost: float, nest: Nest) -> Use | None:
    found = float_products(nest)
    if found is None or found.sort not in ("conv", "dense"):
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
    given: list[Argument] = ["x", "out", found.weights, found.bias, *map(int, numbers)]
    instructions, blocks = in_tiles(found)
    instructions += _to_move(nest, prod(x) + prod(out), blocks)
    return Use(given, instructions * cost, blocks)


def _to_move(nest: Nest, elements: int, blocks: int) -> float:
    """Instructions that blocks would do while two more kernels start and move so many elements."""
    gpu = GPUS[nest.core.gpu_architecture]
    cycles = MOVES * (gpu.node_us * gpu.clock_mhz + FIRST_CYCLES)
    return MOVE_INSTRUCTIONS * elements + cycles * LIBRARY_LANES * min(blocks, gpu.multiprocessors)
