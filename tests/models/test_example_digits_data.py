"""The files of examples/digits are what their README says: split, structure, accuracy.

These tests look at the committed files with ONNX and ONNX Runtime alone; that edgec compiles the
model to the same bits is tested elsewhere.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"
DATA_SET_IMAGES = 1797  # scikit-learn's load_digits()


@pytest.fixture(scope="module")
def held_out() -> dict[str, np.ndarray]:
    with np.load(EXAMPLE / "digits_test.npz") as archive:
        return {name: archive[name] for name in archive.files}


@pytest.fixture(scope="module")
def int8_model() -> onnx.ModelProto:
    return onnx.load(EXAMPLE / "digits_int8.onnx")


def script_constant(name: str) -> int:
    """An integer constant of train.py, read without importing it (it needs PyTorch)."""
    for statement in ast.parse((EXAMPLE / "train.py").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == name:
            return ast.literal_eval(statement.value)
    raise AssertionError(f"train.py has no constant {name}")


def stated_right(file_name: str) -> int:
    """How many held-out images the README says that this model answers right."""
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    match = re.search(rf"^\| `{re.escape(file_name)}` \| (\d+) \| 400 \|", text, re.MULTILINE)
    assert match, f"README.md states no accuracy for {file_name}"
    return int(match[1])


def run_onnxruntime(file_name: str, images: np.ndarray, **config: str) -> np.ndarray:
    """[N, 10] logits of ONNX Runtime; `config` are session entries without their prefix."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs edgec[verify]: onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for key, value in config.items():
        options.add_session_config_entry(f"session.{key}", value)
    session = onnxruntime.InferenceSession(
        EXAMPLE / file_name, options, providers=["CPUExecutionProvider"]
    )
    return np.concatenate([session.run(None, {"image": x[np.newaxis]})[0] for x in images])


def test_held_out_images_have_the_form_the_model_wants(held_out):
    x, y = held_out["x"], held_out["y"]
    assert (x.dtype, x.shape) == (np.float32, (400, 1, 8, 8))
    assert (y.dtype, y.shape) == (np.uint8, (400,))
    # The data set counts ink in 0..16; the model takes that divided by 16.
    assert set(np.unique(x * 16)) == set(range(17))
    assert np.bincount(y, minlength=10).min() >= 30, "a digit is hardly represented"


def test_split_is_the_fixed_permutation_of_the_script(held_out):
    count = script_constant("HELD_OUT")
    order = np.random.RandomState(script_constant("SEED")).permutation(DATA_SET_IMAGES)
    np.testing.assert_array_equal(held_out["index"], order[:count])
    assert not set(held_out["index"].tolist()) & set(order[count:].tolist())


def test_files_are_small():
    for name, limit in {"float.onnx": 64, "int8.onnx": 32, "test.npz": 32}.items():
        assert (EXAMPLE / f"digits_{name}").stat().st_size < limit * 1024


def test_int8_model_has_the_stated_nodes(int8_model):
    onnx.checker.check_model(int8_model, full_check=True)
    nodes = [
        (node.name, node.op_type)
        for node in int8_model.graph.node
        if node.op_type not in {"QuantizeLinear", "DequantizeLinear"}
    ]
    assert nodes == [
        ("stem", "Conv"),
        ("pool", "MaxPool"),
        ("depthwise", "Conv"),
        ("pointwise", "Conv"),
        ("residual", "Add"),
        ("mix", "Conv"),
        ("flatten", "Reshape"),
        ("logits", "Gemm"),
    ]


def test_int8_model_is_per_channel_and_cannot_saturate_16_bits(int8_model):
    constants = {t.name: numpy_helper.to_array(t) for t in int8_model.graph.initializer}
    weights = {k: v for k, v in constants.items() if k.endswith(".weight_quantized")}
    assert len(weights) == 5
    for name, weight in weights.items():
        layer = name.removesuffix("_quantized")
        assert weight.dtype == np.int8
        assert constants[f"{layer}_scale"].shape == (weight.shape[0],)
        assert not constants[f"{layer}_zero_point"].any()
        # Two products of a byte and such a weight stay inside int16: 2 * 255 * 64 < 2**15.
        assert np.abs(weight.astype(int)).max() <= 64


def test_parameters_are_those_of_the_readme():
    graph = onnx.load(EXAMPLE / "digits_float.onnx").graph
    floats = [t for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    count = sum(numpy_helper.to_array(t).size for t in floats)
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert f"{count} parameters" in text


@pytest.mark.parametrize("file_name", ["digits_float.onnx", "digits_int8.onnx"])
def test_accuracy_is_that_of_the_readme(file_name, held_out):
    logits = run_onnxruntime(file_name, held_out["x"], qdqisint8allowed="1")
    right = int((logits.argmax(axis=1) == held_out["y"]).sum())
    # One image of room: a float sum may go the other way on another kind of PC.
    assert abs(right - stated_right(file_name)) <= 1
    assert right >= 0.97 * len(held_out["y"])


def test_default_session_gives_the_same_answers(held_out):
    """With 7-bit weights ONNX Runtime's defaults are not off, whatever the CPU of the PC is."""
    exact = run_onnxruntime("digits_int8.onnx", held_out["x"], qdqisint8allowed="1")
    default = run_onnxruntime("digits_int8.onnx", held_out["x"])
    np.testing.assert_array_equal(exact.argmax(axis=1), default.argmax(axis=1))
