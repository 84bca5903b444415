"""Geometry of sliding windows, against TensorFlow's definitions and direct indexing."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import TypeMismatch
from edgec.ops.window import output_extent, pad_hw, patches, same_padding, taps


@pytest.mark.parametrize("extent", range(1, 12))
@pytest.mark.parametrize("kernel", range(1, 6))
@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_padding_gives_the_ceiling(extent, kernel, stride, dilation) -> None:
    before, after = same_padding(extent, kernel, stride, dilation)
    assert 0 <= after - before <= 1
    positions = output_extent(extent, kernel, stride, dilation, (before, after))
    assert positions == -(-extent // stride)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 5, 1, 1, (0, 0)), "does not fit in 4"),
        ((4, 2, 1, 4, (0, 0)), "a window of 5"),
        ((4, 0, 1, 1, (0, 0)), "must be positive"),
        ((4, 2, 0, 1, (0, 0)), "must be positive"),
        ((4, 2, 1, 1, (-1, 0)), "must be positive"),
        ((4, 2, 1, 1, (0, 2)), "as wide as the window"),
    ],
)
def test_windows_without_meaning_are_refused(arguments, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        output_extent(*arguments)


def test_taps_and_patches_read_what_the_window_covers() -> None:
    x = np.arange(2 * 5 * 6 * 3).reshape(2, 5, 6, 3)
    padded = pad_hw(x, ((1, 0), (2, 1)), -1)
    assert padded.shape == (2, 6, 9, 3) and (padded[:, 0] == -1).all()
    kernel, stride, dilation, output = (2, 3), (2, 1), (3, 2), (2, 5)
    matrix = patches(padded, kernel, stride, dilation, output).reshape(2, *output, *kernel, 3)
    seen = 0
    for ky, kx, view in taps(padded, kernel, stride, dilation, output):
        for n, y, left, c in np.ndindex(2, *output, 3):
            expected = padded[n, y * 2 + ky * 3, left + kx * 2, c]
            assert view[n, y, left, c] == expected == matrix[n, y, left, ky, kx, c]
            seen += 1
    assert seen == 2 * 2 * 5 * 3 * 6
