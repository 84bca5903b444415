"""Sums of float32 products in a fixed order: one rounding for each product and each addition.

Generated C accumulates like this on every target, so the reference has to do the same: for each
output, start with the bias and add product after product in the order of the reduction. NumPy's
own products (BLAS) choose their order by themselves; here only the outputs are vectorised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Accumulators computed at once: they and their products stay in a cache of 512 KiB.
_BLOCK = 1 << 16
#: Elements of NumPy's buffers here. A row that is broadcast is copied into one where it is shorter
#: than a third of it, which takes longer than the product: of the usual 8,192, most rows are.
_BUFFER = 256


def without_negative_zeros(bias: Array) -> Array:
    """The bias with +0.0 for -0.0.

    A sum that starts so never becomes -0.0, and adding the product of a padding zero changes
    nothing: it does not matter whether padding is skipped or multiplied.
    """
    return np.asarray(bias + bias.dtype.type(0))


def ordered_products(x: Array, weights: Array, bias: Array) -> Array:
    """acc[p, o] = bias[o]; for k in order: acc[p, o] += x[p, k] * weights[o, k], all in float32.

    x [P, K], weights [O, K] and bias [O] are float32; returns [P, O].
    """
    pixels, depth = x.shape
    outputs = weights.shape[0]
    start = without_negative_zeros(bias)
    result = np.empty((pixels, outputs), np.float32)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"), _short_buffers():
        if outputs >= pixels:
            _accumulate(np.ascontiguousarray(x.T), np.ascontiguousarray(weights.T),
                        np.broadcast_to(start, result.shape), result)  # fmt: skip
            return result
        # The longer axis last, and in blocks.
        step = max(_BLOCK // outputs, 1)
        columns = np.ascontiguousarray(weights.T)
        for first in range(0, pixels, step):
            part = np.ascontiguousarray(x[first : first + step].T)
            sums = np.empty((outputs, part.shape[1]), np.float32)
            _accumulate(columns, part, np.broadcast_to(start[:, None], sums.shape), sums)
            result[first : first + step] = sums.T
    assert depth == weights.shape[1]
    return result


@contextmanager
def _short_buffers() -> Iterator[None]:
    usual = np.setbufsize(_BUFFER)
    try:
        yield
    finally:
        np.setbufsize(usual)


def _accumulate(rows: Array, columns: Array, start: Array, sums: Array) -> None:
    """sums[i, j] = start[i, j] + rows[0, i] * columns[0, j] + rows[1, i] * columns[1, j] + ..."""
    product = np.empty_like(sums)
    sums[...] = start
    for row, column in zip(rows, columns, strict=True):
        np.multiply(row[:, None], column[None, :], out=product)
        np.add(sums, product, out=sums)
