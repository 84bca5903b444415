"""slice_at and update_slice: LiteRT's and ONNX Runtime's elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from against_tflm import assert_same_bits
from tflite_builder import TfliteBuilder

import edgec.ops
from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.ops.slice_at import SliceAt, SliceAtAttrs, UpdateSlice
from edgec.oracle.frameworks import open_oracle

edgec.ops.load()

X = TensorType((4, 5), "float32")
STARTS = TensorType((2,), "int32")


@pytest.mark.parametrize("dtype", ["float32", "int8", "int32", "int64"])
@pytest.mark.parametrize("starts", [(1, 2), (0, 0), (9, -3)])
def test_updates_as_litert(dtype: str, starts: tuple[int, int], tmp_path: Path) -> None:
    """A start beyond the end is moved so that the part fits."""
    model = TfliteBuilder()
    quant = {"scale": 0.5, "zero_point": 1} if dtype == "int8" else {}
    x, y = (model.tensor(name, (4, 5), dtype, **quant) for name in "xy")
    part = model.tensor("part", (2, 3), dtype, **quant)
    at = model.tensor("at", (2,), "int32", data=np.array(starts, np.int32))
    model.operator("DYNAMIC_UPDATE_SLICE", [x, part, at], [y], "DynamicUpdateSliceOptions")
    assert_same_bits(model.build([x, part], [y]), tmp_path, reference="litert")


@pytest.mark.parametrize("dtype", ["float32", "int8", "int16", "int32", "int64", "bool"])
@pytest.mark.parametrize("starts", [(1, 2), (0, 0), (2, 1)])
def test_slices_from_computed_starts_as_litert(
    dtype: str, starts: tuple[int, int], tmp_path: Path
) -> None:
    """The starts are an input, and then what an operator makes."""
    model = TfliteBuilder()
    quant = {"int8": {"scale": 0.5, "zero_point": 1}, "int16": {"scale": 0.5, "zero_point": 0}}
    x = model.tensor("x", (4, 5), dtype, **quant.get(dtype, {}))
    y = model.tensor("y", (2, 3), dtype, **quant.get(dtype, {}))
    given = model.tensor("given", (2,), "int32")
    size = model.tensor("size", (2,), "int32", data=np.array([2, 3], np.int32))
    limit, at = (model.tensor(n, (2,), "int32", **d) for n, d in (
        ("limit", {"data": np.array(starts, np.int32)}), ("at", {})))  # fmt: skip
    model.operator("MINIMUM", [given, limit], [at], "MaximumMinimumOptions")
    model.operator("SLICE", [x, at, size], [y], "SliceOptions")
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x, given], [y]))
    main, oracle = import_model(path).main, open_oracle(path, "litert")
    values = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 100, (4, 5))
    inputs = [values.astype(dtype), np.array([7, 7], np.int32)]
    np.testing.assert_array_equal(interpret(main, inputs)[0], oracle.run(inputs).outputs[0])


def test_a_computed_slice_as_onnx_runtime(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["":17]>
    m (float[3,7] x, int64[1] i) => (float[3,2] y) {
      two = Constant<value = int64[1] {2}>()
      axes = Constant<value = int64[1] {-1}>()
      end = Add(i, two)
      y = Slice(x, i, end, axes) }"""
    model = onnx.parser.parse_model(text)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    providers = ["CPUExecutionProvider"]
    oracle = onnxruntime.InferenceSession(model.SerializeToString(), providers=providers)
    main = import_model(tmp_path / "m.onnx").main
    x = np.arange(21, dtype=np.float32).reshape(3, 7)
    for start in range(6):
        at = np.array([start])
        (wanted,) = oracle.run(None, {"x": x, "i": at})
        np.testing.assert_array_equal(interpret(main, [x, at])[0], wanted)


def test_a_slice_of_unknown_length_is_refused(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["":17]>
    m (float[7] x, int64[1] i, int64[1] j) => (float[k] y) { y = Slice(x, i, j) }"""
    (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    with pytest.raises(ImportFailed) as failure:
        import_model(tmp_path / "m.onnx")
    assert "how many elements it takes is computed" in failure.value.details[0]


def test_types_that_do_not_fit() -> None:
    b = GraphBuilder()
    x, starts = b.param("x", X), b.param("starts", STARTS)
    for shape in ((2,), (5, 5), (0, 1)):
        with pytest.raises(TypeMismatch, match=r"a part \["):
            b.op(SliceAt, [x, starts], SliceAtAttrs(shape), name="y")
    with pytest.raises(TypeMismatch, match="the starts are float32"):
        b.op(SliceAt, [x, x], SliceAtAttrs((1, 1)), name="y")
    with pytest.raises(TypeMismatch, match="other elements"):
        b.op(UpdateSlice, [x, b.param("p", TensorType((1, 1), "int32")), starts], name="y")
