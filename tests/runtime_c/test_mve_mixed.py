"""The MVE microkernels whose results are of another dtype than inputs, on a Cortex-M55."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import onnx_tables, with_arguments
from mve_machine import BUILDS, build_name, check_cases, has_qemu, machine_of

from edgec.loop.microkernel import get_microkernel, meaning_of

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

SOURCE = with_arguments("""
#include "kernels/helium/depthwise_s16.h"
#include "kernels/helium/depthwise_s16_of_s8_onnx.h"
#include "kernels/helium/matrix_s16.h"
#include "kernels/helium/matrix_s8_onnx.h"
static void run_dense_16(void *out, const void *x, const void *s, const int32_t *n) {
    ec_dense_onnx_s8_s16_mve(out, x, s, n[0], n[1], n[2], n[3]);
}
static void run_conv_16(void *out, const void *x, const void *s, const int32_t *n) {
    ec_conv_onnx_s8_s16_mve(out, x, s, ARGUMENTS(ec_conv_onnx_s8_s16_mve));
}
static void run_dense_8(void *out, const void *x, const void *s, const int32_t *n) {
    ec_dense_s16_s8_mve(out, x, s, n[0], n[1], n[2], n[3], n[4]);
}
static void run_conv_8(void *out, const void *x, const void *s, const int32_t *n) {
    ec_conv_s16_s8_mve(out, x, s, ARGUMENTS(ec_conv_s16_s8_mve));
}
static void run_any(void *out, const void *x, const void *s, const int32_t *n) {
    ec_matrix_1_s16_s8_any_mve(out, x, s, (const void *)n);
}
static void run_s64(void *out, const void *x, const void *s, const int32_t *n) {
    ec_matrix_1_s16_s8_s64_mve(out, x, s, (const void *)n);
}
static void run_depthwise_8(void *out, const void *x, const void *s, const int32_t *n) {
    ec_depthwise_s16_s8_mve(out, x, s, ARGUMENTS(ec_depthwise_s16_s8_mve));
}
static void run_depthwise_16(void *out, const void *x, const void *s, const int32_t *n) {
    ec_depthwise_onnx_s8_s16_mve(out, x, s, ARGUMENTS(ec_depthwise_onnx_s8_s16_mve));
}
""")
FUNCTIONS = {
    "ec_dense_onnx_s8_s16_mve": "run_dense_16",
    "ec_conv_onnx_s8_s16_mve": "run_conv_16",
    "ec_dense_s16_s8_mve": "run_dense_8",
    "ec_conv_s16_s8_mve": "run_conv_8",
    "ec_matrix_1_s16_s8_any_mve": "run_any",
    "ec_matrix_1_s16_s8_s64_mve": "run_s64",
    "ec_depthwise_s16_s8_mve": "run_depthwise_8",
    "ec_depthwise_onnx_s8_s16_mve": "run_depthwise_16",
}
DENSE_16, CONV_16, DENSE_8, CONV_8, ANY, WIDE, DEPTHWISE_8, DEPTHWISE_16 = FUNCTIONS
LIMITS_16 = [(-32768, 32767), (0, 32767), (-3000, 77)]
#: Zero point, minimum, maximum.
LIMITS_8 = [(-128, -128, 127), (-3, -128, 127), (7, 7, 100)]


@pytest.fixture(scope="module", params=BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mve_mixed")
    return machine_of(request.param, SOURCE, tuple(FUNCTIONS.values()), folder)


def limits_of(name, number):
    return (LIMITS_16 if "s8_s16" in name else LIMITS_8)[number % 3]


def tables(rng, name, channels, weights, *, ties=False):
    """Constants with which no accumulator of 32 bits overflows; results that are in their range."""
    if "onnx" in name:
        return onnx_tables(rng, weights, channels, ties=ties, shift=1, largest=2)
    wide, high = name == WIDE, name in (DENSE_8, CONV_8, DEPTHWISE_8)
    multiplier = np.full(channels, 1 << 14) if ties else rng.integers(1 << 14, 1 << 15, channels)
    exact = int(rng.integers(2, 14))
    halves = ((np.arange(channels) % 64 - 32) << exact - 1) + rng.integers(-1, 2, channels)
    bias = halves if ties else rng.integers(-(1 << 20), 1 << 20, channels)
    # By 2^14 * 2^-shift, or 2^29 * 2^-(32 + shift): 2^-exact.
    down = np.full(channels, exact) if ties else rng.integers(14, 20, channels)
    w = rng.integers(-128, 128, weights).astype(np.int8)
    return {
        "bias": bias.astype(np.int64 if wide else np.int32),
        "w": np.zeros_like(w) if ties else w,
        "multiplier": (multiplier << 15 if high else multiplier).astype(np.int32),
        "shift": (np.maximum(down - 3, 1) if high else down + 14).astype(np.int8),
    }


def dense_case(rng, name, depth, channels, number, *, ties=False):
    constants = tables(rng, name, channels, (channels, depth), ties=ties)
    return name, (depth, channels, *limits_of(name, number)), constants


def conv_case(rng, name, kernel, gap, step, pixels, channels, number, *, ties=False):
    pitch = (pixels - 1) * step + kernel[1] * kernel[2] + gap
    numbers = (*kernel, pitch, step, pixels, channels, *limits_of(name, number))
    return name, numbers, tables(rng, name, channels, (channels, *kernel), ties=ties)


def pixel_case(rng, name, window, channels, number, *, ties=False):
    constants = tables(rng, name, channels, (channels, *window), ties=ties)
    return name, (*window, channels, *limits_of(name, number)), constants


def depthwise_case(rng, name, kernel, rows, pixels, step, channels, number, *, ties=False):
    """Rows and taps with gaps between them."""
    tap = channels + int(rng.integers(4))
    pitch = kernel[1] * tap + int(rng.integers(9))
    row_step = pixels * step + int(rng.integers(9))
    limits = limits_of(name, number)
    numbers = (*kernel, pitch, tap, row_step, rows, step, pixels, channels, *limits)
    return name, numbers, tables(rng, name, channels, (*kernel, channels), ties=ties)


def check(machine, cases):
    """Run all cases of (kernel, sizes, constants) at once, by any inputs, and compare each."""
    rng = np.random.default_rng(8)
    given = []
    for name, numbers, constants in cases:
        params = meaning_of(get_microkernel(name), tuple(numbers)).params
        x = next(p for p in params if p.name == "x")
        info = np.iinfo(x.dtype)
        inputs = rng.integers(info.min, info.max + 1, x.elements).astype(info.dtype)
        given.append((list(FUNCTIONS).index(name), tuple(numbers), inputs, constants))
    return check_cases(machine, list(FUNCTIONS), given)


def test_every_length_of_a_run(machine):
    """Each number of lanes in the first slice, each way into the loop, and several rounds."""
    rng = np.random.default_rng(3)
    cases = [dense_case(rng, name, d, 8, d) for name in (DENSE_16, DENSE_8) for d in range(1, 90)]
    for name in (CONV_16, CONV_8):
        cases += [conv_case(rng, name, (1, 1, d), 0, d, 2, 4, d) for d in range(1, 90)]
    for name in (ANY, WIDE):
        cases += [pixel_case(rng, name, (1, 1, d), 4, d) for d in range(1, 30)]
    found = check(machine, cases)
    assert len(np.unique(np.concatenate([out for out in found if out.dtype == np.int8]))) > 200


def test_channels_and_windows(machine):
    """Units that overlap the one before; rows of windows, pixels apart, one pixel alone."""
    rng = np.random.default_rng(4)
    cases = []
    for name in (DENSE_16, DENSE_8):
        cases += [dense_case(rng, name, 21, channels, channels) for channels in range(8, 26)]
    for name in (CONV_16, CONV_8):
        cases += [conv_case(rng, name, (1, 1, 21), 0, 21, 3, c, c) for c in range(4, 14)]
        for pixels in (1, 2, 3, 4, 7):
            for kernel in ((3, 3, 4), (3, 3, 5), (2, 3, 16), (5, 1, 8), (3, 1, 1), (1, 4, 4)):
                step, gap = kernel[2] * int(rng.integers(1, 3)), int(rng.integers(9))
                cases.append(conv_case(rng, name, kernel, gap, step, pixels, 6, pixels))
    for name in (ANY, WIDE):
        for window in ((3, 3, 4), (2, 1, 7)):
            cases += [pixel_case(rng, name, window, channels, 1) for channels in (4, 5, 7, 8)]
    check(machine, cases)


@pytest.mark.parametrize("name", [DEPTHWISE_8, DEPTHWISE_16])
def test_depthwise(machine, name):
    """Channels that make blocks overlap, windows of one tap and more, rows of pixels."""
    rng = np.random.default_rng(5)
    cases = [depthwise_case(rng, name, (3, 3), 1, 2, c, c, c) for c in range(8, 27)]
    for number, kernel in enumerate(((1, 1), (1, 5), (5, 1), (2, 2), (3, 4))):
        cases.append(depthwise_case(rng, name, kernel, 2, 3, 24, 12, number))
    cases += [depthwise_case(rng, name, (1, 1), 1, 1, 64, 64, n, ties=True) for n in range(12)]
    check(machine, cases)


def test_ties_and_ends(machine):
    """Sums on and beside ties, and beyond what results hold."""
    rng = np.random.default_rng(6)
    cases = []
    for number in range(12):
        for name in (DENSE_16, DENSE_8):
            cases.append(dense_case(rng, name, 4, 64, number, ties=True))
        for name in (CONV_16, CONV_8):
            cases.append(conv_case(rng, name, (1, 1, 4), 0, 4, 2, 64, number, ties=True))
        for name in (ANY, WIDE):
            cases.append(pixel_case(rng, name, (1, 1, 4), 64, number, ties=True))
    for name in (DENSE_16, CONV_16, DEPTHWISE_16):
        bias = rng.choice([-1, 1], 64).astype(np.int32) * ((1 << 30) - 1)
        scale = (2.0 ** rng.uniform(-17, 9, 64)).astype(np.float32)
        for number in range(3):
            case = (
                dense_case(rng, name, 4, 64, number)
                if name == DENSE_16
                else conv_case(rng, name, (1, 1, 4), 0, 4, 2, 64, number)
                if name == CONV_16
                else depthwise_case(rng, name, (1, 1), 1, 1, 64, 64, number)
            )
            cases.append((*case[:2], {**case[2], "bias": bias, "scale": scale}))
    check(machine, cases)
