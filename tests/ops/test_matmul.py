"""Products of two computed tensors: near ONNX Runtime and TFLite, nests in the reference's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from float_cases import assert_near_tflite
from onnx import helper, numpy_helper
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.frontends.onnx_writer import to_onnx
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.operator import NoAttrs
from edgec.graph.types import Quant, TensorType
from edgec.ops.matmul import Matmul
from edgec.ops.quantize import QuantizeAttrs
from edgec.passes.sequence import run_passes

TOLERANCE = 2e-6

#: Shapes of both operands: plain, batches, batches that broadcast, vectors.
SHAPES = [
    ((3, 5), (5, 4)),
    ((2, 3, 7), (2, 7, 5)),
    ((1, 4, 6, 8), (1, 4, 8, 6)),
    ((2, 1, 3, 4), (3, 4, 8)),
    ((2, 3, 1), (2, 1, 9)),
    ((6,), (2, 6, 3)),
    ((2, 3, 6), (6,)),
]


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def save(path: Path, operands: dict[str, np.ndarray], constants: tuple[str, ...] = ()) -> Path:
    graph = helper.make_graph(
        [helper.make_node("MatMul", list(operands), ["z"], name="node")],
        "test",
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape)
            for name, array in operands.items()
            if name not in constants
        ],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(operands[name], name) for name in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
    return path


def check(path: Path, inputs: dict[str, np.ndarray]) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs)
    function = import_model(path).main
    (mine,) = interpret(function, list(inputs.values()))
    assert mine.shape == expected.shape
    np.testing.assert_allclose(mine, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())
    check_nests(function, list(inputs.values()))


@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_onnx(first: tuple[int, ...], second: tuple[int, ...], tmp_path: Path) -> None:
    inputs = {"x": values(1, *first), "y": values(2, *second)}
    check(save(tmp_path / "m.onnx", inputs), inputs)


@pytest.mark.parametrize("constant", ["x", "y"])
def test_constant_operands(constant: str, tmp_path: Path) -> None:
    both = {"x": values(1, 2, 3, 4), "y": values(2, 2, 4, 5)}
    path = save(tmp_path / "m.onnx", both, (constant,))
    check(path, {name: array for name, array in both.items() if name != constant})


@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize("adj_y", [False, True])
def test_tflite(adj_x: bool, adj_y: bool, tmp_path: Path) -> None:
    x, y = (
        values(3, 2, *((5, 3) if adj_x else (3, 5))),
        values(4, 2, *((6, 5) if adj_y else (5, 6))),
    )
    model = TfliteBuilder()
    shapes = {"x": x.shape, "y": y.shape, "z": (2, 3, 6)}
    tensors = [model.tensor(name, shape, "float32") for name, shape in shapes.items()]
    model.operator(
        "BATCH_MATMUL", tensors[:2], tensors[2:], "BatchMatMulOptions", AdjX=adj_x, AdjY=adj_y
    )
    (tmp_path / "m.tflite").write_bytes(model.build(tensors[:2], tensors[2:]))
    check_nests(assert_near_tflite(tmp_path / "m.tflite", [x, y], TOLERANCE), [x, y])


def test_other_operands_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeMismatch, match=r"matmul of \[2, 3\] and \[4, 5\]"):
        Matmul().infer(NoAttrs(), TensorType((2, 3), "float32"), TensorType((4, 5), "float32"))
    with pytest.raises(TypeMismatch, match=r"matmul of \[2, 2, 3\] and \[3, 3, 5\]"):
        Matmul().infer(
            NoAttrs(), TensorType((2, 2, 3), "float32"), TensorType((3, 3, 5), "float32")
        )
    model = TfliteBuilder()
    tensors = [model.tensor(name, (2, 3, 3), "int32") for name in "xyz"]
    model.operator("BATCH_MATMUL", tensors[:2], tensors[2:], "BatchMatMulOptions")
    (tmp_path / "m.tflite").write_bytes(model.build(tensors[:2], tensors[2:]))
    with pytest.raises(ImportFailed) as refused:
        import_model(tmp_path / "m.tflite")
    assert "only float32, or integers with a scale" in refused.value.details[0]


def quantized_product(dtypes: tuple[str, str, str], x_shape: tuple, y_shape: tuple) -> Function:
    """quantize(dequantize(x) dequantize(y)) of inputs with zero points where there can be any."""
    b = GraphBuilder()
    quants = [Quant((scale,), (zero if dtype == "int8" else 0,)) for dtype, scale, zero in zip(
        dtypes, (0.03, 0.02, 0.3), (5, -30, 11), strict=True)]  # fmt: skip
    operands = [
        b.op("dequantize", [b.param(n, TensorType(shape, dtype, quant))], name=f"{n}.real")
        for n, shape, dtype, quant in zip("xy", (x_shape, y_shape), dtypes, quants, strict=False)
    ]
    product = b.op("matmul", operands, name="product")
    return b.finish([b.op("quantize", [product], QuantizeAttrs(quants[2], dtypes[2]), name="z")])


@pytest.mark.parametrize(("first", "second"), SHAPES[:4])
@pytest.mark.parametrize("dtypes", [("int8",) * 3, ("int16",) * 3, ("int16", "int8", "int8")])
def test_stored_integers(dtypes: tuple[str, str, str], first: tuple, second: tuple) -> None:
    """Of int8 with ONNX Runtime's bits; of int16, which it computes in floats, a step away."""
    import onnxruntime

    floats = quantized_product(dtypes, first, second)
    integers = run_passes(floats, "onnx")
    assert [node.op.name for node in integers.nodes] == ["matmul", "requantize"]
    rng = np.random.default_rng(3)
    inputs = [rng.integers(np.iinfo(d).min, np.iinfo(d).max + 1, shape).astype(d)
              for d, shape in zip(dtypes, (first, second), strict=False)]  # fmt: skip
    if "int16" in dtypes:
        inputs = [array // 256 if array.dtype == np.int16 else array for array in inputs]
    (found,) = interpret(integers, inputs)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(
        to_onnx(floats, producer_version="0").SerializeToString(), options,
        providers=["CPUExecutionProvider"],
    )  # fmt: skip
    (wanted,) = session.run(None, dict(zip("xy", inputs, strict=True)))
    assert np.abs(wanted.astype(int) - found).max() <= (0 if "int16" not in dtypes else 1)
    assert len(np.unique(found)) > 3
    check_nests(integers, inputs)


def test_too_many_products_of_int8_are_refused() -> None:
    quant = Quant((0.1,), (0,))
    x, y = (TensorType(shape, "int8", quant) for shape in ((1, 40000), (40000, 1)))
    with pytest.raises(TypeMismatch, match="at most 33025 products of int8 fit in int32"):
        Matmul().infer(NoAttrs(), x, y)
