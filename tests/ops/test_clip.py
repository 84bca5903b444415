"""clip: ONNX Relu and Clip in every bit, with and without bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder
from single_node import check_against_onnxruntime, save_node

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.ops.clip import Clip, ClipAttrs
from edgec.oracle.frameworks import open_oracle
from edgec.passes.fuse_qdq import fuse_qdq
from edgec.passes.sink_transposes import sink_transposes

X = np.array(
    [-np.inf, -3e38, -6.5, -1.0, -1e-40, 0.0, 1e-40, 0.75, 6.0, 6.5, 3e38, np.inf, np.nan],
    np.float32,
)


def test_relu_equals_onnxruntime(tmp_path: Path) -> None:
    function = check_against_onnxruntime(save_node(tmp_path / "m.onnx", "Relu", X, {}), X)
    assert function.nodes[0].attrs == ClipAttrs(minimum=0.0)


@pytest.mark.parametrize("low", [None, -6.5, 0.0])
@pytest.mark.parametrize("high", [None, 6.0, 0.75])
def test_clip_equals_onnxruntime(low: float | None, high: float | None, tmp_path: Path) -> None:
    bounds = {
        name: None if bound is None else np.float32(bound)
        for name, bound in (("low", low), ("high", high))
    }
    check_against_onnxruntime(save_node(tmp_path / "m.onnx", "Clip", X, bounds), X)


def test_bounds_are_of_the_inputs_own_type() -> None:
    # 0.1 is another number in float32 than in Python's doubles.
    x = np.array([0.1, 0.2], np.float32)
    types = [TensorType(x.shape, "float32")]
    (y,) = Clip().evaluate(ClipAttrs(minimum=0.1), [x], types, types)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("bounds", [("low",), ("", "high"), ("low", "high"), ()], ids=str)
def test_a_clip_becomes_bounds_of_stored_integers(bounds: tuple[str, ...], tmp_path: Path) -> None:
    b = OnnxBuilder(5, (1, 2, 6, 6))
    x = b.qdq("x", 0.03, 4)
    weights, bias, _ = b.weights((3, 2, 3, 3), 0.03)
    y = b.add("Conv", [x, weights, bias])
    real = {"low": b.constant(np.float32(-0.7), "low"), "high": b.constant(np.float32(0.9), "high")}
    y = b.qdq(b.add("Clip", [y, *(real.get(name, "") for name in bounds)]), 0.02, -11)
    path = b.save(y, tmp_path / "m.onnx")
    function = fuse_qdq(sink_transposes(import_model(path).main))
    assert "clip" not in [node.op.name for node in function.nodes]
    for seed in range(5):
        data = np.random.default_rng(seed).normal(0, 1.5, (1, 2, 6, 6)).astype(np.float32)
        (expected,) = open_oracle(path).run([data]).outputs
        (mine,) = interpret(function, [data])
        np.testing.assert_array_equal(mine, expected, strict=True)


def test_bounds_that_are_computed(tmp_path: Path) -> None:
    """Clip's body in the standard, of comparisons and choices, takes its place."""
    import onnx

    path = save_node(tmp_path / "m.onnx", "Clip", X, {"low": np.float32(0)})
    model = onnx.load(path)
    del model.graph.initializer[:]
    model.graph.input.append(onnx.helper.make_tensor_value_info("low", onnx.TensorProto.FLOAT, []))
    path.write_bytes(model.SerializeToString())
    main = import_model(path).main
    assert "clip" not in {node.op.name for node in main.nodes}
    finite = X[np.isfinite(X)]
    data = np.concatenate([finite, np.zeros(len(X) - len(finite), np.float32)])
    for low in (-1.0, 0.5):
        bound = np.array(low, np.float32)
        (expected,) = open_oracle(path).run([data, bound]).outputs
        (mine,) = interpret(main, [data, bound])
        np.testing.assert_array_equal(mine, expected, strict=True)


def test_integers_are_refused() -> None:
    with pytest.raises(TypeMismatch, match="needs float32"):
        Clip().infer(ClipAttrs(), TensorType((1,), "int8", Quant((0.5,), (0,))))
