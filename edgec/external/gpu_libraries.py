"""Shared by cuDNN and TensorRT: products of float32 as nodes of a graph, and their cost.

The cost is a model, not a measurement: each tile of 128 pixels by 64 channels is a block that a
multiprocessor computes at 70 % of its peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from edgec.loop.primitives.call_foreign import Argument
from edgec.resources import resource_dir
from edgec.targets.common.described import Products, Sort, products_of
from edgec.targets.external import Kernel, Use
from edgec.targets.rule import Nest

PIXELS, CHANNELS, OF_PEAK = 128, 64, 0.7


def gpu_kernels(library: str, use: Callable[[Nest], Use | None]) -> tuple[Kernel, ...]:
    """The function of `runtime_c/cuda/ec_<library>.h` for convolutions; use: how to call it."""
    source = resource_dir("runtime_c") / "cuda" / f"ec_{library}.h"
    return (Kernel(f"edgec_{library}_conv_f32", source, use=use, on_gpu=True),)


def float_products(nest: Nest, *sorts: Sort) -> Products | None:
    """Products of float32 in a graph, of one of these sorts, whose sums may have any order."""
    options = nest.options
    is_free = nest.dtype == "float32" and options.float_sums == "free"
    found = products_of(nest) if is_free and options.driver in ("auto", "graph") else None
    return None if found is None or found.rounding or found.sort not in sorts else found


def blocks_of(found: Products) -> int:
    """The tiles of the output."""
    return -(-prod(found.out[:-1]) // PIXELS) * -(-found.out[-1] // CHANNELS)


def in_tiles(found: Products, numbers: Iterable[int], cost: float, more: float = 0.0) -> Use:
    """The call with these numbers; more: instructions in addition to the products'."""
    given: list[Argument] = ["x", "out", found.weights, found.bias, *map(int, numbers)]
    blocks = blocks_of(found)
    instructions = blocks * PIXELS * CHANNELS * found.weights[0].size / OF_PEAK
    return Use(given, (instructions + more) * cost, blocks)
