"""The DSP microkernels of filters over time do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import DSP_BUILDS, dsp_image, meant, run_on_core
from svdf_cases import svdf_cases

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel
from edgec.targets.dsp.kernels.svdf import LANES

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

KERNEL = """
void run_time_{0}(int8_t *out, const int{1}_t *x, const int32_t *stream,
                  const int32_t *multiplier, const int8_t *shift, WORDS(n));
void run_time_{0}(int8_t *out, const int{1}_t *x, const int32_t *stream,
                  const int32_t *multiplier, const int8_t *shift, WORDS(n))
{{ ec_svdf_time_{0}_dsp(out, x, stream, multiplier, shift, n[0], n[1], n[2]); }}
void run_shift_{0}(int{1}_t *x, WORDS(n));
void run_shift_{0}(int{1}_t *x, WORDS(n))
{{ ec_shift_down_{0}(x, x, n[0]); }}
void run_copy_{0}(int{1}_t *out, const int{1}_t *x, WORDS(n));
void run_copy_{0}(int{1}_t *out, const int{1}_t *x, WORDS(n))
{{ ec_shift_down_{0}(out, x, n[0]); }}
"""
SOURCE = """
#include "kernels/common/shift_down.h"
#include "kernels/dsp/svdf.h"
""" + "".join(KERNEL.format(f"s{bits}", bits) for bits in (8, 16))


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_filters_over_time(core, dtype):
    """Numbers of taps around one step of the loop, sums that wrap, ties, zero points."""
    suffix = f"s{np.iinfo(dtype).bits}"
    kernel = get_microkernel(f"ec_svdf_time_{suffix}_dsp")
    assert kernel.stream is not None
    for (x, bias, w, *factors), numbers in svdf_cases(dtype, LANES[dtype]):
        sizes = dict(zip(kernel.sizes, numbers, strict=True))
        arrays = [x, kernel.stream.pack({"bias": bias, "w": w}, **sizes), *factors]
        out = np.full(numbers[0], 77, np.int8)
        expected = meant(kernel, out, arrays, numbers)
        got = run_on_core(core, f"run_time_{suffix}", out, arrays, numbers)
        assert np.array_equal(got, expected), numbers


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_values_move_down(core, dtype):
    """To another place, and where they are; every length up to some words."""
    rng = np.random.default_rng(8)
    info = np.iinfo(dtype)
    suffix = f"s{info.bits}"
    kernel = get_microkernel(f"ec_shift_down_{suffix}")
    for count in [*range(1, 36), 100]:
        x = rng.integers(info.min, info.max + 1, count + 1).astype(dtype)
        out = np.zeros(count, dtype)
        expected = meant(kernel, out, [x], (count,))
        assert np.array_equal(expected, x[1:])
        assert np.array_equal(run_on_core(core, f"run_copy_{suffix}", out, [x], (count,)), x[1:])
        moved = run_on_core(core, f"run_shift_{suffix}", x, [], (count,))
        assert np.array_equal(moved, [*x[1:], x[-1]])
