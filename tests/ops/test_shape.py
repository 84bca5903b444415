"""shape: SHAPE as TFLite Micro and ONNX Shape, both constants in our graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from single_node import save_node
from tflite_builder import TfliteBuilder

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.oracle.frameworks import open_oracle


def test_equals_tflm(tmp_path: Path) -> None:
    # The chain that converters write before a RESHAPE.
    model = TfliteBuilder()
    x = model.tensor("x", (2, 3, 4), "int8", scale=0.1)
    shape = model.tensor("shape", (3,), "int32")
    extent = model.tensor("extent", (), "int32")
    ranges = [
        model.tensor(name, (1,), "int32", data=np.array([value], np.int32))
        for name, value in (("begin", 1), ("end", 2), ("strides", 1))
    ]
    model.operator("SHAPE", [x], [shape], "ShapeOptions", OutType=2)
    model.operator(
        "STRIDED_SLICE", [shape, *ranges], [extent], "StridedSliceOptions", ShrinkAxisMask=1
    )
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [shape, extent]))
    main = import_model(path).main
    inputs = [np.zeros((2, 3, 4), np.int8)]
    expected = open_oracle(path).run(inputs).outputs
    for mine, wanted in zip(interpret(main, inputs), expected, strict=True):
        assert mine.dtype == wanted.dtype
        np.testing.assert_array_equal(mine, wanted, strict=True)


@pytest.mark.parametrize(("attributes", "expected"), [
    ({}, [2, 3, 4]), ({"start": 1}, [3, 4]), ({"start": -3, "end": -1}, [2, 3]),
])  # fmt: skip
def test_equals_onnx(attributes, expected, tmp_path: Path) -> None:
    x = np.zeros((2, 3, 4), np.float32)
    path = save_node(tmp_path / "m.onnx", "Shape", x, {}, output_dtype="int64", **attributes)
    (mine,) = interpret(import_model(path).main, [x])
    (wanted,) = open_oracle(path).run([x]).outputs
    np.testing.assert_array_equal(mine, wanted, strict=True)
    assert mine.tolist() == expected
