"""The DSP microkernel of 3x3 windows over one channel does what it is registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, run_on_core

import edgec.targets.kernels  # noqa: F401  registers it
from edgec.loop.microkernel import get_microkernel
from edgec.targets.dsp.kernels.plane_windows import NAME

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = """
#include "kernels/dsp/plane_windows_s8.h"

void run_plane(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));

void run_plane(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_plane_row_s8_dsp(out, x, s, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9],
  n[10]); }
"""


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def layer(rng, channels, shifts):
    """Constants that the policy accepts."""
    return {
        "bias": rng.integers(-(1 << 18), 1 << 18, channels).astype(np.int32),
        "w": rng.integers(-128, 128, (channels, 3, 3)).astype(np.int8),
        "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": np.resize(shifts, channels).astype(np.int8),
    }


def check_row(core, rng, sizes, row, tables):
    """C against meaning; sizes as the kernel's."""
    kernel = get_microkernel(NAME)
    named = dict(zip(kernel.sizes, sizes, strict=True))
    stream = kernel.stream.pack(tables, **named)
    assert stream.size == kernel.stream.words(**named)
    for name, array in kernel.stream.unpack(stream, **named).items():
        assert np.array_equal(np.reshape(array, tables[name].shape), tables[name])
    x = rng.integers(-128, 128, named["height"] * named["width"]).astype(np.int8)
    out = np.full(named["out_width"] * named["channels"], 77, np.int8)
    expected = meant(kernel, out, [x, stream], (*sizes, row))
    assert np.array_equal(run_on_core(core, "run_plane", out, [x, stream], (*sizes, row)), expected)


def extent(size, before, behind, stride):
    return (size + before + behind - 3) // stride + 1


@pytest.mark.parametrize("stride_w", [1, 2, 3])
def test_every_edge(core, stride_w):
    """Nothing outside of x is read, with more or less padding at every side or with none."""
    rng = np.random.default_rng(3)
    cases = 0
    for width in (1, 3, 4, 5, 9):
        for left, right in ((0, 0), (1, 0), (0, 1), (2, 2)):
            if width + left + right < 3:
                continue
            out_width = extent(width, left, right, stride_w)
            for height, top, bottom, stride_h in ((3, 0, 0, 1), (2, 1, 1, 1), (5, 1, 2, 2)):
                padded = int(max(left, right, top, bottom) > 0)
                sizes = (height, width, 2, stride_h, stride_w, top, left, out_width, padded, -7)
                for row in range(extent(height, top, bottom, stride_h)):
                    check_row(core, rng, sizes, row, layer(rng, 2, rng.integers(-16, 0, 2)))
                    cases += 1
    assert cases > 80


@pytest.mark.parametrize("channels", [2, 8, 34])
def test_channels(core, channels):
    rng = np.random.default_rng(4)
    for row in range(2):
        sizes = (5, 10, channels, 2, 2, 0, 0, 5, 1, 127)
        check_row(core, rng, sizes, row, layer(rng, channels, -1 - np.arange(16)))


def test_extremes_ties_and_saturation(core):
    """Sums on and beside ties of both roundings, and at the limits that the policy allows."""
    rng = np.random.default_rng(5)
    channels = 48
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
            check_row(core, rng, (3, 6, channels, 1, 1, 1, 1, 6, 1, -128), 1, tables)
