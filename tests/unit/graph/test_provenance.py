"""Origins: source tensor to value and back, through transposes and removed channels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.graph.provenance import Origin

SHAPE = (2, 3, 4)


def source(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_transposes_compose(first: list[int], second: list[int]) -> None:
    origin = Origin("t", SHAPE).transposed(tuple(first)).transposed(tuple(second))
    value = source().transpose(first).transpose(second)
    np.testing.assert_array_equal(origin.from_source(source(), value.shape), value)
    np.testing.assert_array_equal(origin.to_source(value), source())


def test_transposing_back_is_no_transposition() -> None:
    origin = Origin("t", (1, 2, 3, 4))
    assert origin.transposed((0, 2, 3, 1)).transposed((0, 3, 1, 2)) == origin


def test_another_rank_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 3"):
        Origin("t", SHAPE, permutation=(0, 1, 2)).transposed((1, 0))


def test_removed_channels_come_back_with_their_constants() -> None:
    # A channels-first source of 4 channels; the value is channels-last and lost channels 1 and 3.
    origin = Origin(
        "t", (1, 4, 2, 2), permutation=(0, 2, 3, 1), kept_channels=(0, 2), removed=((1, 7), (3, -5))
    )
    tensor = source((1, 4, 2, 2))
    tensor[:, 1], tensor[:, 3] = 7, -5
    value = origin.from_source(tensor, (1, 2, 2, 2))
    np.testing.assert_array_equal(value[..., 0], tensor[:, 0])
    np.testing.assert_array_equal(value[..., 1], tensor[:, 2])
    np.testing.assert_array_equal(origin.to_source(value), tensor)
    assert origin.unknown_channels == ()


def test_channels_that_nobody_reads_are_unknown() -> None:
    origin = Origin("t", (1, 4), kept_channels=(0, 3), removed=((1, 9),))
    assert origin.unknown_channels == (2,)
    restored = origin.to_source(np.array([[5, 6]], np.int8))
    np.testing.assert_array_equal(restored, [[5, 9, 0, 6]])


def test_without_removal_nothing_is_unknown() -> None:
    assert Origin("t", SHAPE).unknown_channels == ()


def test_a_view_of_the_value_has_its_elements() -> None:
    origin = Origin("t", SHAPE)
    np.testing.assert_array_equal(origin.from_source(source(), (24,)), source().reshape(24))
    np.testing.assert_array_equal(origin.to_source(source().reshape(6, 4)), source())
