"""Dense layers and 1x1 convolutions of weights that are mostly zeros: the others as a stream.

`runtime_c/external/edgec_sparse.c` reads it: of each channel and block of 256 inputs, fours of
positions in the block and weights. Zeros take no time and no flash.
"""

from __future__ import annotations

import numpy as np

from edgec.loop.primitives.call_foreign import Argument
from edgec.loop.values import Array
from edgec.resources import resource_dir
from edgec.targets.common.described import Products, products_of
from edgec.targets.external import Kernel, Use
from edgec.targets.rule import Nest

#: Below this share of zeros it is not tried.
LEAST_ZEROS = 0.7
#: Positions of a block, weights that come together, and how many such a block may have.
POSITIONS, FOUR, MOST = 256, 4, 255
#: Instructions of a weight that is not zero, of a block, of a result.
WEIGHT, BLOCK, RESULT = 4.75, 6.0, 30.0


def sparse() -> tuple[Kernel, ...]:
    """Dense layers and 1x1 convolutions of int8 with at least 70 % of zeros among the weights.

    Taken where it needs fewer instructions than edgec's own kernels. Raises EdgecError where
    edgec's own files are missing.
    """
    source = resource_dir("runtime_c") / "external" / "edgec_sparse.c"
    return (Kernel("edgec_sparse_s8", source, use=_use),)


def _use(nest: Nest) -> Use | None:
    found = products_of(nest)
    if found is None or not _is_plain(nest, found):
        return None
    weights = found.weights.reshape(found.weights.shape[0], -1)
    if np.count_nonzero(weights) > (1 - LEAST_ZEROS) * weights.size:
        return None
    streamed = _stream(weights)
    if streamed is None:
        return None
    stream, counts = streamed
    assert found.multiplier is not None and found.shift is not None
    bias = found.bias.astype(np.int64) + found.offset * weights.sum(axis=1, dtype=np.int64)
    if not _fits(weights, bias):
        return None
    channels = np.stack([bias.astype(np.int32), found.multiplier, -found.shift], axis=1)
    rows, depth = int(np.prod(found.out[:-1])), weights.shape[1]
    limits = found.zero_point, found.minimum, found.maximum
    sizes = np.array([rows, depth, len(weights), *limits], np.int32)
    instructions = rows * (stream.size / 2 * WEIGHT + counts.size * BLOCK + len(weights) * RESULT)
    given: list[Argument] = ["x", "out", stream, counts, channels.astype(np.int32), sizes]
    return Use(given, instructions)


def _is_plain(nest: Nest, found: Products) -> bool:
    """Whether each result is a row of inputs times weights, of int8 in TFLite's rounding."""
    if found.sort == "depthwise" or found.rounding != "tflm":
        return False
    is_pixel = found.kernel == (1, 1) and found.stride == (1, 1) and found.padding == (0, 0)
    is_right = found.shift is not None and bool((found.shift <= 0).all())
    return is_pixel and is_right and (nest.dtype, nest.out_dtype) == ("int8", "int8")


def _stream(weights: Array) -> tuple[Array, Array] | None:
    """Places and weights in fours, and how many fours each block has; None for too many."""
    parts: list[Array] = []
    counts = []
    for row in weights:
        for start in range(0, row.size, POSITIONS):
            (positions,) = np.nonzero(row[start : start + POSITIONS])
            fours = -(-positions.size // FOUR)
            padded = np.zeros((2, fours * FOUR), np.uint8)
            padded[0, : positions.size] = positions
            padded[1, : positions.size] = row[start + positions].astype(np.int8).view(np.uint8)
            parts.append(padded.reshape(2, fours, FOUR).transpose(1, 0, 2).reshape(-1))
            counts.append(fours)
    if max(counts) > MOST:
        return None
    return np.concatenate(parts), np.array(counts, np.uint8)


def _fits(weights: Array, bias: Array) -> bool:
    """Whether all sums, including rounding, fit in int32."""
    most = np.abs(bias) + 128 * np.abs(weights.astype(np.int64)).sum(axis=1)
    return bool((most < 1 << 30).all())
