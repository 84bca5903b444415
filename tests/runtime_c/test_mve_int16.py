"""The MVE microkernels of int16 inputs do what they are registered to mean, on a Cortex-M55."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import meant, with_arguments
from mve_machine import BUILDS, Call, build_name, has_qemu, machine_of

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel, meaning_of

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

SOURCE = with_arguments("""
#include "kernels/helium/depthwise_s16.h"
#include "kernels/helium/matrix_s16.h"
#include "kernels/helium/rows_s16.h"
/* Sizes of a product to int16, which have no zero point. */
#define TO_S16 (&(const ec_matrix_s16_sizes){ n[0], n[1], n[2], n[3], 0, n[4], n[5] })
static void run_dense(void *out, const void *x, const void *s, const int32_t *n) {
    ec_dense_s16_mve(out, x, s, n[0], n[1], n[2], n[3]);
}
static void run_conv(void *out, const void *x, const void *s, const int32_t *n) {
    ec_conv_s16_mve(out, x, s, ARGUMENTS(ec_conv_s16_mve));
}
static void run_any(void *out, const void *x, const void *s, const int32_t *n) {
    ec_matrix_1_s16_any_mve(out, x, s, TO_S16);
}
static void run_s64(void *out, const void *x, const void *s, const int32_t *n) {
    ec_matrix_1_s16_s64_mve(out, x, s, TO_S16);
}
static void run_depthwise(void *out, const void *x, const void *s, const int32_t *n) {
    ec_depthwise_s16_mve(out, x, s, ARGUMENTS(ec_depthwise_s16_mve));
}
static void run_pad_rows(void *out, const void *x, const void *s, const int32_t *n) {
    (void)s;
    ec_pad_rows_s16_mve(out, x, ARGUMENTS(ec_pad_rows_s16_mve));
}
static void run_columns(void *out, const void *x, const void *s, const int32_t *n) {
    (void)s;
    ec_columns_s16_mve(out, x, ARGUMENTS(ec_columns_s16_mve));
}
""")
FUNCTIONS = {
    "ec_dense_s16_mve": "run_dense",
    "ec_conv_s16_mve": "run_conv",
    "ec_matrix_1_s16_any_mve": "run_any",
    "ec_matrix_1_s16_s64_mve": "run_s64",
    "ec_depthwise_s16_mve": "run_depthwise",
    "ec_pad_rows_s16_mve": "run_pad_rows",
    "ec_columns_s16_mve": "run_columns",
}
DENSE, CONV, ANY, WIDE, DEPTHWISE, PAD, COLUMNS = FUNCTIONS
HIGH = (DENSE, CONV, DEPTHWISE)
LIMITS = [(-32768, 32767), (0, 32767), (-3000, 77)]
WHOLE = (-32768, 32767)


@pytest.fixture(scope="module", params=BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mve_int16")
    return machine_of(request.param, SOURCE, tuple(FUNCTIONS.values()), folder)


def tables(rng, name, channels, *inputs):
    """Constants with which no accumulator of 32 bits overflows."""
    is_high = name in HIGH
    multiplier = rng.integers(1 << 14, 1 << 15, channels)
    wide = name == WIDE
    most = 1 << (40 if wide else 20)
    return {
        "bias": rng.integers(-most, most, channels).astype(np.int64 if wide else np.int32),
        "w": rng.integers(-128, 128, (channels, *inputs)).astype(np.int8),
        "multiplier": (multiplier << 15 if is_high else multiplier).astype(np.int32),
        "shift": rng.integers(*shifts(name), channels).astype(np.int8),
    }


def shifts(name):
    return (1, 25) if name in HIGH else (8, 47)


def check(machine, cases):
    """Run all cases of (kernel, sizes, x, constants) at once and compare each."""
    calls, wanted = [], []
    rng = np.random.default_rng(8)
    for name, numbers, x, constants in cases:
        kernel = get_microkernel(name)
        sizes = dict(zip((*kernel.sizes, *kernel.indices), numbers, strict=True))
        stream = np.zeros(0, np.int32)
        if constants is not None:
            stream = kernel.stream.pack(constants, **sizes)
            assert stream.size == kernel.stream.words(**sizes)
            found = kernel.stream.unpack(stream, **sizes)
            for key, array in constants.items():
                assert np.array_equal(np.asarray(found[key]).reshape(-1), array.reshape(-1)), key
        to = meaning_of(kernel, tuple(numbers)).params[0]
        out = inputs(rng, to.elements).reshape(to.shape)
        given = [x] if constants is None else [x, stream]
        calls.append(Call(list(FUNCTIONS).index(name), out, x, stream, numbers))
        wanted.append(meant(kernel, out, given, numbers).reshape(out.shape))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), (call.function, call.numbers)


def inputs(rng, count):
    return rng.integers(-32768, 32768, count).astype(np.int16)


def dense_case(rng, depth, channels, limits=WHOLE, constants=None, x=None):
    constants = constants or tables(rng, DENSE, channels, depth)
    x = inputs(rng, depth) if x is None else x
    return DENSE, (depth, channels, *limits), x, constants


def conv_case(rng, kernel, gap, step, pixels, channels, limits=WHOLE, constants=None, x=None):
    run = kernel[1] * kernel[2]
    pitch = (pixels - 1) * step + run + gap
    numbers = (*kernel, pitch, step, pixels, channels, *limits)
    count = (kernel[0] - 1) * pitch + (pixels - 1) * step + run
    constants = constants or tables(rng, CONV, channels, *kernel)
    return CONV, numbers, inputs(rng, count) if x is None else x, constants


def pixel_case(rng, name, window, channels, limits=WHOLE, constants=None, x=None):
    constants = constants or tables(rng, name, channels, *window)
    x = inputs(rng, int(np.prod(window))) if x is None else x
    return name, (*window, channels, *limits), x, constants


def depthwise_case(rng, kernel, rows, pixels, step, channels, limits=WHOLE):
    """Rows and taps with gaps between them."""
    tap = channels + int(rng.integers(4))
    pitch = kernel[1] * tap + int(rng.integers(9))
    row_step = pixels * step + int(rng.integers(9))
    numbers = (*kernel, pitch, tap, row_step, rows, step, pixels, channels, *limits)
    count = (rows - 1) * row_step + (pixels - 1) * step + channels
    count += (kernel[0] - 1) * pitch + (kernel[1] - 1) * tap
    constants = tables(rng, DEPTHWISE, channels)
    constants["w"] = rng.integers(-128, 128, (*kernel, channels)).astype(np.int8)
    return DEPTHWISE, numbers, inputs(rng, count), constants


def test_depthwise(machine):
    """Channels that make blocks overlap, windows of one tap and more, rows of pixels."""
    rng = np.random.default_rng(8)
    cases = [depthwise_case(rng, (3, 3), 1, 2, c, c, LIMITS[c % 3]) for c in range(8, 27)]
    for kernel in ((1, 1), (1, 5), (5, 1), (2, 2), (3, 4)):
        cases.append(depthwise_case(rng, kernel, 2, 3, 24, 12, LIMITS[kernel[0] % 3]))
    for shift in range(1, 25):
        case = depthwise_case(rng, (1, 1), 1, 1, 16, 16)
        half = (np.arange(16) - 8) * (1 << min(shift + 2, 27)) + rng.integers(-2, 3, 16)
        case[3]["bias"][:] = half
        case[3]["w"][:] = 0
        case[3]["multiplier"][::2] = 1 << 29
        case[3]["shift"][:] = shift
        cases.append(case)
    check(machine, cases)


def test_every_length_of_a_run(machine):
    """Each number of lanes in the first slice, each way into the loop, and several rounds."""
    rng = np.random.default_rng(3)
    cases = [dense_case(rng, depth, 8, LIMITS[depth % 3]) for depth in range(1, 90)]
    cases += [conv_case(rng, (1, 1, d), 0, d, 2, 4, LIMITS[d % 3]) for d in range(1, 90)]
    for name in (ANY, WIDE):
        cases += [pixel_case(rng, name, (1, 1, d), 4, LIMITS[d % 3]) for d in range(1, 30)]
    check(machine, cases)


def test_channels_and_windows(machine):
    """Units that overlap the one before; rows of windows, pixels apart, one pixel alone."""
    rng = np.random.default_rng(4)
    cases = [dense_case(rng, 21, channels) for channels in range(8, 26)]
    cases += [conv_case(rng, (1, 1, 21), 0, 21, 3, channels) for channels in range(4, 14)]
    for pixels in (1, 2, 3, 4, 7):
        for kernel in ((3, 3, 4), (3, 3, 5), (2, 3, 8), (5, 1, 8), (3, 1, 1), (1, 4, 4)):
            step = kernel[2] * int(rng.integers(1, 3))
            limits = LIMITS[int(rng.integers(3))]
            cases.append(conv_case(rng, kernel, int(rng.integers(0, 9)), step, pixels, 6, limits))
    for name in (ANY, WIDE):
        for window in ((3, 3, 4), (2, 1, 7)):
            cases += [pixel_case(rng, name, window, channels) for channels in (4, 5, 7, 8)]
    check(machine, cases)


def test_ties_extremes_and_limits(machine):
    """Sums on and beside ties of every shift, the largest inputs and weights."""
    rng = np.random.default_rng(5)
    cases = []
    for name in (DENSE, CONV, ANY, WIDE):
        for shift in range(*shifts(name)):
            constants = tables(rng, name, 20, 1, 1, 4)
            constants["shift"][:] = shift
            constants["multiplier"][:10] = 1 << (29 if name in (DENSE, CONV) else 14)
            exact = max(shift - 14 + (17 if name in (DENSE, CONV) else 0), 1)
            half = (np.arange(20) - 10).astype(np.int64) << exact - 1
            near = np.clip(half, -(1 << 30), 1 << 30) + rng.integers(-2, 3, 20)
            constants["bias"] = near.astype(constants["bias"].dtype)
            large = {**constants, "bias": constants["bias"] // (1 << 20)}
            large["w"] = rng.choice(np.array([-128, 127], np.int8), constants["w"].shape)
            edges = rng.choice(np.array(WHOLE, np.int16), 4)
            for tabs, x in ((constants, np.zeros(4, np.int16)), (large, edges)):
                if name == DENSE:
                    flat = {**tabs, "w": tabs["w"].reshape(20, 4)}
                    cases.append(dense_case(rng, 4, 20, LIMITS[shift % 3], flat, x))
                elif name == CONV:
                    two = np.tile(x, 2)
                    cases.append(
                        conv_case(rng, (1, 1, 4), 0, 4, 2, 20, LIMITS[shift % 3], tabs, two)
                    )
                else:
                    cases.append(pixel_case(rng, name, (1, 1, 4), 20, LIMITS[shift % 3], tabs, x))
    check(machine, cases)


def test_sums_beyond_32_bits(machine):
    """What only 64 bits hold, and a bias near their ends."""
    constants = tables(np.random.default_rng(6), WIDE, 4, 1, 1, 700)
    constants["w"][:] = -128
    constants["bias"][:] = [0, 1 << 40, (1 << 62), -(1 << 62)]
    constants["shift"][:] = [46, 40, 46, 8]
    x = np.full(700, -32768, np.int16)
    check(machine, [pixel_case(None, WIDE, (1, 1, 700), 4, WHOLE, constants, x)])


def test_rows(machine):
    """Rows with padding on all sides, and windows of each number of inputs side by side."""
    rng = np.random.default_rng(7)
    padded = []
    for height, width, channels in ((3, 4, 1), (2, 5, 3), (4, 6, 8), (2, 1, 20)):
        for top, left in ((0, 0), (1, 1), (0, 2), (2, 0)):
            for out_width in (max(left + 1, left + width - 1), left + width + 2):
                padded += [
                    (height, width, channels, top, left, 2, out_width, by, row)
                    for row in range(height + top)
                    for by in (1, 2)
                ]
    windows = [(1, depth, 1, 2, 1, depth + 6, 4) for depth in range(1, 65)]
    windows += [(64 // run, run, 1, 1, 2, run + 3, 3) for run in range(1, 20)]
    windows += [(3, 3, c, s, 1, 9, 9 // s - 2) for c in range(1, 8) for s in (1, 2)]
    cases = []
    for name, numbers in ((PAD, padded), (COLUMNS, windows)):
        for sizes in numbers:
            x = meaning_of(get_microkernel(name), sizes).params[1]
            cases.append((name, sizes, inputs(rng, x.elements), None))
    check(machine, cases)
