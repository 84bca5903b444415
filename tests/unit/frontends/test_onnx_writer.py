"""Operators that have an ONNX form: the file that is written answers as the file that was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder

from edgec.frontends import import_model
from edgec.frontends.onnx_writer import onnx_bytes

oracle = pytest.importorskip("edgec.oracle.frameworks")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")

FLOAT, INT64 = 1, 7


def places(b: OnnxBuilder, **attributes: int) -> str:
    """Computed ones, of rows of six."""
    return b.add("ArgMax", ["x"], axis=1, keepdims=1, **attributes)


def constant(b: OnnxBuilder, *values: int) -> str:
    return b.constant(np.asarray(values, np.int64), "c")


def order(b: OnnxBuilder, largest: int) -> str:
    b.add("TopK", ["x", constant(b, 4)], axis=0, largest=largest)
    b.nodes[-1].output.append(b.name("places"))
    return str(b.nodes[-1].output[1])


def floats(b: OnnxBuilder, value: str) -> str:
    return b.add("Cast", [value], to=FLOAT)


CASES: dict[str, Callable[[OnnxBuilder], str]] = {
    "argmax": lambda b: floats(b, places(b, select_last_index=1)),
    "argmin": lambda b: floats(b, b.add("ArgMin", ["x"], axis=0, keepdims=0)),
    "top_k": lambda b: floats(b, order(b, 1)),
    "lowest": lambda b: floats(b, order(b, 0)),
    "tile": lambda b: b.add("Tile", ["x", constant(b, 2, 3)]),
    "gather": lambda b: b.add("Gather", ["x", places(b)], axis=1),
    "gather_elements": lambda b: b.add("GatherElements", ["x", places(b)], axis=1),
    "gather_nd": lambda b: b.add("GatherND", ["x", places(b)], batch_dims=1),
    "from_the_end": lambda b: b.add(
        "GatherElements", ["x", b.add("Sub", [places(b), constant(b, 6)])], axis=1
    ),
    "sums": lambda b: b.add("CumSum", ["x", constant(b, 1)], exclusive=1, reverse=1),
    "counts": lambda b: floats(
        b, b.add("Add", [b.add("Mul", [places(b), places(b)]), constant(b, 3)])
    ),
    "unlike": lambda b: floats(b, b.add("Not", [b.add("Equal", ["x", b.add("Abs", ["x"])])])),
    "square": lambda b: b.add("Pow", ["x", b.constant(np.float32(2), "two")]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_written_file_answers_as_the_one_read(name: str, tmp_path: Path) -> None:
    b = OnnxBuilder(1, (5, 6))
    path = b.save(CASES[name](b), tmp_path / "m.onnx")
    again = tmp_path / "again.onnx"
    again.write_bytes(onnx_bytes(import_model(path).main))
    first, second = oracle.open_oracle(path), oracle.open_oracle(again)
    for seed in range(3):
        x = np.random.default_rng(seed).integers(-2, 3, (5, 6)).astype(np.float32)
        np.testing.assert_array_equal(first.run([x]).outputs[0], second.run([x]).outputs[0])
