"""Chains of element-wise floats: one loop, few instructions on the M4, the reference's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.parser import parse_model
from sanitized import same

from edgec.api import compile as compile_model
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.passes.fuse_groups import fuse_groups

WEIGHTS = "float[32] w = {" + ", ".join(str(n / 8) for n in range(32)) + "}"
#: Nodes from x, z [16, 32] to y, and the most instructions of an element on the M4.
#: A loop for each node took 11.1, 11.1, 19.8, 17.8.
CHAINS = {
    "scaled": ("a = Mul(x, half) y = Add(a, z0)", 5.5),
    "by columns": ("a = Mul(x, w) y = Add(a, w)", 7.0),
    "four": ("a = Add(x, z) b = Relu(a) c = Mul(b, z) y = Sub(c, x)", 12.0),
    "squared": ("a = Sub(x, z) b = Mul(a, a) c = Sqrt(b) y = Div(c, half)", 12.0),
}
GROUPS = {
    "x and what is made before": ("b = Exp(z) a = Neg(x) y = Mul(a, b)", [1, 2]),
    "made later": ("a = Neg(x) b = Exp(z) y = Mul(a, b)", [1, 2]),
    "read twice": ("a = Neg(x) b = Exp(a) y = Mul(a, b)", [1, 2]),
    "repeated": ("a = Neg(row) y = Add(a, z)", [1, 1]),
    "row is repeated": ("a = Neg(z) y = Add(a, row)", [2]),
}


def chain(nodes: str, folder: Path) -> Path:
    path = folder / "m.onnx"
    text = f"""<ir_version: 9, opset_import: ["" : 17]>
        m (float[16,32] x, float[16,32] z, float[1,32] row) => (float[16,32] y)
        <{WEIGHTS}, float half = {{0.5}}, float z0 = {{0.25}}>
        {{ {nodes} }}"""
    path.write_bytes(parse_model(text).SerializeToString())
    return path


def numbers() -> list[np.ndarray]:
    """Signs, zeros, denormals, infinities and NaNs."""
    x, z = np.random.default_rng(1).normal(size=(2, 16, 32)).astype(np.float32)
    x[0, :6] = np.array([0, -0.0, 1e-40, -1e-40, np.inf, np.nan], np.float32)
    return [x, z, z[:1]]


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_takes_few_instructions(name: str, tmp_path: Path) -> None:
    nodes, most = CHAINS[name]
    path, inputs = chain(nodes, tmp_path), numbers()
    with compile_model(path, board="stm32", engine="core") as compiled:
        result = compiled.run_all(inputs)
    (expected,) = interpret(import_model(path).main, inputs)
    assert same(result.outputs[0], expected)
    assert result.instructions / expected.size < most


@pytest.mark.parametrize("name", GROUPS)
def test_what_joins_is_made_before_and_as_large(name: str, tmp_path: Path) -> None:
    nodes, sizes = GROUPS[name]
    function = import_model(chain(nodes, tmp_path)).main
    groups = fuse_groups(function)
    assert [len(group.nodes) for group in groups] == sizes
    assert is_in_order(function)


def is_in_order(function: Function) -> bool:
    """Whether each group reads only what groups before it make."""
    known = set(function.params)
    for group in fuse_groups(function):
        if not known.issuperset(group.activations):
            return False
        known.update(group.outputs)
    return True


def test_an_output_in_between_stays_one(tmp_path: Path) -> None:
    function = import_model(chain("a = Neg(x) y = Mul(a, z)", tmp_path)).main
    (first, last) = function.nodes
    both = function.with_nodes(function.nodes, (first.output, last.output))
    assert [len(group.nodes) for group in fuse_groups(function)] == [2]
    assert [len(group.nodes) for group in fuse_groups(both)] == [1, 1]
