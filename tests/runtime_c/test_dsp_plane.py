"""The DSP microkernel of 3x3 windows over one channel does what it is registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from dsp_windows import check_row_of_windows, extreme_layers, layer
from kernel_images import DSP_BUILDS, dsp_image, with_arguments

import edgec.targets.kernels  # noqa: F401  registers it
from edgec.loop.microkernel import get_microkernel
from edgec.targets.dsp.kernels.plane_windows import NAME

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

SOURCE = with_arguments("""
#include "kernels/dsp/plane_windows_s8.h"

void run_plane(int8_t *out, const int8_t *x, WORDS(s), WORDS(n));

void run_plane(int8_t *out, const int8_t *x, WORDS(s), WORDS(n))
{ ec_plane_row_s8_dsp(out, x, s, ARGUMENTS(ec_plane_row_s8_dsp)); }
""")


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def check_row(core, rng, sizes, row, tables):
    """C against meaning; sizes as the kernel's."""
    x = rng.integers(-128, 128, sizes[0] * sizes[1]).astype(np.int8)
    check_row_of_windows(core, get_microkernel(NAME), "run_plane", x, sizes, row, tables)


def extent(size, before, behind, stride):
    return (size + before + behind - 3) // stride + 1


@pytest.mark.parametrize("stride_w", [1, 2, 3])
def test_every_edge(core, stride_w):
    """Nothing outside of x is read, with more or less padding at every side or with none."""
    rng = np.random.default_rng(3)
    cases = 0
    for width in (1, 3, 4, 5, 9):
        for left, right in ((0, 0), (1, 0), (0, 1), (2, 2)):
            if width + left + right < 3:
                continue
            out_width = extent(width, left, right, stride_w)
            for height, top, bottom, stride_h in ((3, 0, 0, 1), (2, 1, 1, 1), (5, 1, 2, 2)):
                padded = int(max(left, right, top, bottom) > 0)
                sizes = (height, width, 2, stride_h, stride_w, top, left, out_width, padded, -7)
                for row in range(extent(height, top, bottom, stride_h)):
                    check_row(core, rng, sizes, row, layer(rng, 2, rng.integers(-16, 0, 2)))
                    cases += 1
    assert cases > 80


@pytest.mark.parametrize("channels", [2, 8, 34])
def test_channels(core, channels):
    rng = np.random.default_rng(4)
    for row in range(2):
        sizes = (5, 10, channels, 2, 2, 0, 0, 5, 1, 127)
        check_row(core, rng, sizes, row, layer(rng, channels, -1 - np.arange(16)))


def test_extremes_ties_and_saturation(core):
    """Sums on and beside ties of both roundings, and at the limits that the policy allows."""
    rng = np.random.default_rng(5)
    for tables in extreme_layers(rng, 48):
        check_row(core, rng, (3, 6, 48, 1, 1, 1, 1, 6, 1, -128), 1, tables)
