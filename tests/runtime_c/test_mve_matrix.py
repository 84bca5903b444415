"""The MVE microkernels of matrix products do what they are registered to mean, on a Cortex-M55."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import meant, with_arguments
from mve_machine import BUILDS, Call, build_name, has_qemu, machine_of

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

SOURCE = with_arguments("""
#include "kernels/helium/matrix_s8_to_s16.h"
#include "kernels/helium/quads_s8.h"
static void run_dense(void *out, const void *x, const void *s, const int32_t *n) {
    ec_dense_s8_mve(out, x, s, n[0], n[1], n[2], n[3], n[4]);
}
static void run_conv(void *out, const void *x, const void *s, const int32_t *n) {
    ec_conv_s8_mve(out, x, s, ARGUMENTS(ec_conv_s8_mve));
}
static void run_to_s16(void *out, const void *x, const void *s, const int32_t *n) {
    ec_dense_s8_s16_mve(out, x, s, n[0], n[1], n[2]);
}
static void run_quads(void *out, const void *x, const void *s, const int32_t *n) {
    ec_conv_quads_s8_mve(out, x, s, ARGUMENTS(ec_conv_quads_s8_mve));
}
""")
FUNCTIONS = ("run_dense", "run_conv", "run_to_s16", "run_quads")
LIMITS = [(-128, -128, 127), (-3, -128, 127), (7, 7, 100), (83, -128, 90)]


@pytest.fixture(scope="module", params=BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mve_matrix")
    return machine_of(request.param, SOURCE, FUNCTIONS, folder)


def tables(rng, channels, *inputs):
    """Constants of any size: sums wrap, shifts run from 0 to -31."""
    return {
        "bias": rng.integers(-(1 << 20), 1 << 20, channels).astype(np.int32),
        "w": rng.integers(-128, 128, (channels, *inputs)).astype(np.int8),
        "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": rng.integers(-15, 1, channels).astype(np.int8),
    }


def expected(name, sizes, out, x, stream):
    """What the registered meaning gives."""
    return meant(get_microkernel(name), out, [x, stream], sizes.values()).reshape(out.shape)


def check(machine, cases):
    """Run all cases of (function, kernel, sizes, x, constants) at once and compare each."""
    calls, wanted = [], []
    for function, name, sizes, x, constants in cases:
        kernel = get_microkernel(name)
        stream = kernel.stream.pack(constants, **sizes)
        assert stream.size == kernel.stream.words(**sizes)
        found = kernel.stream.unpack(stream, **sizes)
        for key, array in constants.items():
            assert np.array_equal(np.asarray(found[key]).reshape(-1), array.reshape(-1)), key
        dtype = np.int16 if name == "ec_dense_s8_s16_mve" else np.int8
        out = np.full((sizes.get("pixels", 1), sizes["channels"]), 77, dtype)
        calls.append(Call(function, out, x, stream, list(sizes.values())))
        wanted.append(expected(name, sizes, out, x, stream))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers


def dense_case(rng, depth, channels, limits, constants=None):
    sizes = dict(
        zip(get_microkernel("ec_dense_s8_mve").sizes, (depth, channels, *limits), strict=True)
    )
    x = rng.integers(-128, 128, depth).astype(np.int8)
    return 0, "ec_dense_s8_mve", sizes, x, constants or tables(rng, channels, depth)


def conv_case(rng, kernel, gap, step, pixels, channels, limits, constants=None):
    kernel_h, kernel_w, in_channels = kernel
    run = kernel_w * in_channels
    pitch = (pixels - 1) * step + run + gap
    numbers = (*kernel, pitch, step, pixels, channels, *limits)
    sizes = dict(zip(get_microkernel("ec_conv_s8_mve").sizes, numbers, strict=True))
    x = rng.integers(-128, 128, (kernel_h - 1) * pitch + (pixels - 1) * step + run)
    constants = constants or tables(rng, channels, *kernel)
    return 1, "ec_conv_s8_mve", sizes, x.astype(np.int8), constants


def test_every_length_of_a_run(machine):
    """Each number of lanes in the first slice, each way into the loop, and several rounds."""
    rng = np.random.default_rng(3)
    cases = [dense_case(rng, depth, 8, LIMITS[depth % 4]) for depth in range(1, 180)]
    cases += [
        conv_case(rng, (1, 1, depth), 0, depth, 2, 4, LIMITS[depth % 4]) for depth in range(1, 180)
    ]
    check(machine, cases)


def test_every_number_of_channels(machine):
    """Also those that make the last unit overlap the one before."""
    rng = np.random.default_rng(4)
    cases = [dense_case(rng, 21, channels, LIMITS[channels % 4]) for channels in range(8, 34)]
    cases += [
        conv_case(rng, (1, 1, 21), 0, 21, 3, channels, LIMITS[channels % 4])
        for channels in range(4, 18)
    ]
    check(machine, cases)


def test_windows(machine):
    """Several rows, pixels apart, odd and even numbers of pixels, one pixel alone."""
    rng = np.random.default_rng(5)
    cases = []
    for pixels in (1, 2, 3, 4, 7):
        for kernel in ((3, 3, 8), (3, 3, 5), (2, 3, 16), (5, 1, 16), (3, 1, 1), (1, 4, 4)):
            step = kernel[2] * int(rng.integers(1, 3))
            limits = LIMITS[int(rng.integers(4))]
            cases.append(conv_case(rng, kernel, int(rng.integers(0, 9)), step, pixels, 6, limits))
    check(machine, cases)


def test_ties_and_saturation(machine):
    """Sums on and beside ties of both roundings, sums that wrap, and limits of every kind."""
    rng = np.random.default_rng(6)
    cases = []
    for shift in range(-31, 1):
        constants = tables(rng, 40, 3)
        half = np.arange(40) - 20
        near = half * (1 << min(-shift, 24)) + rng.integers(-2, 3, 40)
        constants["bias"] = near.astype(np.int32)
        constants["w"][:] = 0
        constants["multiplier"][::3] = 1 << 30
        constants["multiplier"][1::3] = (1 << 31) - 1
        constants["shift"][:] = shift
        for limits in LIMITS:
            cases.append(dense_case(rng, 3, 40, limits, constants))
            cases.append(conv_case(rng, (1, 1, 3), 0, 3, 2, 40, limits, constants))
    constants = tables(rng, 16, 64)
    constants["bias"][::2] = (1 << 31) - 5
    constants["bias"][1::2] = -(1 << 31) + 3
    cases.append(dense_case(rng, 64, 16, LIMITS[0], constants))
    cases.append(conv_case(rng, (1, 1, 64), 0, 64, 2, 16, LIMITS[1], constants))
    check(machine, cases)


def quads_case(rng, kernel_h, gap, pixels, channels, zero_point, **changes):
    """Windows of three pixels of 16 channels; shifts are below 0."""
    pitch = 16 * (pixels + 2) + gap
    sizes = {"kernel_h": kernel_h, "pitch": pitch, "pixels": pixels, "channels": channels}
    x = rng.integers(-128, 128, kernel_h * pitch - gap).astype(np.int8)
    constants = tables(rng, channels, kernel_h, 3, 16)
    constants["shift"] = np.minimum(constants["shift"], -1)
    constants.update(changes)
    return 3, "ec_conv_quads_s8_mve", sizes | {"zero_point": zero_point}, x, constants


def test_four_pixels_that_share_inputs(machine):
    """Several rows, pixels and channels; sums on and beside ties, of both signs."""
    rng = np.random.default_rng(9)
    cases = [
        quads_case(rng, rows, int(rng.integers(9)), pixels, channels, zero_point)
        for rows in (1, 2, 3)
        for pixels, channels in ((4, 2), (8, 6), (12, 16), (32, 4))
        for zero_point in (-128, 5)
    ]
    for shift in range(-31, 0):
        near = (np.arange(40) - 20) * (1 << min(-shift, 24)) + rng.integers(-2, 3, 40)
        changes = {
            "bias": near.astype(np.int32),
            "w": np.zeros((40, 1, 3, 16), np.int8),
            "multiplier": np.resize([1 << 30, (1 << 31) - 1, 1234567890], 40).astype(np.int32),
            "shift": np.full(40, shift, np.int8),
        }
        cases.append(quads_case(rng, 1, 0, 4, 40, -3, **changes))
    check(machine, cases)


def wide_case(rng, depth, channels, added, **changes):
    """Four factors for all channels, of shifts in both directions."""
    sizes = {"depth": depth, "channels": channels, "added": added}
    constants = tables(rng, channels, depth)
    constants["multiplier"] = constants["multiplier"][:4]
    constants["shift"] = rng.integers(-12, 5, 4).astype(np.int8)
    constants.update(changes)
    x = rng.integers(-128, 128, depth).astype(np.int8)
    return 2, "ec_dense_s8_s16_mve", sizes, x, constants


def test_results_of_sixteen_bits(machine):
    rng = np.random.default_rng(8)
    cases = [wide_case(rng, depth, 8, depth % 2) for depth in range(1, 100)]
    cases += [wide_case(rng, 21, channels, channels // 8 % 2) for channels in range(8, 50, 8)]
    for shift in range(-22, 8):
        near = (np.arange(40) // 2 - 10) * (1 << max(-shift, 0)) + rng.integers(-2, 3, 40)
        changes = {
            "bias": near.astype(np.int32),
            "w": np.zeros((40, 3), np.int8),
            "multiplier": np.array([1 << 30, (1 << 31) - 1, 1 << 30, 1234567890], np.int32),
            "shift": np.full(4, shift, np.int8),
        }
        cases += [wide_case(rng, 3, 40, added, **changes) for added in (0, 1)]
    check(machine, cases)
