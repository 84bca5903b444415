"""Comparisons with a framework: integers in every bit, floats within a tolerance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import float_network
from onnx_builder import OnnxBuilder

from edgec.frontends import import_model
from edgec.verify import Comparison, scales, tolerances


def compared(expected: np.ndarray, found: np.ndarray, tolerance: float) -> Comparison:
    row = Comparison("t", "dense", expected.shape, tolerance)
    row.add(0, expected, found)
    return row


def test_floats_may_differ_by_a_part_of_the_largest_magnitude() -> None:
    expected = np.array([100.0, 1e-3, np.nan, np.inf], np.float32)
    found = np.array([100.0, 2e-3, np.nan, np.inf], np.float32)
    near = compared(expected, found, 2e-5)
    assert (near.mismatches, near.beyond, near.first) == (1, 0, None)
    far = compared(expected, found, 5e-6)
    assert (far.mismatches, far.beyond) == (1, 1)
    assert far.first is not None and far.first["index"] == [1]
    lost = compared(expected, np.array([100.0, np.nan, np.nan, 3e38], np.float32), 1.0)
    assert lost.beyond == 2


def test_errors_of_a_probability_are_small_beside_one(tmp_path: Path) -> None:
    """One element near 0 behind a sigmoid: a part of itself would ask for more than float32 has."""
    builder = OnnxBuilder(1, (1, 4, 2))
    mean = builder.add("ReduceMean", [builder.add("Sigmoid", ["x"])], axes=[1])
    flat = builder.add("Flatten", [mean])
    function = import_model(builder.save(builder.add("Exp", [flat]), tmp_path / "m.onnx")).main
    found = scales(function)
    assert {n.op.name: found[n.output] for n in function.nodes} == {
        "logistic": 1.0, "reduce": 1.0, "reshape": 1.0, "exp": 0.0
    }  # fmt: skip
    row = Comparison("t", "output", (1,), 1e-6, 1.0)
    row.add(0, np.float32([1e-4]), np.float32([1.004e-4]))
    assert (row.mismatches, row.beyond) == (1, 0)
    row.add(1, np.float32([1e-4]), np.float32([1.02e-4]))
    assert row.beyond == 1


def test_integers_have_no_tolerance() -> None:
    row = compared(np.array([1, 2], np.int8), np.array([1, 3], np.int8), 0.0)
    assert (row.mismatches, row.beyond) == (1, 1)


def test_tolerances_add_up(tmp_path: Path) -> None:
    function = import_model(float_network(tmp_path / "m.tflite")).main
    found = tolerances(function)
    dense, softmax = (
        next(n.op.tolerance for n in function.nodes if n.op.name == name)
        for name in ("dense", "softmax")
    )
    assert found[function.params[0]] == 0
    assert found[function.results[0]] == pytest.approx(2 * dense + softmax)
