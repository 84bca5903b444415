"""dft: NumPy's transforms of any length, C on any numbers, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.dft import Dft, DftAttrs, factors

CASES = ("test_dft_inverse", "test_dft_irfft", "test_dft_rfft", "test_stft_with_window")


def transformed(attrs: DftAttrs, x: np.ndarray) -> np.ndarray:
    types = [TensorType(x.shape, x.dtype.name)]
    (found,) = Dft().evaluate(attrs, [x], types, Dft().infer(attrs, *types))
    return found


def pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], axis=-1).astype(np.float64)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 9])
@pytest.mark.parametrize("extent", [1, 4, 5, 8])
def test_equals_numpy(extent: int, length: int) -> None:
    rng = np.random.default_rng(extent)
    x = rng.normal(0, 1, (2, extent, 3)) + 1j * rng.normal(0, 1, (2, extent, 3))
    near = {"rtol": 1e-12, "atol": 1e-12}
    for inverse, function in ((False, np.fft.fft), (True, np.fft.ifft)):
        found = transformed(DftAttrs(1, length, length, inverse), pairs(x))
        np.testing.assert_allclose(found, pairs(function(x, length, axis=1)), **near)
    found = transformed(DftAttrs(1, length, length // 2 + 1), x.real[..., None].copy())
    np.testing.assert_allclose(found, pairs(np.fft.rfft(x.real, length, axis=1)), **near)


@pytest.mark.parametrize("length", [2, 3, 6, 7])
def test_half_of_the_numbers_are_continued(length: int) -> None:
    x = np.random.default_rng(1).normal(0, 1, (2, length))
    half = pairs(np.fft.rfft(x))
    found = transformed(DftAttrs(1, length, length, inverse=True, parts=1), half)
    np.testing.assert_allclose(found[..., 0], x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [10, 12, 30, 49, 96, 128])
def test_passes_of_composite_lengths(length: int) -> None:
    """Real and complex numbers, more and fewer than the length; all results, and half of them."""
    assert np.prod(factors(length)) == length
    rng = np.random.default_rng(length)
    near = {"rtol": 1e-11, "atol": 1e-11}
    for extent in (length, length - 3, length + 2):
        x = rng.normal(0, 1, (2, extent, 2, 2))
        z = x[..., 0] + 1j * x[..., 1]
        for inverse, function in ((False, np.fft.fft), (True, np.fft.ifft)):
            found = transformed(DftAttrs(1, length, length, inverse), x)
            np.testing.assert_allclose(found, pairs(function(z, length, axis=1)), **near)
        found = transformed(DftAttrs(1, length, length // 2 + 1), x[..., :1].copy())
        np.testing.assert_allclose(found, pairs(np.fft.rfft(x[..., 0], length, axis=1)), **near)
    half = pairs(np.fft.rfft(rng.normal(0, 1, (2, length))))
    found = transformed(DftAttrs(1, length, length, inverse=True, parts=1), half)
    wanted = np.fft.irfft(half[..., 0] + 1j * half[..., 1], length)
    np.testing.assert_allclose(found[..., 0], wanted, **near)


def test_passes_take_few_products() -> None:
    x = TensorType((10, 512, 1), "float32")
    assert Dft().macs(DftAttrs(1, 512, 257), [x]) < 10 * 512 * 257 * 2 // 5


@pytest.mark.parametrize("name", CASES)
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


ATTRS, X = DftAttrs(0, 4, 4), TensorType((4, 2), "float32")


@pytest.mark.parametrize(
    ("attrs", "x", "message"),
    [
        (ATTRS, TensorType((4, 2), "int32"), "needs floats"),
        (ATTRS, TensorType((4, 3), "float32"), "pairs of parts"),
        (replace(ATTRS, axis=1), X, "along axis 1"),
        (replace(ATTRS, count=5), X, "4 numbers, 5 of them"),
        (replace(ATTRS, length=1 << 16), X, "65536 numbers"),
    ],
)
def test_refusals(attrs: DftAttrs, x: TensorType, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Dft().infer(attrs, x)
