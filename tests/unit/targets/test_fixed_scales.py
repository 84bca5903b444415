"""Scales as integers: every sum gives the same int8 as ONNX Runtime's floats."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.loop.intrinsics import requantize_onnx
from edgec.targets.dsp.fixed_scales import fixed_scales, scales_of
from edgec.targets.dsp.kernels.matrix_four import needs_int4

RNG = np.random.default_rng(6)
#: Places of M, and how many times themselves sums are: of the kernels of int8 and int4 weights.
KERNELS = [(36, 1 << 8), (31, 1 << 12)]


@pytest.mark.parametrize(("places", "times"), KERNELS)
@pytest.mark.parametrize("zero_point", [-128, 0, 21, 127])
def test_all_sums_give_the_same_results(zero_point, places, times):
    scale = (2.0 ** RNG.uniform(26 - places, 31 - places, 40)).astype(np.float32)
    factors = fixed_scales(scale, zero_point, places)
    assert np.count_nonzero(factors) > 20
    most = (1 << 31) // times
    sums = np.arange(-min(most, 1 << 19), min(most, 1 << 19))
    shift = places + times.bit_length() - 1 - 32
    for one, factor in zip(scale, factors, strict=True):
        if factor:
            # As the kernel does it: the upper word of a product, a shift.
            high = (times * sums * factor >> 32) + (zero_point << shift) + (1 << (shift - 1))
            assert np.abs(high).max() < 1 << 31
            found = np.clip(high >> shift, -128, 127)
            expected = np.rint(sums.astype(np.float32) * one).astype(np.int64) + zero_point
            assert np.array_equal(found, np.clip(expected, -128, 127))
    some = factors > 0
    assert np.array_equal(scales_of(factors[some], places), scale[some])


def test_the_largest_sums_fit():
    """The upper words of products with the largest M, and what is added, are int32."""
    assert ((1 << 31) ** 2 >> 32) + (257 << 12) < 1 << 31


def test_ties_and_other_sizes_stay_floats():
    """Half to even is no addition of a half."""
    assert requantize_onnx(32, 2.0**-6) == 0 and requantize_onnx(96, 2.0**-6) == 2
    scale = np.float32([2.0**-6, 2.0**-9, 1e-5, 2.0**-5, 1.0, 100.0])
    assert not fixed_scales(scale, 3, 36).any()


def test_large_scales_have_integers_for_int4_weights_alone() -> None:
    large, small, other = (np.array([s], np.float32) for s in (0.1826626, 0.01947189, 3.0))
    assert needs_int4(large, -128)
    assert not needs_int4(small, -128)
    assert not needs_int4(other, -128)  # floats rescale either
    assert not needs_int4(np.concatenate([large, other]), -128)
