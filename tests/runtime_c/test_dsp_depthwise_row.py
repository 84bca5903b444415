"""The DSP microkernels of depthwise rows do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from dsp_windows import check_row_of_windows, extreme_layers, layer
from kernel_images import DSP_BUILDS, dsp_image, with_arguments

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel
from edgec.targets.dsp.kernels.depthwise_row import KERNELS, fits_row, row_window

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = with_arguments("""
#include "kernels/dsp/depthwise_row_s8_by_2.h"

void run_row_1(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));
void run_row_2(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));

void run_row_1(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_depthwise_row_s8_dsp(out, x, s, ARGUMENTS(ec_depthwise_row_s8_dsp)); }
void run_row_2(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_depthwise_row_2_s8_dsp(out, x, s, ARGUMENTS(ec_depthwise_row_2_s8_dsp)); }
""")


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def check_row(core, rng, sizes, row, tables, stride):
    """C against meaning; sizes as the kernel's."""
    kernel = get_microkernel(KERNELS[stride])
    x = rng.integers(-128, 128, np.prod(sizes[:3])).astype(np.int8)
    check_row_of_windows(core, kernel, f"run_row_{stride}", x, sizes, row, tables)


def shapes(stride):
    """(sizes, rows of outputs): padding at every side or at none, any number of outputs."""
    for width in (2, 3, 4, 9) if stride == 1 else (4, 5, 7, 8):
        for left in (0, 1):
            for right in (0, 1):
                out_width = (width + left + right - 3) // stride + 1
                for height, top, bottom in ((2, 1, 1), (3, 0, 0), (4, 1, stride - 1)):
                    sizes = (height, width, 2, top, left, out_width, 1, -7)
                    rows = (height + top + bottom - 3) // stride + 1
                    named = dict(zip(get_microkernel(KERNELS[stride]).sizes, sizes, strict=True))
                    if rows > 0 and fits_row(row_window(stride, **named), rows):
                        yield sizes, rows
        if (width - 3) // stride > 0:
            yield (5, width, 2, 0, 0, (width - 3) // stride + 1, 0, 0), 2 // stride + 1


@pytest.mark.parametrize("stride", KERNELS)
def test_every_shape(core, stride):
    rng = np.random.default_rng(3)
    cases = list(shapes(stride))
    assert len({sizes[5] % 3 for sizes, _ in cases}) == 3
    assert {(sizes[3], sizes[4], sizes[6]) for sizes, _ in cases} > {
        (1, 1, 1),
        (0, 0, 1),
        (0, 0, 0),
    }
    for sizes, rows in cases:
        for row in range(rows):
            check_row(core, rng, sizes, row, layer(rng, 2, rng.integers(-16, 0, 2)), stride)


@pytest.mark.parametrize("stride", KERNELS)
def test_many_channels(core, stride):
    rng = np.random.default_rng(4)
    for channels in (1, 7, 64):
        for row in range(3 // stride):
            sizes = (3, 6, channels, 1, 1, 6 // stride, 1, 127)
            check_row(core, rng, sizes, row, layer(rng, channels, -1 - np.arange(16)), stride)


@pytest.mark.parametrize("stride", KERNELS)
def test_extremes_ties_and_saturation(core, stride):
    """Sums on and beside ties of both roundings, and at the limits that the policy allows."""
    rng = np.random.default_rng(5)
    for tables in extreme_layers(rng, 48):
        check_row(core, rng, (3, 4, 48, 1, 1, 4 // stride, 1, -128), 1, tables, stride)
