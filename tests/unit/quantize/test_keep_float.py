"""Layers that stay in float: in the graph, in the file and in C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from quantized_files import qdq_bytes
from small_network import images, network

import edgec
from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function


@pytest.fixture(scope="module", params=["second", "relu2"])  # by the node, or by the clip after it
def made(request: pytest.FixtureRequest) -> PostTraining:
    recipe = Recipe("minmax", keep_float=(request.param, "fourth"))
    return quantize_function(network(), images(30), recipe)


def test_only_these_are_in_float(made: PostTraining) -> None:
    is_float = {
        node.name: node.output.type.is_float
        for node in made.integers.nodes
        if node.op.name in ("conv2d", "depthwise_conv2d", "dense")
    }
    assert is_float == {"first": False, "second": True, "third": False, "fourth": True}


def test_the_file_and_c_give_the_same(made: PostTraining, tmp_path: Path) -> None:
    path = tmp_path / "mixed.onnx"
    path.write_bytes(qdq_bytes(made))
    back = run_passes(import_model(path).main, "onnx")
    samples = images(3, seed=8)
    wanted = [interpret(made.integers, sample)[0] for sample in samples]
    for sample, expected in zip(samples, wanted, strict=True):
        assert np.array_equal(interpret(back, sample)[0], expected)
    for board in ("host", "sim_m0", "mps2_an386"):
        with edgec.compile(path, board=board, float_sums="ordered") as model:
            for sample, expected in zip(samples, wanted, strict=True):
                assert np.array_equal(model.run(*sample), expected)


def test_a_name_that_no_layer_has() -> None:
    with pytest.raises(EdgecError, match="there is no layer 'fifth' to keep in float") as error:
        quantize_function(network(), images(2), Recipe("minmax", keep_float=("fifth",)))
    assert "layer third" in error.value.details
