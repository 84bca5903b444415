"""lookup: functions between dequantize and quantize as tables, equal to ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder
from single_node import check_nests

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.ops.lookup import Lookup, LookupAttrs
from edgec.passes.fuse_qdq import fuse_qdq

Q = Quant((0.1,), (3,))
#: What stands between the two: ONNX kinds with their attributes, applied one after the other.
CHAINS: dict[str, list[tuple[str, dict[str, float]]]] = {
    "sigmoid": [("Sigmoid", {})],
    "tanh": [("Tanh", {})],
    "leaky": [("LeakyRelu", {"alpha": 0.2})],
    "hard_sigmoid": [("HardSigmoid", {"alpha": 0.3, "beta": 0.4})],
    "hard_swish": [("HardSwish", {})],
    "relu_of_other_scale": [("Relu", {})],
    "nothing": [],
    "exp_of_negative_abs": [("Abs", {}), ("Neg", {}), ("Exp", {})],
}


def chain_model(name: str, seed: int, path: Path) -> Path:
    """x -> int8 -> the chain in floats -> int8 -> float; all stored values are inputs."""
    rng = np.random.default_rng(seed)
    model = OnnxBuilder(seed, (256,))
    y = model.qdq("x", 0.05, int(rng.integers(-20, 20)))
    for kind, attributes in CHAINS[name]:
        y = model.add(kind, [y], **attributes)
    return model.save(model.qdq(y, float(rng.uniform(0.01, 0.04)), int(rng.integers(-9, 9))), path)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("seed", range(3))
def test_every_stored_value_is_as_in_onnxruntime(name: str, seed: int, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    path = chain_model(name, seed, tmp_path / "m.onnx")
    passed = fuse_qdq(import_model(path).main)
    assert [node.op.name for node in passed.nodes] == ["quantize", "lookup", "dequantize"]
    x = (np.arange(-128, 128) * 0.05).astype(np.float32)
    (mine,) = interpret(passed, [x])
    (theirs,) = open_oracle(path).run([x]).outputs
    # Functions differ in their last bits: next to a tie the result may be the neighbour's.
    steps = np.abs(mine - theirs) / passed.nodes[1].output.type.quant.scale[0]
    assert np.count_nonzero(steps > 0.5) <= 1 and steps.max() < 1.5
    check_nests(passed, [x])


def test_expressions_of_one_value_become_one_table(tmp_path: Path) -> None:
    model = OnnxBuilder(1, (256,))
    x = model.qdq("x", 0.05, 4)
    three, six = (model.constant(np.float32(v), "c") for v in (3, 6))
    gate = model.add(
        "Clip", [model.add("Add", [x, three]), model.constant(np.float32(0), "c"), six]
    )
    y = model.qdq(model.add("Div", [model.add("Mul", [x, gate]), six]), 0.05, -100)
    function = import_model(model.save(y, tmp_path / "m.onnx")).main
    passed = fuse_qdq(function)
    assert [node.op.name for node in passed.nodes] == ["quantize", "lookup", "dequantize"]
    inputs = [(np.arange(-128, 128) * 0.05).astype(np.float32)]
    assert np.array_equal(*interpret(function, inputs), *interpret(passed, inputs))


def test_two_sources_stay_in_float(tmp_path: Path) -> None:
    model = OnnxBuilder(1, (8,))
    x = model.qdq("x", 0.05, 4)
    other = model.qdq(model.add("Sigmoid", ["x"]), 0.01, -128)
    y = model.qdq(model.add("Sub", [x, other]), 0.05, 0)
    passed = fuse_qdq(import_model(model.save(y, tmp_path / "m.onnx")).main)
    assert "lookup" not in [node.op.name for node in passed.nodes]


@pytest.mark.parametrize(
    ("results", "x", "message"),
    [
        ((0,) * 255, TensorType((2,), "int8", Q), "256 results"),
        ((128,) * 256, TensorType((2,), "int8", Q), "does not fit in int8"),
        ((0,) * 256, TensorType((2,), "float32"), "needs int8"),
        ((0,) * 256, TensorType((2,), "int16", Q), "needs int8"),
    ],
)
def test_infer_refuses_what_has_no_meaning(
    results: tuple[int, ...], x: TensorType, message: str
) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Lookup().infer(LookupAttrs(results, Q), x)
