"""`--input-shape`: extents that a file leaves open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper


def test_the_command_line_takes_them(tmp_path: Path, edgec: Callable) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "test",
        [value("x", onnx.TensorProto.FLOAT, ("N", 3, "?", "W"))],
        [value("y", onnx.TensorProto.FLOAT, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    open_model = tmp_path / "open.onnx"
    open_model.write_bytes(model.SerializeToString())
    out = tmp_path / "project"
    words = ("build", open_model, "--board", "host", "-o", out)
    refused = edgec(*words)
    assert refused.status == 1 and "--input-shape x=" in refused.err
    assert edgec(*words, "--input-shape", "x=1,3,8,12").status == 0
    for shape in ("x=1,0", "x=1..,3,8,12", "x=8..1,3,8,12"):
        wrong = edgec(*words, "--input-shape", shape)
        assert wrong.status == 2 and "NAME=" in wrong.err


def test_a_range_is_one_function_for_every_size(tmp_path: Path, edgec: Callable) -> None:
    """The batch of a perceptron, against ONNX Runtime."""
    text = """<ir_version: 9, opset_import: ["":17]> net (float[batch,4] x) => (float[batch,4] y)
        <float[4,4] w = {1,2,3,4, -1,0.5,2,1, 0,1,0,1, 3,-2,1,0.25}>
        { hidden = MatMul(x, w)  y = Sigmoid(hidden) }"""
    path, x_file, y_file = (tmp_path / name for name in ("net.onnx", "x.npy", "y.npz"))
    onnx.save(onnx.parser.parse_model(text), path)
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    shape = ("--input-shape", "x=1..5,4")
    words = ("run", path, "--board", "host", *shape, "--input", x_file, "--output", y_file)
    for rows in (1, 3, 5):
        x = np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)
        np.save(x_file, x)
        ran = edgec(*words)
        assert ran.status == 0, ran.err
        (wanted,) = runtime.run(None, {"x": x})
        np.testing.assert_allclose(np.load(y_file)["y"], wanted, rtol=1e-5, atol=1e-6)
    np.save(x_file, np.zeros((6, 4), np.float32))
    refused = edgec(*words)
    assert refused.status == 1 and "'batch' of net is 6" in refused.err
    verified = edgec("verify", path, "--board", "host", *shape, "--random", "2")
    assert verified.status == 0, verified.err


def test_open_sizes_are_not_quantized(tmp_path: Path, edgec: Callable) -> None:
    text = """<ir_version: 9, opset_import: ["":17]> net (float[batch,4] x) => (float[batch,4] y)
        { y = Sigmoid(x) }"""
    path, data = tmp_path / "net.onnx", tmp_path / "x.npz"
    onnx.save(onnx.parser.parse_model(text), path)
    np.savez(data, x=np.zeros((3, 1, 4), np.float32))
    words = ("--calibration", data, "--input-shape", "x=1..5,4", "-o", tmp_path / "q.onnx")
    refused = edgec("quantize", path, *words)
    assert refused.status == 1 and "has open sizes" in refused.err


def test_sizes_with_code_of_their_own(tmp_path: Path, edgec: Callable) -> None:
    text = """<ir_version: 9, opset_import: ["":17]> net (float[batch,4] x) => (float[batch,4] y)
        { y = Sigmoid(x) }"""
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    (tmp_path / "edgec.toml").write_text('specialize = ["batch=1,5"]\n', "utf-8")
    words = ("build", path, "--board", "host", "--input-shape", "x=1..5,4", "-o", tmp_path / "out")
    built = edgec(*words)
    assert built.status == 0 and "specialized at batch=5" in built.out, built.err
    for text, status, message in (
        ("batch=6", 1, "--specialize batch=6: 1 to 5 are possible"),
        ("batch", 2, "is not a size with values"),
    ):
        refused = edgec(*words, "--specialize", text)
        assert refused.status == status and message in refused.err
