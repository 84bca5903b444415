"""Ranges of fused activations; the random operator tests compare them with TFLite Micro."""

from __future__ import annotations

import pytest

from edgec.errors import ImportFailed
from edgec.graph.types import Quant, TensorType
from edgec.ops.activation import activation_range, round_half_away


def output(scale: float, zero_point: int, dtype: str = "int8") -> TensorType:
    return TensorType((1,), dtype, Quant((scale,), (zero_point,)))


@pytest.mark.parametrize(
    ("kind", "type_", "expected"),
    [
        ("NONE", output(0.1, 5), (-128, 127)),
        ("RELU", output(0.1, 5), (5, 127)),
        ("RELU6", output(0.1, -128), (-128, -68)),
        ("RELU6", output(0.5, -4), (-4, 8)),
        ("RELU6", output(0.001, 0), (0, 127)),
        ("RELU_N1_TO_1", output(0.5, 10), (8, 12)),
        ("RELU_N1_TO_1", output(4.0, 0), (0, 0)),
        ("RELU", output(0.1, 5, "int16"), (5, 32767)),
    ],
)
def test_ranges(kind, type_, expected) -> None:
    assert activation_range(kind, type_) == expected


def test_ratios_are_taken_in_float32() -> None:
    # 6 / 0.16 is 37.5 in float32 (rounds to 38), a little less in double.
    scale = 0.16000000000000003
    assert activation_range("RELU6", output(scale, 0)) == (0, 38)


def test_words_for_what_is_not_supported() -> None:
    with pytest.raises(ImportFailed, match="TANH is not supported"):
        activation_range("TANH", output(0.1, 0))
    with pytest.raises(ImportFailed, match="not quantized per tensor"):
        activation_range("RELU", TensorType((1,), "int8"))
    with pytest.raises(ImportFailed, match="too small"):
        activation_range("RELU6", output(1e-12, 0))


def test_round_half_away() -> None:
    assert [round_half_away(v) for v in (-2.5, -0.5, 0.4, 0.5, 1.5, 2.5)] == [-3, -1, 0, 1, 2, 3]
