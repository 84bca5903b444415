"""quantize and dequantize: ONNX Runtime in every bit, ties, ends of the range and NaN included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import assert_near_tflite, float_values
from onnx_builder import OnnxBuilder
from onnxruntime import InferenceSession
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

import edgec
from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.operator import NoAttrs
from edgec.graph.types import Quant, TensorType
from edgec.ops.quantize import Dequantize, Quantize, QuantizeAttrs

KNOWN = ["int8", "uint8", "int16"]
SCALES = [0.5, 0.1, 1.0, 3.7e-3, 1e-8, 117.0]


def parameters(scale: object, zero_point: object, dtype: str) -> dict[str, np.ndarray]:
    return {"scale": np.asarray(scale, np.float32), "zero_point": np.asarray(zero_point, dtype)}


def reals(scale: float, seed: int) -> np.ndarray:
    """Numbers around every stored value and its ties, and the extremes."""
    rng = np.random.default_rng(seed)
    steps = np.concatenate([np.arange(-300, 300) / 2, rng.normal(0, 90, 400)])
    near = (steps * np.float64(scale)).astype(np.float32)
    with np.errstate(over="ignore"):
        around = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, -np.float32(3))]
    ends = np.array([0.0, -0.0, 1e-45, 3.4e38, -3.4e38, np.inf, -np.inf], np.float32)
    return np.concatenate([*around, ends])


@pytest.mark.parametrize("dtype", KNOWN)
@pytest.mark.parametrize("scale", SCALES)
def test_quantize_equals_onnxruntime(dtype: str, scale: float, tmp_path: Path) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    # ONNX Runtime knows 16 bits from opset 21 on.
    opset = 21 if dtype == "int16" else 17
    for zero_point in (low, 0 if low < 0 else 128, 3, high):
        x = reals(scale, seed=zero_point & 0xFF)
        path = save_node(
            tmp_path / "m.onnx", "QuantizeLinear", x, parameters(scale, zero_point, dtype),
            opset=opset, output_dtype=dtype,
        )  # fmt: skip
        function = check_against_onnxruntime(path, x)
        check_nests(function, [x])


def test_nan_gives_the_same_everywhere(tmp_path: Path) -> None:
    x = np.full(17, np.nan, np.float32)
    path = save_node(
        tmp_path / "m.onnx", "QuantizeLinear", x, parameters(0.5, 7, "int8"), output_dtype="int8"
    )
    check_nests(check_against_onnxruntime(path, x), [x])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_dequantize_is_one_float32_product(dtype: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.arange(low, high + 1).astype(dtype)
    for scale in SCALES:
        for zero_point in (low, 3, high):
            quant = Quant((float(np.float32(scale)),), (zero_point,))
            types = [TensorType(x.shape, dtype, quant)]
            (mine,) = Dequantize().evaluate(
                NoAttrs(), [x], types, Dequantize().infer(NoAttrs(), *types)
            )
            difference = (x.astype(np.int64) - zero_point).astype(np.float32)
            np.testing.assert_array_equal(mine, difference * np.float32(scale), strict=True)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_per_axis_round_trip_equals_onnxruntime(axis: int, tmp_path: Path) -> None:
    import onnx
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(axis + 1)
    x = rng.normal(0, 20, (2, 3, 4)).astype(np.float32)
    count = x.shape[axis]
    scale = rng.uniform(0.05, 0.5, count).astype(np.float32)
    zero_point = rng.integers(-20, 20, count).astype(np.int8)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quantize", axis=axis),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="dequantize", axis=axis),
    ]
    graph = helper.make_graph(
        nodes, "test",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, x.shape)],
        [numpy_helper.from_array(scale, "s"), numpy_helper.from_array(zero_point, "z")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    function = check_against_onnxruntime(path, x)
    assert function.nodes[0].output.type.quant is not None
    assert function.nodes[0].output.type.quant.axis == axis % 3
    check_nests(function, [x])


def test_a_missing_zero_point_means_uint8_and_zero(tmp_path: Path) -> None:
    x = reals(0.5, seed=1)
    path = save_node(
        tmp_path / "m.onnx", "QuantizeLinear", x, {"scale": np.float32(0.5)}, output_dtype="uint8"
    )
    function = check_against_onnxruntime(path, x)
    assert function.results[0].type == TensorType(x.shape, "uint8", Quant((0.5,), (0,)))


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceMax", "ReduceProd"])
@pytest.mark.parametrize("of_integers", [False, True])
def test_a_scalar_becomes_a_uint8(of_integers: bool, kind: str, tmp_path: Path) -> None:
    """The C gives one value without axes, not a row of one."""
    b = OnnxBuilder(1, (2, 3))
    stored = [b.constant(np.float32(0.1), "scale"), b.constant(np.uint8(7), "zero_point")]
    x = "x"
    if of_integers:
        x = b.add("DequantizeLinear", [b.add("QuantizeLinear", ["x", *stored]), *stored])
    path = b.save(
        b.add("QuantizeLinear", [b.add(kind, [x], keepdims=0), *stored]), tmp_path / "m.onnx"
    )
    values = float_values((2, 3))
    (wanted,) = InferenceSession(path).run(None, {"x": values})
    with edgec.compile(path) as model:
        found = model.run(values)
    assert found.shape == () and found.dtype == np.uint8 and found == wanted


@pytest.mark.parametrize("scale", [0.0, -0.5, np.inf, np.nan])
def test_a_scale_that_is_no_scale_is_refused(scale: float, tmp_path: Path) -> None:
    x = np.zeros(3, np.float32)
    path = save_node(
        tmp_path / "m.onnx", "QuantizeLinear", x, parameters(scale, 0, "int8"), output_dtype="int8"
    )
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert "not a positive finite number" in "\n".join(caught.value.details)


def test_types_that_do_not_fit_are_refused() -> None:
    quant = Quant((0.5,), (0,))
    with pytest.raises(TypeMismatch, match="quantize needs float32"):
        Quantize().infer(QuantizeAttrs(quant), TensorType((1,), "int8", quant))
    for dtype in ("bool", "float32"):
        with pytest.raises(TypeMismatch, match=f"the result of quantize is integers, not {dtype}"):
            Quantize().infer(QuantizeAttrs(quant, dtype), TensorType((1,), "float32"))
    with pytest.raises(TypeMismatch, match="dequantize needs a quantized input"):
        Dequantize().infer(NoAttrs(), TensorType((1,), "int8"))


def edge_model(kind: str, dtype: str, x: np.ndarray) -> bytes:
    model = TfliteBuilder()
    fine = {"dtype": dtype, "scale": 0.1, "zero_point": 0 if dtype == "int16" else 7}
    ends = [{"dtype": "float32"}, fine]
    first, second = ends if kind == "QUANTIZE" else reversed(ends)
    tensors = [model.tensor("x", x.shape, **first), model.tensor("y", x.shape, **second)]
    model.operator(kind, tensors[:1], tensors[1:])
    return model.build(tensors[:1], tensors[1:])


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_tflite_quantizes_ties_away_from_zero(dtype: str, tmp_path: Path) -> None:
    ties = (np.arange(-300, 300, dtype=np.float32) + np.float32(0.5)) * np.float32(0.1)
    x = np.concatenate([ties, np.float32([0, -0.0, 9e3, -9e3]), float_values((100,))])
    (tmp_path / "m.tflite").write_bytes(edge_model("QUANTIZE", dtype, x))
    check_nests(assert_near_tflite(tmp_path / "m.tflite", [x], 0.0), [x])


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_tflite_dequantizes(dtype: str, tmp_path: Path) -> None:
    x = np.arange(-128, 128).astype(dtype)
    (tmp_path / "m.tflite").write_bytes(edge_model("DEQUANTIZE", dtype, x))
    check_nests(assert_near_tflite(tmp_path / "m.tflite", [x], 0.0), [x])


def test_float16_weights_become_float32(tmp_path: Path) -> None:
    model = TfliteBuilder()
    weights = float_values((4, 9)).astype(np.float16)
    x, y = model.tensor("x", (1, 9), "float32"), model.tensor("y", (1, 4), "float32")
    half = model.tensor("half", (4, 9), "float16", data=weights)
    whole = model.tensor("whole", (4, 9), "float32")
    model.operator("DEQUANTIZE", [half], [whole])
    model.operator("FULLY_CONNECTED", [x, whole], [y], "FullyConnectedOptions")
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [y]))
    values = float_values((1, 9))
    function = assert_near_tflite(path, [values], 1e-6, "litert")
    assert [node.op.name for node in function.nodes] == ["dense"]
