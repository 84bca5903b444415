"""The DSP microkernels of depthwise rows do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, run_on_core

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel
from edgec.targets.dsp.kernels.depthwise_row import KERNELS, fits_row, row_window

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = """
#include "kernels/dsp/depthwise_row_s8_by_2.h"

void run_row_1(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_row_2(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));

void run_row_1(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_depthwise_row_s8_dsp(out, x, s, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]); }
void run_row_2(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_depthwise_row_2_s8_dsp(out, x, s, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]); }
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


def check_row(core, rng, sizes, row, tables, stride):
    """C against meaning; sizes as the kernel's."""
    kernel = get_microkernel(KERNELS[stride])
    named = dict(zip(kernel.sizes, sizes, strict=True))
    stream = kernel.stream.pack(tables, **named)
    assert stream.size == kernel.stream.words(**named)
    x = rng.integers(-128, 128, named["height"] * named["width"] * named["channels"])
    x = x.astype(np.int8)
    out = np.full(named["out_width"] * named["channels"], 77, np.int8)
    expected = meant(kernel, out, [x, stream], (*sizes, row))
    assert np.array_equal(
        run_on_core(core, f"run_row_{stride}", out, [x, stream], (*sizes, row)), expected
    )


def shapes(stride):
    """(sizes, rows of outputs): padding at every side or at none, any number of outputs."""
    for width in (2, 3, 4, 9) if stride == 1 else (4, 5, 7, 8):
        for left in (0, 1):
            for right in (0, 1):
                out_width = (width + left + right - 3) // stride + 1
                for height, top, bottom in ((2, 1, 1), (3, 0, 0), (4, 1, stride - 1)):
                    sizes = (height, width, 2, top, left, out_width, 1, -7)
                    rows = (height + top + bottom - 3) // stride + 1
                    if rows > 0 and fits_row(row_window(stride, *sizes), rows):
                        yield sizes, rows
        if (width - 3) // stride > 0:
            yield (5, width, 2, 0, 0, (width - 3) // stride + 1, 0, 0), 2 // stride + 1


@pytest.mark.parametrize("stride", KERNELS)
def test_every_shape(core, stride):
    rng = np.random.default_rng(3)
    cases = list(shapes(stride))
    assert len({sizes[5] % 3 for sizes, _ in cases}) == 3
    assert {(sizes[3], sizes[4], sizes[6]) for sizes, _ in cases} > {
        (1, 1, 1),
        (0, 0, 1),
        (0, 0, 0),
    }
    for sizes, rows in cases:
        for row in range(rows):
            check_row(core, rng, sizes, row, layer(rng, 2, rng.integers(-16, 0, 2)), stride)


@pytest.mark.parametrize("stride", KERNELS)
def test_many_channels(core, stride):
    rng = np.random.default_rng(4)
    for channels in (1, 7, 64):
        for row in range(3 // stride):
            sizes = (3, 6, channels, 1, 1, 6 // stride, 1, 127)
            check_row(core, rng, sizes, row, layer(rng, channels, -1 - np.arange(16)), stride)


@pytest.mark.parametrize("stride", KERNELS)
def test_extremes_ties_and_saturation(core, stride):
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
            sizes = (3, 4, channels, 1, 1, 4 // stride, 1, -128)
            check_row(core, rng, sizes, 1, tables, stride)


def test_streams_give_their_constants_back():
    rng = np.random.default_rng(6)
    kernel = get_microkernel(KERNELS[1])
    sizes = dict(zip(kernel.sizes, (3, 4, 16, 1, 1, 4, 1, 0), strict=True))
    tables = layer(rng, 16, -1 - np.arange(16))
    found = kernel.stream.unpack(kernel.stream.pack(tables, **sizes), **sizes)
    for key, array in tables.items():
        assert np.array_equal(np.asarray(found[key]).reshape(-1), array.reshape(-1)), key
