"""Ours beside ONNX Runtime's static quantizer, given the same samples of the digits example."""

from __future__ import annotations

import pytest
from measure_quantization import CASES, measure, read_table


def test_digits_are_as_accurate_as_the_table_says() -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    found, entry = measure(CASES["digits"]), read_table()["digits"]
    assert found["samples"] == entry["samples"]
    assert found["ours_right"] >= found["onnxruntime_right"]
    assert found["ours_right"] >= found["float_right"] - 1
    assert found["ours_db"] > found["onnxruntime_db"] + 1.0
    assert found["ours_db"] > entry["ours_db"] - 0.5
