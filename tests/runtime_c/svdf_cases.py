"""Random filters over time, for the kernels of all cores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

Arrays = list[np.ndarray]


def svdf_cases(dtype: str, step: int = 1) -> Iterator[tuple[Arrays, tuple[int, int, int]]]:
    """([x, bias, w, multiplier, shift], (units, taps, zero_point)) of an `ec_svdf_time_*`.

    taps: multiples of `step`.
    """
    rng = np.random.default_rng(7)
    info = np.iinfo(dtype)
    for taps in (1, 2, 3, 4, 6, 7, 8, 9, 12, 16, 17, 32, 33):
        if taps % step:
            continue
        for units in (1, 5):
            for is_wild in (False, True):
                x, w = (
                    rng.integers(info.min, info.max + 1, units * taps).astype(dtype)
                    for _ in range(2)
                )
                # Any bias, and sums that wrap; or biases that keep results in range.
                most = 1 << 31 if is_wild else 1 << 12
                if not is_wild:
                    w //= 1 << (info.bits - 4)
                bias = rng.integers(-most, most, units).astype(np.int32)
                multiplier = np.array([rng.integers(1 << 30, 1 << 31)], np.int32)
                least = -24 if is_wild else -(info.bits - 1)
                shift = np.array([rng.integers(least, 0)], np.int8)
                if taps == 8:  # ties
                    multiplier[0], shift[0] = 1 << 30, -3
                yield [x, bias, w, multiplier, shift], (units, taps, int(rng.integers(-128, 128)))
