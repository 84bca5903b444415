"""rms_norm: found in its parts, near PyTorch, and in integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder
from quantized_files import float_function, qdq_bytes, quantize_model
from single_node import check_nests

from edgec import ops
from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.operator import get_op
from edgec.graph.types import TensorType
from edgec.ops.rms_norm import RmsNorm, RmsNormAttrs
from edgec.oracle.frameworks import open_oracle
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import Recipe

ops.load()
RNG = np.random.default_rng(3)
SCALE = RNG.normal(1, 0.3, 8).astype(np.float32)
BIAS = RNG.normal(0, 0.3, 8).astype(np.float32)
FORMS = ("rms_div", "rms_reciprocal", "layer_div", "layer_keras")


def model(form: str, path: Path) -> Path:
    """A dense layer and a normalization as exporters write it."""
    b = OnnxBuilder(4, (6, 8))
    weights = b.constant(RNG.normal(0, 0.4, (8, 8)).astype(np.float32), "w")
    x = b.add("MatMul", ["x", weights])
    scale, bias = b.constant(SCALE, "scale"), b.constant(BIAS, "bias")
    centre = b.add("Sub", [x, b.add("ReduceMean", [x], axes=[-1])])
    rows = x if form.startswith("rms") else centre
    square = b.add("Mul", [rows, rows])
    sums = b.add(
        "Add", [b.add("ReduceMean", [square], axes=[1]), b.constant(np.float32(1e-5), "e")]
    )
    root = b.add("Sqrt", [sums])
    if form == "layer_keras":
        factor = b.add("Mul", [b.add("Reciprocal", [root]), scale])
        mean = b.add("ReduceMean", [x], axes=[-1])
        moved = b.add("Sub", [bias, b.add("Mul", [mean, factor])])
        return b.save(b.add("Add", [b.add("Mul", [x, factor]), moved]), path)
    if form == "rms_reciprocal":
        one = b.constant(np.float32(1), "one")
        return b.save(b.add("Mul", [scale, b.add("Mul", [rows, b.add("Div", [one, root])])]), path)
    y = b.add("Mul", [b.add("Div", [rows, root]), scale])
    return b.save(y if form == "rms_div" else b.add("Add", [y, bias]), path)


@pytest.mark.parametrize("form", FORMS)
def test_parts_become_one_operator_and_integers(form: str, tmp_path: Path) -> None:
    path = model(form, tmp_path / "m.onnx")
    function = float_function(path)
    kind = "rms_norm" if form.startswith("rms") else "layer_norm"
    assert [node.op.name for node in function.nodes] == ["dense", kind]
    samples = [[RNG.uniform(-1.7, 1.7, (6, 8)).astype(np.float32)] for _ in range(40)]
    whole = import_model(path).main
    for sample in samples[:3]:
        np.testing.assert_allclose(*(interpret(f, sample)[0] for f in (whole, function)), atol=2e-6)
    check_nests(function, samples[0])
    made = quantize_model(path, samples[:20], Recipe("minmax"))
    assert made.explain(samples[20:]).output_sqnr_db > 34
    (tmp_path / "q.onnx").write_bytes(qdq_bytes(made))
    back, oracle = import_model(tmp_path / "q.onnx").main, open_oracle(tmp_path / "q.onnx")
    integers = run_passes(back, "onnx")
    assert "integer_norm" in {node.op.name for node in integers.nodes}
    step = made.integers.nodes[-1].inputs[0].type.scalar_quant()[0]
    for sample in samples[:8]:
        (mine,) = interpret(integers, sample)
        assert np.array_equal(mine, interpret(made.integers, sample)[0])
        assert np.abs(mine - oracle.run(sample).outputs[0]).max() < 1.01 * step


def test_other_normalizations_stay_as_they_are(tmp_path: Path) -> None:
    b = OnnxBuilder(4, (6, 8))
    square = b.add("Mul", ["x", "x"])
    root = b.add("Sqrt", [b.add("ReduceMean", [square], axes=[0])])  # no epsilon, another axis
    path = b.save(b.add("Div", ["x", root]), tmp_path / "m.onnx")
    assert "rms_norm" not in {node.op.name for node in float_function(path).nodes}


def test_types() -> None:
    op, x = get_op(RmsNorm), TensorType((2, 3), "float32")
    with pytest.raises(TypeMismatch, match="rms_norm of"):
        op.infer(RmsNormAttrs(), x, TensorType((2,), "float32"))
