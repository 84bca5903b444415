"""Transposes of convolutions over one axis: none between layers, and what follows stays beside."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder
from quantized_files import float_function, quantize_model

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.traits import Movement
from edgec.graph.types import TensorType
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.transpose import transposed
from edgec.passes.sequence import run_passes
from edgec.passes.sink_transposes import sink_transposes


def tcn(folder: Path, batch: int = 1) -> Path:
    """Three causal convolutions with gaps, ReLU and sums around, and a product in front."""
    b = OnnxBuilder(1, (batch, 8, 20))
    value = "x"
    for number in range(3):
        w = b.constant(b.rng.normal(0, 0.3, (8, 8, 3)).astype(np.float32), "w")
        pads, dilations = [2 << number, 0], [1 << number]
        made = b.add("Relu", [b.add("Conv", [value, w], pads=pads, dilations=dilations)])
        value = b.add("Add", [made, value]) if number else made
    return b.save(value, folder / "m.onnx")


def moves(nodes: list) -> list[int]:
    """Where nodes transpose."""
    return [n for n, node in enumerate(nodes) if node.op.movement is Movement.PERMUTE]


@pytest.mark.parametrize("batch", [1, 3])
def test_layers_over_one_axis_have_no_transposes_between(batch: int, tmp_path: Path) -> None:
    oracle = pytest.importorskip("edgec.oracle.frameworks")
    path = tcn(tmp_path, batch)
    function = float_function(path)
    layers = [n for n, node in enumerate(function.nodes) if node.op.products is not None]
    assert len(layers) == 3
    assert all(at < layers[0] or at > layers[-1] for at in moves(list(function.nodes)))
    for first, second in pairwise([*layers, len(function.nodes)]):
        kinds = [node.op.name for node in function.nodes[first:second]]
        assert kinds[1] == "clip"  # where it becomes a part of the layer
    x = np.random.default_rng(0).normal(size=(batch, 8, 20)).astype(np.float32)
    (wanted,) = oracle.open_oracle(path).run([x]).outputs
    np.testing.assert_allclose(interpret(function, [x])[0], wanted, rtol=0, atol=1e-5)


def test_integers_have_no_tables_between_layers_over_one_axis(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    samples = [[rng.normal(size=(1, 8, 20)).astype(np.float32)] for _ in range(8)]
    nodes = quantize_model(tcn(tmp_path), samples).integers.nodes
    assert "lookup" not in [node.op.name for node in nodes]
    assert len(moves(list(nodes))) == 2


@pytest.mark.parametrize("seed", range(40))
def test_views_of_transposed_values_keep_every_element(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 1, 2, 3, 4], rng.integers(2, 5)))
    order = tuple(int(n) for n in rng.permutation(len(shape)))
    after = [shape[axis] for axis in order if shape[axis] != 1]
    for _ in range(int(rng.integers(0, 3))):
        after.insert(int(rng.integers(len(after) + 1)), 1)
    b = GraphBuilder()
    x = b.param("x", TensorType(shape, "float32"))
    view = b.op("reshape", [transposed(b, x, order, "t")], ReshapeAttrs(tuple(after)), name="v")
    function = b.finish([b.op("neg", [view], name="y")])
    data = rng.normal(size=shape).astype(np.float32)
    (wanted,) = interpret(function, [data])
    for made in (sink_transposes(function), run_passes(function, "onnx")):
        (found,) = interpret(made, [data])
        np.testing.assert_array_equal(found, wanted)
