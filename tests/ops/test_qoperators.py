"""Operators of ONNX Runtime's QOperator format, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec.frontends import import_model
from edgec.frontends.onnx_qoperators import DOMAIN, QOPERATORS
from edgec.graph.interpret import Interpretation
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.targets.core import find_core

SHAPE = (2, 4, 6, 5)
STEP = np.float32(0.05)


class _Model:
    """One operator between QuantizeLinear of each input and DequantizeLinear of its output."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.rng = dtype, np.random.default_rng(0)
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []

    def constant(self, data: Any, dtype: str) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(data, dtype)
        return name

    def scale(self, scale: float, zero: int) -> list[str]:
        shift = 128 if self.dtype == "uint8" else 0
        return [self.constant(scale, "float32"), self.constant(zero + shift, self.dtype)]

    def value(
        self, shape: tuple[int, ...] = SHAPE, scale: float = 0.03, zero: int = 7
    ) -> list[str]:
        """A quantized input of the model, its scale and its zero point."""
        name, parameters = f"x{len(self.inputs)}", self.scale(scale, zero)
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.nodes.append(helper.make_node("QuantizeLinear", [name, *parameters], [f"{name}_q"]))
        return [f"{name}_q", *parameters]

    def weights(self, shape: tuple[int, ...], scales: Any) -> list[str]:
        numbers = self.rng.integers(-127, 128, shape)
        zeros = np.zeros(np.shape(scales))
        return [self.constant(numbers, "int8"), self.constant(scales, "float32"),
                self.constant(zeros, "int8")]  # fmt: skip

    def write(
        self, path: Path, kind: str, inputs: list[str], result: list[str], **given: Any
    ) -> None:
        domain = DOMAIN if f"{DOMAIN}.{kind}" in QOPERATORS else ""
        self.nodes += [
            helper.make_node(kind, inputs, ["y"], "node", domain=domain, **given),
            helper.make_node("DequantizeLinear", ["y", *result], ["out"]),
        ]
        graph = helper.make_graph(
            self.nodes, "g", self.inputs,
            [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(data, name) for name, data in self.constants.items()],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def _conv(m: _Model, scales: Any) -> tuple[list[str], dict[str, Any]]:
    x, w = m.value(), m.weights((8, 4, 3, 3), scales)
    return [*x, *w, *m.scale(STEP, -3), m.constant(m.rng.integers(-500, 500, 8), "int32")], {}


def _matmul(m: _Model, scales: Any) -> tuple[list[str], dict[str, Any]]:
    return [*m.value((6, 16)), *m.weights((16, 8), scales), *m.scale(STEP, -3)], {}


def _plain_matmul(m: _Model) -> tuple[list[str], dict[str, Any]]:
    """The first operand are integers as they are, the second was quantized."""
    x = m.constant(m.rng.integers(0, 100, (6, 16)), m.dtype)
    return [x, *m.scale(0.03, 7), *m.value((16, 8)), *m.scale(STEP, -3)], {}


def _gemm(m: _Model, scales: Any) -> tuple[list[str], dict[str, Any]]:
    x, w = m.value((6, 16)), m.weights((8, 16), scales)
    bias = m.constant(m.rng.integers(-500, 500, 8), "int32")
    return [*x, *w, bias, *m.scale(STEP, -3)], {"transB": 1}


def _two(m: _Model) -> tuple[list[str], dict[str, Any]]:
    return [*m.value(), *m.value((1, 4, 1, 1), 0.02, -1), *m.scale(STEP, -3)], {}


def _one(**given: Any) -> Callable[[_Model], tuple[list[str], dict[str, Any]]]:
    return lambda m: ([*m.value(), *m.scale(STEP, -3)], given)


def _concat(m: _Model) -> tuple[list[str], dict[str, Any]]:
    return [*m.scale(STEP, -3), *m.value(), *m.value((2, 3, 6, 5), 0.02, -1)], {"axis": 1}


def _where(m: _Model) -> tuple[list[str], dict[str, Any]]:
    chosen = m.constant(m.rng.integers(0, 2, SHAPE), "bool")
    return [chosen, *m.value(), *m.value(SHAPE, 0.02, -1), *m.scale(STEP, -3)], {}


SEVERAL = np.linspace(0.002, 0.009, 8)
#: Operators, their inputs and attributes, and by how many steps results may differ: ONNX Runtime
#: reads functions from tables, and adds up means, in floats.
CASES: dict[str, tuple[str, Callable[[_Model], tuple[list[str], dict[str, Any]]], int]] = {
    "conv": ("QLinearConv", lambda m: _conv(m, 0.005), 0),
    "conv by channel": ("QLinearConv", lambda m: _conv(m, SEVERAL), 0),
    "matmul": ("QLinearMatMul", lambda m: _matmul(m, 0.005), 0),
    "matmul by column": ("QLinearMatMul", lambda m: _matmul(m, SEVERAL), 0),
    "matmul of integers": ("QLinearMatMul", _plain_matmul, 0),
    "gemm": ("QGemm", lambda m: _gemm(m, 0.005), 0),
    "gemm by row": ("QGemm", lambda m: _gemm(m, SEVERAL), 0),
    "add": ("QLinearAdd", _two, 0),
    "mul": ("QLinearMul", _two, 0),
    "sigmoid": ("QLinearSigmoid", _one(), 1),
    "leaky relu": ("QLinearLeakyRelu", _one(alpha=0.2), 1),
    "softmax": ("QLinearSoftmax", _one(axis=1, opset=13), 1),
    "softmax before 13": ("QLinearSoftmax", _one(axis=1, opset=11), 1),
    "global mean": ("QLinearGlobalAveragePool", _one(), 1),
    "mean": ("QLinearAveragePool", _one(kernel_shape=[2, 2], strides=[2, 1]), 1),
    "concat": ("QLinearConcat", _concat, 0),
    "where": ("QLinearWhere", _where, 0),
}


def test_every_operator_has_a_case() -> None:
    kinds = {kind for kind, _, _ in CASES.values()}
    assert kinds == {name.rpartition(".")[2] for name in QOPERATORS}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("case", CASES)
def test_results(case: str, dtype: str, tmp_path: Path) -> None:
    """Of the reference, in floats as imported and in integers after the passes."""
    kind, make, steps = CASES[case]
    model, path = _Model(dtype), tmp_path / "m.onnx"
    inputs, given = make(model)
    result = inputs[:2] if kind == "QLinearConcat" else inputs[-2:]
    if kind == "QLinearConv":
        result = inputs[6:8]
    model.write(path, kind, inputs, result, **given)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    arrays = {
        entry.name: model.rng.normal(size=entry.shape).astype(np.float32) * 2
        for entry in session.get_inputs()
    }
    (expected,) = session.run(None, arrays)
    module = import_model(path)
    compiled = compile_module(module, find_core("cortex-m4"), Options()).module
    if (kind, dtype) == ("QLinearMul", "uint8"):  # it adds zero points in float32, ours less 128
        steps = 1
    for function, most in ((module.main, max(steps, 1)), (compiled.main, steps)):
        (found,) = Interpretation(function).run_whole(list(arrays.values()))
        assert np.abs(found - expected).max() <= most * STEP * 1.001


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_largest_of_stored_integers(dtype: str, tmp_path: Path) -> None:
    """ONNX Runtime's quantizer leaves MaxPool without scales, between integers."""
    model, path = _Model(dtype), tmp_path / "m.onnx"
    x, *parameters = model.value()
    window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    model.write(path, "MaxPool", [x], parameters, **window)
    x = model.rng.normal(size=SHAPE).astype(np.float32) * 2
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x0": x})
    module = import_model(path)
    compiled = compile_module(module, find_core("cortex-m4"), Options()).module
    assert [v.type.dtype for n in compiled.main.nodes if "max_pool" in n.op.name
            for v in n.inputs] == ["int8"]  # fmt: skip
    for function in (module.main, compiled.main):
        (found,) = Interpretation(function).run_whole([x])
        assert np.array_equal(found, expected)
