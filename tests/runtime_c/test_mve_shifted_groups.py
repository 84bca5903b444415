"""The MVE microkernels with shifts of groups of weights do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import onnx_tables, with_arguments
from mve_machine import BUILDS, build_name, check_cases, has_qemu, machine_of

from edgec.targets.helium.kernels.matrix import SLICE

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

SOURCE = with_arguments("""
#include "kernels/helium/matrix_s8_onnx_groups.h"
static void run_dense(void *out, const void *x, const void *s, const int32_t *n) {
    ec_dense_groups_onnx_s8_mve(out, x, s, ARGUMENTS(ec_dense_groups_onnx_s8_mve));
}
static void run_conv(void *out, const void *x, const void *s, const int32_t *n) {
    ec_conv_groups_onnx_s8_mve(out, x, s, ARGUMENTS(ec_conv_groups_onnx_s8_mve));
}
""")
KERNELS = ("ec_dense_groups_onnx_s8_mve", "ec_conv_groups_onnx_s8_mve")
#: Zero point, minimum, maximum.
LIMITS = [(-128, -128, 127), (-3, -128, 127), (7, 7, 100), (83, -128, 90)]


@pytest.fixture(scope="module", params=BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    functions = ("run_dense", "run_conv")
    return machine_of(request.param, SOURCE, functions, tmp_path_factory.mktemp("mve_groups"))


def tables(rng, step, *shape, extreme=False):
    """Constants of a kernel for weights of this shape, whose last axis has whole steps."""
    found = onnx_tables(rng, shape, shape[0], ties=False, shift=2, largest=-2)
    parts = (*shape[:-1], shape[-1] // (step * SLICE))
    shifts = np.full(parts, 4) if extreme else rng.integers(0, 5, parts)
    digits = rng.choice([-8, 7], shape) if extreme else rng.integers(-8, 8, shape)
    w = digits << np.repeat(shifts, step * SLICE, axis=-1)
    return {**found, "w": w.astype(np.int8)}


def dense_case(rng, step, steps, channels, limits, **how):
    depth = step * steps * SLICE
    x = rng.integers(-128, 128, depth).astype(np.int8)
    return 0, (depth, channels, *limits, step), x, tables(rng, step, channels, depth, **how)


def conv_case(rng, step, steps, kernel_h, gap, apart, pixels, channels, limits, **how):
    run = step * steps * SLICE
    pitch = (pixels - 1) * apart + run + gap
    x = rng.integers(-128, 128, (kernel_h - 1) * pitch + (pixels - 1) * apart + run)
    numbers = (kernel_h, 1, run, pitch, apart, pixels, channels, *limits, step)
    constants = tables(rng, step, channels, kernel_h, run, **how)
    return 1, numbers, x.astype(np.int8), constants


def check(machine, cases):
    check_cases(machine, KERNELS, cases)


def test_steps(machine):
    """Each way into the loop, one and several rounds of it."""
    rng = np.random.default_rng(3)
    cases = []
    for step in (1, 2, 3, 4):
        for steps in (1, 2, 3, 5):
            limits = LIMITS[(step + steps) % 4]
            cases.append(dense_case(rng, step, steps, 8, limits))
            cases.append(conv_case(rng, step, steps, 1, 0, 16, 2, 4, limits))
            cases.append(conv_case(rng, step, steps, 3, 5, 32, 3, 5, limits))
    check(machine, cases)


def test_every_number_of_channels(machine):
    """Also those that make the last unit overlap the one before."""
    rng = np.random.default_rng(4)
    cases = [dense_case(rng, 2, 2, n, LIMITS[n % 4]) for n in range(8, 26)]
    cases += [conv_case(rng, 1, 2, 2, 3, 7, 3, n, LIMITS[n % 4]) for n in range(4, 14)]
    check(machine, cases)


def test_windows(machine):
    """Rows apart, odd and even numbers of pixels, one pixel alone."""
    rng = np.random.default_rng(5)
    cases = []
    for pixels in (1, 2, 3, 4, 7):
        for kernel_h, apart in ((1, 48), (2, 1), (3, 16), (5, 33)):
            gap, limits = int(rng.integers(0, 9)), LIMITS[int(rng.integers(4))]
            cases.append(conv_case(rng, 1, 3, kernel_h, gap, apart, pixels, 6, limits))
    check(machine, cases)


def test_extremes(machine):
    """The largest weights and inputs of both signs."""
    rng = np.random.default_rng(6)
    cases = []
    for limits in LIMITS:
        for value in (-128, 127):
            cases.append(dense_case(rng, 4, 9, 16, limits, extreme=True))
            cases.append(conv_case(rng, 4, 2, 3, 0, 16, 3, 8, limits, extreme=True))
            for case in cases[-2:]:
                case[2][:] = value
    check(machine, cases)
