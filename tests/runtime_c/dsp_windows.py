"""Rows of 3x3 depthwise windows for the DSP kernels that compute them, and their comparison."""

from __future__ import annotations

import numpy as np
from kernel_images import meant, run_on_core


def layer(rng, channels, shifts):
    """Constants that the policy accepts."""
    return {
        "bias": rng.integers(-(1 << 18), 1 << 18, channels).astype(np.int32),
        "w": rng.integers(-128, 128, (channels, 3, 3)).astype(np.int8),
        "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": np.resize(shifts, channels).astype(np.int8),
    }


def extreme_layers(rng, channels):
    """Sums on and beside ties of both roundings, and at the limits that the policy allows."""
    for shift in (-16, -9, -8, -7, -6, -5, -1):
        for extreme in (False, True):
            tables = layer(rng, channels, [shift])
            tables["multiplier"][::3] = 1 << 30
            tables["multiplier"][1::3] = (1 << 31) - 1
            if extreme:
                tables["w"][:] = np.where(rng.random((channels, 3, 3)) < 0.5, -128, 127)
            half = rng.integers(-300, 300, channels)
            tables["w"][half % 2 == 1] = 0  # the bias alone is the sum
            most = (1 << 23) - 1 - 128 * np.abs(tables["w"].astype(int)).sum(axis=(1, 2))
            bias = half * (1 << -shift) + rng.integers(-2, 3, channels)
            if extreme:
                bias = np.where(rng.random(channels) < 0.5, -most, most)
            tables["bias"] = np.clip(bias, -most, most).astype(np.int32)
            yield tables


def check_row_of_windows(core, kernel, function, x, sizes, row, tables):
    """C against meaning, and the stream against its tables; sizes as the kernel's."""
    named = dict(zip(kernel.sizes, sizes, strict=True))
    stream = kernel.stream.pack(tables, **named)
    assert stream.size == kernel.stream.words(**named)
    for name, array in kernel.stream.unpack(stream, **named).items():
        assert np.array_equal(np.reshape(array, tables[name].shape), tables[name])
    out = np.full(named["out_width"] * named["channels"], 77, np.int8)
    expected = meant(kernel, out, [x, stream], (*sizes, row))
    assert np.array_equal(run_on_core(core, function, out, [x, stream], (*sizes, row)), expected)
