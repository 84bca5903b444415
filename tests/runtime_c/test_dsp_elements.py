"""The DSP microkernels of products and sums of elements do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, run_on_core

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = """
#include "kernels/dsp/add_s8.h"
#include "kernels/dsp/elements_s8.h"

void run_mul(int8_t *out, const int8_t *a, const int8_t *b, WORDS(n));
void run_mul(int8_t *out, const int8_t *a, const int8_t *b, WORDS(n))
{ ec_mul_s8_dsp(out, a, b, (const ec_mul_sizes *)n); }
void run_mul_high(int8_t *out, const int8_t *a, const int8_t *b, WORDS(n));
void run_mul_high(int8_t *out, const int8_t *a, const int8_t *b, WORDS(n))
{ ec_mul_high_s8_dsp(out, a, b, n[0], n[1], n[2], n[3], n[4]); }
void run_add(int8_t *out, const int8_t *a, const int8_t *b, WORDS(n));
void run_add(int8_t *out, const int8_t *a, const int8_t *b, WORDS(n))
{ ec_add_s8_dsp(out, a, b, n[0], n[1], n[2], n[3]); }
void run_add_to_a(int8_t *a, const int8_t *b, WORDS(n));
void run_add_to_a(int8_t *a, const int8_t *b, WORDS(n))
{ ec_add_s8_dsp(a, a, b, n[0], n[1], n[2], n[3]); }
void run_add_to_b(int8_t *b, const int8_t *a, WORDS(n));
void run_add_to_b(int8_t *b, const int8_t *a, WORDS(n))
{ ec_add_s8_dsp(b, a, b, n[0], n[1], n[2], n[3]); }
"""


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


@pytest.mark.parametrize("name", ["mul", "mul_high"])
def test_products(core, name):
    """Every length up to some words, zero points at the ends, products of all magnitudes."""
    rng = np.random.default_rng(6)
    kernel = get_microkernel(f"ec_{name}_s8_dsp")
    for count in [*range(1, 14), 256]:
        for _ in range(3):
            first, second = (int(rng.choice([-127, -5, 0, 128])) for _ in range(2))
            factor = [int(2 ** rng.uniform(10, 30)) - 1]
            if name == "mul":
                factor = [int(rng.integers(1 << 30, 1 << 31)), int(rng.integers(-20, 0))]
                if factor[1] < -10:  # ties
                    factor = [1 << 30, -4]
            numbers = (count, first, second, *factor, int(rng.integers(-128, 128)))
            a, b = ((rng.permutation(256)[:count] - 128).astype(np.int8) for _ in range(2))
            a[0], b[0] = rng.choice([-128, 127], 2)
            out = np.full(count, 77, np.int8)
            expected = meant(kernel, out, [a, b], numbers)
            assert np.array_equal(run_on_core(core, f"run_{name}", out, [a, b], numbers), expected)


def test_sums(core):
    """One word and more, factors of both signs and up to eight, limited results."""
    rng = np.random.default_rng(8)
    kernel = get_microkernel("ec_add_s8_dsp")
    for count in (4, 8, 12, 20, 256):
        for _ in range(8):
            factors = [int(rng.choice([-1, 1]) * 2 ** rng.uniform(16, 27)) for _ in range(2)]
            numbers = (count, *factors, int(rng.integers(-72 << 16, 328 << 16)))
            a, b = ((rng.permutation(256)[:count] - 128).astype(np.int8) for _ in range(2))
            a[0], b[0] = rng.choice([-128, 127], 2)
            out = np.full(count, 77, np.int8)
            expected = meant(kernel, out, [a, b], numbers)
            assert np.array_equal(run_on_core(core, "run_add", out, [a, b], numbers), expected)


def test_sums_may_take_the_place_of_an_operand(core):
    """Four elements are read before they are written."""
    rng = np.random.default_rng(9)
    kernel = get_microkernel("ec_add_s8_dsp")
    numbers = (36, 12_000_000, 9_000_000, 133 << 16)
    a, b = (rng.integers(-128, 128, 36).astype(np.int8) for _ in range(2))
    expected = meant(kernel, np.zeros(36, np.int8), [a, b], numbers)
    for place in (0, 1):
        assert np.array_equal(
            run_on_core(core, f"run_add_to_{'ab'[place]}", a if place == 0 else b,
                        [b if place == 0 else a], numbers),
            expected,
        )  # fmt: skip
