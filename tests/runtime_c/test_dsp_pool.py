"""The DSP microkernels of means, sums and maxima do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, run_on_core

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel, meaning_of

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = """
#include "kernels/dsp/pool_s8.h"

void run_mean(int8_t *out, const int8_t *x, WORDS(n));
void run_max(int8_t *out, const int8_t *x, WORDS(n));
void run_add(int32_t *out, const int8_t *x, const int32_t *total, WORDS(n));
void run_sum(int32_t *out, const int8_t *x, WORDS(n));

void run_mean(int8_t *out, const int8_t *x, WORDS(n))
{ ec_mean_s8_dsp(out, x, n[0], n[1], n[2], n[3], n[4], n[5]); }
void run_max(int8_t *out, const int8_t *x, WORDS(n))
{ ec_max_pool_s8_dsp(out, x, n[0], n[1], n[2], n[3], n[4], n[5]); }
void run_add(int32_t *out, const int8_t *x, const int32_t *total, WORDS(n))
{ ec_add_channels_s8_dsp(out, x, total, n[0], n[1]); }
void run_sum(int32_t *out, const int8_t *x, WORDS(n))
{ ec_sum_channels_s8_dsp(out, x, n[0], n[1], n[2]); }
"""
#: Values to draw inputs from: all, and those that add up most or tie.
VALUES = ((-128, 128), (127, 128), (-128, -127), (0, 2), (-1, 1))


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def check_pool(core, rng, name, runner, numbers, values):
    """One pixel of a pool."""
    kernel = get_microkernel(name)
    elements = meaning_of(kernel, numbers).params[1].elements
    x = rng.integers(*values, elements).astype(np.int8)
    out = np.full(numbers[2], 77, np.int8)
    expected = meant(kernel, out, [x], numbers)
    assert np.array_equal(run_on_core(core, runner, out, [x], numbers), expected), numbers


def windows(channels):
    """(kernel_h, kernel_w, channels, pitch): rows apart and side by side."""
    for height, width in ((1, 1), (2, 2), (3, 3), (1, 5), (7, 1)):
        for more in (0, 1):
            yield height, width, channels, (width + more) * channels


def test_means(core):
    """Windows of every shape, whole images up to what int16 holds, ties of both signs, limits."""
    rng = np.random.default_rng(1)
    for channels in (4, 12, 24):
        for window in windows(channels):
            limits = (int(rng.integers(-128, 0)), int(rng.integers(0, 128)))
            check_pool(core, rng, "ec_mean_s8_dsp", "run_mean", (*window, *limits), (-128, 128))
    for height, width in ((2, 1), (2, 2), (3, 2), (25, 5), (15, 17), (1, 255)):
        for values in VALUES:
            window = (height, width, 8, width * 8)
            check_pool(core, rng, "ec_mean_s8_dsp", "run_mean", (*window, -128, 127), values)


def test_maxima(core):
    """Windows of every shape and limits on both sides."""
    rng = np.random.default_rng(2)
    for channels in (4, 8, 20):
        for window in windows(channels):
            low, high = int(rng.integers(-128, 0)), int(rng.integers(0, 128))
            for limits in ((-128, 127), (low, high)):
                numbers = (*window, *limits)
                check_pool(core, rng, "ec_max_pool_s8_dsp", "run_max", numbers, (-128, 128))


def test_sums_of_rows(core):
    """Added to totals; and alone, of more elements than int16 holds the sum of."""
    rng = np.random.default_rng(3)
    add, alone = (get_microkernel(f"ec_{name}_channels_s8_dsp") for name in ("add", "sum"))
    for count in (1, 2, 5, 255):
        for channels in (8, 16, 40):
            for values in VALUES[:3]:
                x = rng.integers(*values, count * channels).astype(np.int8)
                total = rng.integers(-(1 << 30), 1 << 30, channels).astype(np.int32)
                out = np.full(channels, 77, np.int32)
                expected = meant(add, out, [x, total], (count, channels))
                found = run_on_core(core, "run_add", out, [x, total], (count, channels))
                assert np.array_equal(found, expected), (count, channels)
    for height, width, channels, values in (
        (1, 1, 8, VALUES[0]), (5, 51, 8, VALUES[1]), (2, 128, 8, VALUES[2]), (7, 73, 16, VALUES[2]),
        (1, 600, 8, VALUES[0]),
    ):  # fmt: skip
        x = rng.integers(*values, height * width * channels).astype(np.int8)
        out = np.full(channels, 77, np.int32)
        numbers = (height, width, channels)
        expected = meant(alone, out, [x], numbers)
        assert np.array_equal(run_on_core(core, "run_sum", out, [x], numbers), expected), numbers
