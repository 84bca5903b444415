"""The MVE microkernels of sums, products, means and maxima do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import meant
from mve_machine import BUILDS, Call, build_name, has_qemu, machine_of

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel, meaning_of

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

SOURCE = """
#include "kernels/helium/elements_s8.h"
#include "kernels/helium/pool_s8.h"
#include "kernels/helium/pool_s8_onnx.h"
static void run_mean(void *out, const void *x, const void *s, const int32_t *n) {
    (void)s;
    ec_mean_s8_mve(out, x, n[0], n[1], n[2], n[3], n[4]);
}
static void run_max(void *out, const void *x, const void *s, const int32_t *n) {
    (void)s;
    ec_max_pool_s8_mve(out, x, (const void *)n);
}
static void run_mul(void *out, const void *x, const void *s, const int32_t *n) {
    ec_mul_s8_mve(out, x, s, (const void *)n);
}
static void run_mul_high(void *out, const void *x, const void *s, const int32_t *n) {
    ec_mul_high_s8_mve(out, x, s, n[0], n[1], n[2], n[3], n[4]);
}
static void run_sum(void *out, const void *x, const void *s, const int32_t *n) {
    ec_linear_sum_s8_mve(out, x, s, (const void *)n);
}
static void run_real(void *out, const void *x, const void *s, const int32_t *n) {
    (void)s;
    ec_sum_real_channels_s8_mve(out, x, n[0], n[1], n[2], n[3], n[4]);
}
"""


@pytest.fixture(scope="module", params=BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elements")
    functions = ("run_sum", "run_mean", "run_max", "run_mul", "run_mul_high", "run_real")
    return machine_of(request.param, SOURCE, functions, folder)


def test_linear_sums(machine):
    """Every length up to some vectors, factors of both signs, limits, all operands."""
    rng = np.random.default_rng(3)
    kernel = get_microkernel("ec_linear_sum_s8_mve")
    calls, wanted = [], []
    for count in [*range(1, 40), 256]:
        shift = int(rng.integers(0, 23))
        first, second = (int(f) for f in rng.integers(-(2 << shift), 3 << shift, 2))
        constant = int(rng.integers(-(20 << shift), 20 << shift))
        low = int(rng.integers(-128, 100))
        numbers = (count, first, second, constant, shift, low, int(rng.integers(low, 128)))
        a, b = (rng.permutation(256)[:count].astype(np.int16) - 128 for _ in range(2))
        a, b = a.astype(np.int8), b.astype(np.int8)
        out = np.full(count, 77, np.int8)
        calls.append(Call(0, out, a, b, numbers))
        wanted.append(meant(kernel, out, [a, b], numbers))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers


@pytest.mark.parametrize("name", ["mul", "mul_high"])
def test_products(machine, name):
    """Every length up to some vectors, zero points at the ends, products of all magnitudes."""
    rng = np.random.default_rng(6)
    kernel = get_microkernel(f"ec_{name}_s8_mve")
    calls, wanted = [], []
    for count in [*range(1, 40), 256]:
        first, second = (int(rng.choice([-127, -5, 0, 128])) for _ in range(2))
        factor = [int(2 ** rng.uniform(10, 31)) - 1]
        if name == "mul":
            factor = [int(rng.integers(1 << 30, 1 << 31)), int(rng.integers(-31, 0))]
            if factor[1] < -10:  # ties
                factor = [1 << 30, -4]
        numbers = (count, first, second, *factor, int(rng.integers(-128, 128)))
        a, b = ((rng.permutation(256)[:count] - 128).astype(np.int8) for _ in range(2))
        a[0], b[0] = rng.choice([-128, 127], 2)
        out = np.full(count, 77, np.int8)
        calls.append(Call(3 + (name == "mul_high"), out, a, b, numbers))
        wanted.append(meant(kernel, out, [a, b], numbers))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers


def test_means(machine):
    """Few and many values, also more than int16 holds the sum of; ties; channels that overlap."""
    rng = np.random.default_rng(4)
    kernel = get_microkernel("ec_mean_s8_mve")
    calls, wanted = [], []
    for height, width, channels, low, high in (
        (1, 1, 16, -128, 127), (1, 2, 17, -128, 127), (2, 2, 40, -100, 90), (3, 5, 31, -128, 127),
        (5, 51, 16, -128, 127), (4, 64, 16, -128, 127), (3, 172, 20, -128, 127),
    ):  # fmt: skip
        for values in ((-128, 128), (127, 128), (-128, -127), (0, 2)):
            numbers = (height, width, channels, low, high)
            x = rng.integers(*values, height * width * channels).astype(np.int8)
            out = np.full(channels, 77, np.int8)
            calls.append(Call(1, out, x, np.zeros(0, np.int8), numbers))
            wanted.append(meant(kernel, out, [x], numbers))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers


def test_sums_in_floats(machine):
    """Few and many values, zero points at the ends, scales of all magnitudes; every bit."""
    rng = np.random.default_rng(7)
    kernel = get_microkernel("ec_sum_real_channels_s8_mve")
    calls, wanted = [], []
    for height, width, channels in ((1, 1, 8), (1, 2, 16), (3, 5, 40), (25, 5, 8), (9, 60, 24)):
        for zero_point, scale in ((-128, 0.11), (0, 1e-18), (127, 3e4), (-3, 1 / 3)):
            bits = int(np.float32(scale).view(np.int32))
            numbers = (height, width, channels, zero_point, bits)
            x = rng.integers(-128, 128, height * width * channels).astype(np.int8)
            out = np.full(channels, 77, np.float32)
            calls.append(Call(5, out, x, np.zeros(0, np.int8), numbers))
            wanted.append(meant(kernel, out, [x], numbers))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got.view(np.int32), want.view(np.int32)), call.numbers


def test_maxima(machine):
    """Windows of every shape, numbers of channels around a vector, limits on both sides."""
    rng = np.random.default_rng(5)
    kernel = get_microkernel("ec_max_pool_s8_mve")
    calls, wanted = [], []
    for channels in (1, 3, 15, 16, 17, 32, 41):
        for window, stride, pixels in (
            ((1, 1), 1, 3),
            ((2, 2), 2, 4),
            ((3, 3), 1, 1),
            ((1, 5), 3, 2),
        ):
            low = int(rng.integers(-128, 0))
            pitch = channels * (window[1] + stride * pixels + int(rng.integers(0, 3)))
            numbers = (*window, channels, pitch, stride * channels, pixels, low, 100)
            elements = meaning_of(kernel, numbers).params[1].elements
            x = rng.integers(-128, 128, elements).astype(np.int8)
            out = np.full(pixels * channels, 77, np.int8)
            calls.append(Call(2, out, x, np.zeros(0, np.int8), numbers))
            wanted.append(meant(kernel, out, [x], numbers))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers
