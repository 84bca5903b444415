"""The DSP microkernels of softmax do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, run_on_core

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel
from edgec.ops.softmax import count_leading_zeros, exp_table
from edgec.targets.dsp.kernels.softmax import MOST_SHIFT

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = """
#include "kernels/dsp/softmax_s8.h"

void run_largest(int32_t *out, const int8_t *x, WORDS(n));
void run_largest(int32_t *out, const int8_t *x, WORDS(n))
{ ec_largest_s8_dsp(out, x, n[0]); }
void run_sum(int32_t *out, const int8_t *x, const int32_t *row, const int32_t *exps, WORDS(n));
void run_sum(int32_t *out, const int8_t *x, const int32_t *row, const int32_t *exps, WORDS(n))
{ ec_sum_exponentials_s8_dsp(out, x, row, exps, n[0]); }
void run_softmax(int8_t *out, const int8_t *x, const int32_t *most, const int32_t *reciprocal,
                 const int32_t *headroom, const int32_t *exps, WORDS(n));
void run_softmax(int8_t *out, const int8_t *x, const int32_t *most, const int32_t *reciprocal,
                 const int32_t *headroom, const int32_t *exps, WORDS(n))
{ ec_softmax_s8_dsp(out, x, most, reciprocal, headroom, exps, n[0]); }
void run_in_place(int8_t *x, const int32_t *most, const int32_t *reciprocal,
                  const int32_t *headroom, const int32_t *exps, WORDS(n));
void run_in_place(int8_t *x, const int32_t *most, const int32_t *reciprocal,
                  const int32_t *headroom, const int32_t *exps, WORDS(n))
{ ec_softmax_s8_dsp(x, x, most, reciprocal, headroom, exps, n[0]); }
"""
COUNTS = [*range(4, 14), 256, 301]


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def row_of(rng, count):
    """A row, its largest element and the exponentials of some scale, which are any numbers too."""
    low = int(rng.integers(-128, 127))
    x = rng.integers(low, 128, count).astype(np.int8)
    exps = exp_table(1.0, float(10 ** rng.uniform(-4, 0.5))).astype(np.int32)
    if rng.integers(2):
        exps = rng.integers(0, 1 << 31, 256, dtype=np.int64).astype(np.int32)
    return x, np.array([x.max()], np.int32), exps


def test_largest(core):
    """Wherever it stands, and beside a larger one from before."""
    rng = np.random.default_rng(3)
    kernel = get_microkernel("ec_largest_s8_dsp")
    for count in COUNTS:
        for place in {*range(min(count, 9)), count - 1}:
            x = rng.integers(-128, int(rng.integers(-127, 128)), count).astype(np.int8)
            x[place] = x.max() + 1
            for before in (-128, -1, 127):
                out = np.array([before], np.int32)
                found = run_on_core(core, "run_largest", out, [x], [count])
                assert np.array_equal(found, meant(kernel, out, [x], [count]))


def test_sums(core):
    """Exponentials of all kinds, halves among them; a sum that was begun."""
    rng = np.random.default_rng(4)
    kernel = get_microkernel("ec_sum_exponentials_s8_dsp")
    for count in COUNTS:
        for _ in range(4):
            x, most, exps = row_of(rng, count)
            exps[::3] = exps[::3] & ~0xFFF | rng.choice([0, 0x7FF, 0x800, 0x801])
            out = np.array([rng.integers(0, 1 << 28)], np.int32)
            found = run_on_core(core, "run_sum", out, [x, most, exps], [count])
            assert np.array_equal(found, meant(kernel, out, [x, most, exps], [count]))


def test_results(core):
    """All headrooms; products on and beside what is rounded; results that are limited."""
    rng = np.random.default_rng(5)
    kernel = get_microkernel("ec_softmax_s8_dsp")
    for count in COUNTS:
        for headroom in range(1 if count > 256 else 4, 13):
            x, most, exps = row_of(rng, count)
            reciprocal = int(rng.choice([1 << 30, (1 << 31) - 1, rng.integers(1 << 30, 1 << 31)]))
            # Exponentials whose product with the reciprocal is nearest to a half, and beside it.
            share = rng.integers(0, 256, 256) * 2 + 1
            exact = (share << (MOST_SHIFT - headroom + 30)).astype(object) // reciprocal
            near = np.array([min(max(int(n), 0), (1 << 31) - 1) for n in exact])
            exps[1::2] = np.clip(near + rng.integers(-1, 2, 256), 0, (1 << 31) - 1)[1::2]
            one = [np.array([n], np.int32) for n in (most[0], reciprocal, headroom)]
            inputs = [x, *one, exps]
            out = np.full(count, 77, np.int8)
            expected = meant(kernel, out, inputs, [count])
            found = run_on_core(core, "run_softmax", out, inputs, [count])
            assert np.array_equal(found, expected)
            found = run_on_core(core, "run_in_place", x, inputs[1:], [count])
            assert np.array_equal(found, expected)


def test_leading_zeros_are_those_of_the_contract():
    """A row's sum is at least the exponential of its largest element, at most 4095 of them."""
    sums = np.array([1 << 19, 4095 << 19])
    assert count_leading_zeros(sums).tolist() == [12, 1]
