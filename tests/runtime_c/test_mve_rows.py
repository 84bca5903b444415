"""The MVE microkernels that move rows do what they are registered to mean, on a Cortex-M55."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import meant, with_arguments
from mve_machine import BUILDS, Call, build_name, has_qemu, machine_of

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel, meaning_of

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

SOURCE = with_arguments("""
#include "kernels/helium/rows_s8.h"
static void run_pad_rows(void *out, const void *x, const void *s, const int32_t *n) {
    (void)s;
    ec_pad_rows_s8_mve(out, x, ARGUMENTS(ec_pad_rows_s8_mve));
}
static void run_columns(void *out, const void *x, const void *s, const int32_t *n) {
    (void)s;
    ec_columns_s8_mve(out, x, ARGUMENTS(ec_columns_s8_mve));
}
static void run_rgb(void *out, const void *x, const void *s, const int32_t *n) {
    (void)s;
    ec_columns_rgb_s8_mve(out, x, ARGUMENTS(ec_columns_rgb_s8_mve));
}
""")
FUNCTIONS = ("run_pad_rows", "run_columns", "run_rgb")
NAMES = ("ec_pad_rows_s8_mve", "ec_columns_s8_mve", "ec_columns_rgb_s8_mve")


@pytest.fixture(scope="module", params=BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mve_rows")
    return machine_of(request.param, SOURCE, FUNCTIONS, folder)


def check(machine, function, cases):
    """Run the kernel with each row of numbers and compare with its meaning."""
    kernel = get_microkernel(NAMES[function])
    rng = np.random.default_rng(function)
    calls, wanted = [], []
    for numbers in cases:
        func = meaning_of(kernel, tuple(numbers))
        to, x = (p.elements for p in func.params)
        out = rng.integers(-128, 128, to).astype(np.int8)
        inputs = rng.integers(-128, 128, x).astype(np.int8)
        calls.append(Call(function, out, inputs, np.zeros(0, np.int32), numbers))
        wanted.append(meant(kernel, out, [inputs], numbers))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers


def test_rows_with_padding(machine):
    """Rows outside, padding on no, one or both sides, images that are cut, long and short rows."""
    cases = []
    for height, width, channels in ((3, 4, 1), (2, 5, 3), (4, 6, 8), (1, 9, 16), (2, 1, 40)):
        for top, left in ((0, 0), (1, 1), (0, 2), (2, 0)):
            for more in (-1, 0, 2):
                out_width = max(left + 1, left + width + more)
                for row in range(height + top):
                    cases.append((height, width, channels, top, left, 2, out_width, 2, -7, row))
    check(machine, 0, cases)


def test_rows_that_the_call_before_made(machine):
    """One and more of them, at the first row and at later ones, of few and many bytes."""
    cases = []
    for width, channels in ((3, 1), (5, 3), (6, 16), (30, 8)):
        for rows, by in ((2, 1), (3, 1), (7, 5), (4, 3), (3, 3)):
            for row in (0, by, 2 * by):
                cases.append((9, width, channels, 1, 1, rows, width + 2, by, -7, row))
    check(machine, 0, cases)


def test_windows_side_by_side(machine):
    """Each number of inputs up to the most, strides, dilation."""
    cases = [(1, depth, 1, 2, 1, depth + 6, 4) for depth in range(1, 65)]
    cases += [(64 // run, run, 1, 1, 2, run + 3, 3) for run in range(1, 20)]
    cases += [(3, 3, c, s, 1, 9, 9 // s - 2) for c in range(1, 8) for s in (1, 2)]
    check(machine, 1, cases)


def test_windows_of_three_channels(machine):
    """Steps of one pixel and of two, one window and more, in rows that are as long or longer."""
    cases = [(s, 3 + s * (pixels - 1) + more, pixels)
             for s in (1, 2) for pixels in (1, 2, 5, 17) for more in (0, 1)]  # fmt: skip
    check(machine, 2, cases)
