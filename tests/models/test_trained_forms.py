"""Where exporters put QuantizeLinear and DequantizeLinear: ONNX Runtime's bits in every place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from built_models import build
from onnx import TensorProto, helper, numpy_helper
from quantized_files import quantize_model
from test_same_bits import need_tools
from test_trained_quantization import check_bits, inputs, names
from trained_builder import TrainedBuilder

from edgec.errors import ImportFailed
from edgec.oracle.frameworks import open_oracle
from edgec.runners.engine import open_session

IMAGE = (1, 3, 8, 8)


def convolved(b: TrainedBuilder, x: str) -> str:
    weights = b.fake_weights((8, 3, 3, 3))
    return b.add("Conv", [x, weights, b.bias(8)], pads=[1, 1, 1, 1])


def pair_before_relu(b: TrainedBuilder) -> str:
    y = b.fake(convolved(b, b.fake("x", 0.025, 128)), 0.04, 128)
    return b.fake(b.add("Relu", [y]), 0.02, 0)


def two_pairs_of_one_scale(b: TrainedBuilder) -> str:
    parameters = b.parameters(0.025, 128)
    x = b.fake_by(b.fake_by("x", parameters), parameters)
    return b.fake(convolved(b, x), 0.04, 128)


def two_pairs_of_two_scales(b: TrainedBuilder) -> str:
    y = convolved(b, b.fake(b.fake("x", 0.025, 128), 0.03, 120))
    return b.fake(b.fake(y, 0.04, 128), 0.03, 10)


def swish(b: TrainedBuilder) -> str:
    y = b.fake(convolved(b, b.fake("x", 0.025, 128)), 0.04, 128)
    gate = b.fake(b.add("Sigmoid", [y]), 1 / 256, 0)
    return b.fake(b.add("Mul", [y, gate]), 0.03, 20)


def shared_scales(b: TrainedBuilder) -> str:
    parameters = b.parameters(0.025, 128)
    x = b.fake_by("x", parameters)
    pooled = b.add("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2])
    twice = b.constant(np.float32([1, 1, 2, 2]), "scales")
    larger = b.add("Resize", [b.fake_by(pooled, parameters), "", twice], mode="nearest",
                   coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    joined = b.add("Concat", [x, b.fake_by(larger, parameters)], axis=1)
    return b.fake_by(joined, parameters)


def matrix_without_bias(b: TrainedBuilder) -> str:
    x = b.fake(b.add("Reshape", ["x", b.constant(np.int64([1, 192]), "shape")]), 0.025, 128)
    matrix = b.add("Transpose", [b.fake_weights((7, 192))], perm=[1, 0])
    return b.fake(b.add("MatMul", [x, matrix]), 0.04, 128)


def sequence(b: TrainedBuilder) -> str:
    x = b.fake(b.add("Reshape", ["x", b.constant(np.int64([1, 12, 16]), "shape")]), 0.025, 128)
    y = b.add("Conv", [x, b.fake_weights((8, 12, 5)), b.bias(8)], pads=[2, 2])
    return b.fake(b.add("Relu", [y]), 0.04, 0)


def one_for_each_reader(b: TrainedBuilder) -> str:
    y = b.add("Relu", [convolved(b, b.fake("x", 0.025, 128))])
    left, right = b.fake(y, 0.02, 128), b.fake(y, 0.02, 128)
    return b.fake(b.add("Mul", [left, b.fake(b.add("Sigmoid", [right]), 1 / 256, 0)]), 0.03, 0)


FORMS: dict[Callable[[TrainedBuilder], str], list[str]] = {
    pair_before_relu: ["conv2d", "requantize", "lookup"],
    two_pairs_of_one_scale: ["conv2d", "requantize"],
    two_pairs_of_two_scales: ["lookup", "conv2d", "requantize", "lookup"],
    swish: ["conv2d", "requantize", "lookup", "mul"],
    one_for_each_reader: ["conv2d", "requantize", "lookup", "mul"],
    shared_scales: ["avg_pool2d", "resize", "concat"],
    matrix_without_bias: ["dense", "requantize"],
    sequence: ["conv2d", "requantize"],
}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("write", FORMS, ids=lambda write: write.__name__)
def test_pairs(write: Callable[[TrainedBuilder], str], dtype: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = TrainedBuilder(2, IMAGE, dtype)
    path = model.save(write(model), tmp_path / "trained.onnx")
    assert names(check_bits(path, IMAGE)) == FORMS[write]


def linear(path: Path, kind: str) -> Path:
    """A linear layer and a ReLU, written in one of the ways of exporters."""
    rng = np.random.default_rng(4)
    w = rng.normal(0, 0.3, (4, 8)).astype(np.float32)
    scale = (np.abs(w).max(axis=1) / 127).astype(np.float32)
    arrays = {
        "s": np.float32(0.02), "z": np.uint8(100), "s2": np.float32(0.02), "z2": np.uint8(10),
        "w": w, "ws": scale, "wz": np.zeros(4, np.int8), "w8": np.rint(w / scale[:, None]),
        "b": rng.normal(0, 0.5, 4).astype(np.float32), "wide": np.int64(100), "zs": np.int8(-28),
    }  # fmt: skip
    arrays["w8"] = arrays["w8"].astype(np.int8)
    node = helper.make_node
    x_type = {"uint8 input": TensorProto.UINT8, "int8 input": TensorProto.INT8}.get(kind, 1)
    zero = {"cast zero point": "zc", "int8 input": "zs"}.get(kind, "z")
    nodes = [node("Cast", ["wide"], ["zc"], to=TensorProto.UINT8)] if zero == "zc" else []
    if kind == "output_dtype":
        nodes += [node("QuantizeLinear", ["x", "s"], ["xq"], output_dtype=TensorProto.INT8),
                  node("DequantizeLinear", ["xq", "s"], ["xd"])]  # fmt: skip
    elif kind == "no zero point":
        nodes += [node("QuantizeLinear", ["x", "s"], ["xq"]),
                  node("DequantizeLinear", ["xq", "s"], ["xd"])]  # fmt: skip
    elif x_type == 1:
        nodes += [node("QuantizeLinear", ["x", "s", zero], ["xq"]),
                  node("DequantizeLinear", ["xq", "s", zero], ["xd"])]  # fmt: skip
    else:
        nodes += [node("DequantizeLinear", ["x", "s", zero], ["xd"])]
    bias = "b"
    if kind == "converted":  # as PyTorch writes a model of integers
        bias = "bd"
        nodes += [
            node("DequantizeLinear", ["w8", "ws", "wz"], ["wd"], axis=0),
            node("Mul", ["ws", "s"], ["bs"]),
            node("Div", ["b", "bs"], ["bf"]),
            node("Cast", ["bf"], ["bi"], to=TensorProto.INT32),
            node("Shape", ["bs"], ["shape"]),
            node("ConstantOfShape", ["shape"], ["bz"],
                 value=numpy_helper.from_array(np.zeros(1, np.int32))),
            node("DequantizeLinear", ["bi", "bs", "bz"], ["bd"], axis=0),
        ]  # fmt: skip
    else:
        nodes += [node("QuantizeLinear", ["w", "ws", "wz"], ["wq"], axis=0),
                  node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=0)]  # fmt: skip
    last = "y" if kind == "uint8 output" else "yq"
    nodes += [node("Gemm", ["xd", "wd", bias], ["g"], transB=1), node("Relu", ["g"], ["r"]),
              node("QuantizeLinear", ["r", "s2", "z2"], [last])]  # fmt: skip
    if last != "y":
        nodes += [node("DequantizeLinear", [last, "s2", "z2"], ["y"])]
    used = {name for each in nodes for name in each.input}
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info("x", x_type, (1, 8))],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items() if n in used],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
    return path


@pytest.mark.parametrize("kind", [
    "converted", "cast zero point", "no zero point", "output_dtype", "uint8 input", "int8 input",
    "uint8 output",
])  # fmt: skip
def test_ways_of_exporters(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = linear(tmp_path / "linear.onnx", kind)
    (_, shape, dtype), *_ = open_oracle(path).input_types()
    compiled = check_bits(path, shape, dtype=dtype)
    assert set(names(compiled)) == {"dense", "requantize"}


def test_a_partly_quantized_model_runs_but_is_not_quantized_again(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    b = TrainedBuilder(2, IMAGE)
    y = b.fake(b.add("Relu", [convolved(b, b.fake("x", 0.025, 100))]), 0.03, 0)
    matrix = b.constant(b.rng.normal(0, 0.1, (512, 4)).astype(np.float32), "matrix")
    path = b.save(b.add("MatMul", [b.add("Flatten", [y]), matrix]), tmp_path / "partly.onnx")
    need_tools("host", "gcc", "host")
    compiled, built = build(path, "host")
    assert names(compiled) == ["conv2d", "requantize", "dense"]
    with open_session("host", built) as session:
        for x in inputs(IMAGE, 3):
            wanted = open_oracle(path).run([x]).outputs[0]
            np.testing.assert_allclose(session.run([x]).outputs[0], wanted, atol=1e-5)
    with pytest.raises(ImportFailed, match="is quantized already"):
        quantize_model(path, [[np.zeros(IMAGE, np.float32)]])
