"""The MVE microkernels by int4 weights do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import onnx_tables, with_arguments
from mve_machine import BUILDS, build_name, check_cases, has_qemu, machine_of

from edgec.targets.helium.kernels.matrix import CONV_UNIT, DENSE_UNIT

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

SOURCE = with_arguments("""
#include "kernels/helium/matrix_s8_onnx.h"
static void run_dense(void *out, const void *x, const void *s, const int32_t *n) {
    ec_dense_s4_s8_mve(out, x, s, n[0], n[1], n[2], n[3], n[4]);
}
static void run_conv(void *out, const void *x, const void *s, const int32_t *n) {
    ec_conv_s4_s8_mve(out, x, s, ARGUMENTS(ec_conv_s4_s8_mve));
}
static void run_dense_onnx(void *out, const void *x, const void *s, const int32_t *n) {
    ec_dense_s4_onnx_s8_mve(out, x, s, n[0], n[1], n[2], n[3], n[4]);
}
static void run_conv_onnx(void *out, const void *x, const void *s, const int32_t *n) {
    ec_conv_s4_onnx_s8_mve(out, x, s, ARGUMENTS(ec_conv_s4_onnx_s8_mve));
}
""")
KERNELS = (
    "ec_dense_s4_s8_mve", "ec_conv_s4_s8_mve",
    "ec_dense_s4_onnx_s8_mve", "ec_conv_s4_onnx_s8_mve",
)  # fmt: skip
DENSE, CONV = 0, 1
#: Zero point, minimum, maximum.
LIMITS = [(-128, -128, 127), (-3, -128, 127), (7, 7, 100), (83, -128, 90)]


@pytest.fixture(scope="module", params=BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    functions = ("run_dense", "run_conv", "run_dense_onnx", "run_conv_onnx")
    return machine_of(request.param, SOURCE, functions, tmp_path_factory.mktemp("mve_int4"))


def tables(rng, which, channels, *inputs):
    """Constants of a kernel; sums of gemmlowp's wrap, and their shifts run from 0 to -15."""
    if which >= 2:
        found = onnx_tables(rng, (channels, *inputs), channels, ties=False, shift=2, largest=-2)
    else:
        found = {
            "bias": rng.integers(-(1 << 31), 1 << 31, channels).astype(np.int32),
            "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
            "shift": rng.integers(-15, 1, channels).astype(np.int8),
        }
        found["bias"][::2] >>= 10
    return {**found, "w": rng.integers(-8, 8, (channels, *inputs)).astype(np.int8)}


def dense_case(rng, which, depth, channels, limits, **changes):
    which = DENSE + 2 * which
    x = rng.integers(-128, 128, depth).astype(np.int8)
    constants = {**tables(rng, which, channels, depth), **changes}
    return which, (depth, channels, *limits), x, constants


def conv_case(rng, which, kernel, gap, step, pixels, channels, limits, **changes):
    which = CONV + 2 * which
    run = kernel[1] * kernel[2]
    pitch = (pixels - 1) * step + run + gap
    x = rng.integers(-128, 128, (kernel[0] - 1) * pitch + (pixels - 1) * step + run)
    constants = {**tables(rng, which, channels, *kernel), **changes}
    return which, (*kernel, pitch, step, pixels, channels, *limits), x.astype(np.int8), constants


def check(machine, cases):
    check_cases(machine, KERNELS, cases)


@pytest.mark.parametrize("which", [0, 1])
def test_every_length_of_a_run(machine, which):
    """Each number of lanes in the first slice, each way into the loop, and several rounds."""
    rng = np.random.default_rng(3)
    cases = [dense_case(rng, which, n, 8, LIMITS[n % 4]) for n in range(1, 150)]
    cases += [conv_case(rng, which, (1, 1, n), 0, n, 2, 4, LIMITS[n % 4]) for n in range(1, 150)]
    check(machine, cases)


@pytest.mark.parametrize("which", [0, 1])
def test_every_number_of_channels(machine, which):
    """Also those that make the last unit overlap the one before."""
    rng = np.random.default_rng(4)
    cases = [dense_case(rng, which, 21, n, LIMITS[n % 4]) for n in range(8, 34)]
    cases += [conv_case(rng, which, (1, 1, 21), 0, 21, 3, n, LIMITS[n % 4]) for n in range(4, 18)]
    check(machine, cases)


@pytest.mark.parametrize("which", [0, 1])
def test_windows(machine, which):
    """Several rows, pixels apart, odd and even numbers of pixels, one pixel alone."""
    rng = np.random.default_rng(5)
    cases = []
    for pixels in (1, 2, 3, 4, 7):
        for kernel in ((3, 3, 8), (3, 3, 5), (2, 3, 16), (5, 1, 16), (3, 1, 1), (1, 4, 4)):
            step = kernel[2] * int(rng.integers(1, 3))
            gap, limits = int(rng.integers(0, 9)), LIMITS[int(rng.integers(4))]
            cases.append(conv_case(rng, which, kernel, gap, step, pixels, 6, limits))
    check(machine, cases)


@pytest.mark.parametrize("which", [0, 1])
def test_extreme_weights_and_inputs(machine, which):
    """All combinations of the ends of both halves of a byte, by inputs at their ends."""
    rng = np.random.default_rng(6)
    cases = []
    for n, (even, odd) in enumerate((a, b) for a in (-8, -1, 0, 7) for b in (-8, -1, 0, 7)):
        for inputs in (-128, 127, None):
            limits = LIMITS[n % 4]
            case = (
                dense_case(rng, which, 75, 16, limits),
                conv_case(rng, which, (3, 1, 20), 0, 20, 3, 8, limits),
            )
            for _, _, x, constants in case:
                unit = DENSE_UNIT if case[0][3] is constants else CONV_UNIT
                channel = np.arange(len(constants["w"])) % unit
                w = np.where(channel < unit // 2, even, odd).astype(np.int8)
                constants["w"][:] = w.reshape(-1, *[1] * (constants["w"].ndim - 1))
                if inputs is None:
                    x[:] = rng.choice([-128, 127], x.size)
                else:
                    x[:] = inputs
            cases += case
    check(machine, cases)


@pytest.mark.parametrize("which", [0, 1])
def test_deep_sums(machine, which):
    """Sums so deep that 16 times a sum needs nearly all bits of a word."""
    rng = np.random.default_rng(7)
    cases = []
    for sign in (-8, 7):
        w = np.full((8, 120_000), sign, np.int8)
        case = dense_case(rng, which, 120_000, 8, LIMITS[1], w=w)
        case[2][:] = -128
        cases.append(case)
        case = conv_case(
            rng, which, (1, 1, 120_000), 0, 0, 1, 4, LIMITS[1], w=w[:4].reshape(4, 1, 1, -1)
        )
        case[2][:] = -128
        cases.append(case)
    for case in cases:
        check(machine, [case])


def test_ties(machine):
    """Sums on and beside ties of all roundings."""
    rng = np.random.default_rng(8)
    cases = []
    for shift in range(-31, 1, 3):
        near = (np.arange(40) - 20) * (1 << min(-shift, 24)) + rng.integers(-2, 3, 40)
        changes = {
            "bias": near.astype(np.int32), "shift": np.full(40, shift, np.int8),
            "multiplier": np.resize([1 << 30, (1 << 31) - 1, 1234567890], 40).astype(np.int32),
        }  # fmt: skip
        w = np.zeros((40, 1, 1, 3), np.int8)
        for limits in LIMITS:
            cases.append(dense_case(rng, 0, 3, 40, limits, **changes, w=w[:, 0, 0]))
            cases.append(conv_case(rng, 0, (1, 1, 3), 0, 3, 2, 40, limits, **changes, w=w))
    for limits in LIMITS:
        changes = onnx_tables(rng, (40, 1, 1, 3), 40, ties=True, shift=2, largest=-2)
        cases.append(conv_case(rng, 1, (1, 1, 3), 0, 3, 2, 40, limits, **changes))
        changes["w"] = changes["w"][:, 0, 0]
        cases.append(dense_case(rng, 1, 3, 40, limits, **changes))
    check(machine, cases)
