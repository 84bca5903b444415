"""Values of int16, weights of int8: near float, kept by the file, in the same bits everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from quantized_files import qdq_bytes
from small_network import images, network

import edgec
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.avg_pool2d import AvgPool2dAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.quantize import QuantizeAttrs
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function


@pytest.fixture(scope="module")
def made() -> PostTraining:
    return quantize_function(network(), images(40), Recipe(activations="int16"))


@pytest.fixture(scope="module")
def path(made: PostTraining, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("int16") / "int16.onnx"
    path.write_bytes(qdq_bytes(made))
    return path


def test_everything_runs_in_int16(made: PostTraining) -> None:
    layers = [node for node in made.integers.nodes if node.op.name == "requantize"]
    assert len(layers) == 4
    assert all(node.output.type.dtype == "int16" for node in layers)
    assert {node.attrs.rounding for node in layers} == {"tflm16"}


def test_it_is_nearer_to_float_than_int8(made: PostTraining) -> None:
    tests = images(30, seed=6)
    narrow = quantize_function(network(), images(40), Recipe("minmax"))
    found, other = (each.explain(tests).output_sqnr_db for each in (made, narrow))
    assert found > 37.0 and found > other + 10.0


def test_the_file_keeps_the_integers(made: PostTraining, path: Path) -> None:
    model = onnx.load(path)
    assert model.opset_import[0].version == 21
    kinds = {t.data_type for t in model.graph.initializer}
    assert onnx.TensorProto.INT16 in kinds
    back = run_passes(import_model(path).main, "onnx")
    for sample in images(10, seed=7):
        assert np.array_equal(interpret(made.integers, sample)[0], interpret(back, sample)[0])


def test_onnxruntime_runs_the_file(made: PostTraining, path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    oracle = open_oracle(path)
    step = made.scheme.values[made.source.results[0]].quant.scale[0]
    for sample in images(10, seed=7):
        # It computes in float: factors of 15 bits make a step or two of 65,536.
        found = oracle.run(sample).outputs[0]
        np.testing.assert_allclose(interpret(made.integers, sample)[0], found, atol=4.01 * step)


@pytest.mark.parametrize("board", ["host", "sim_m0", "mps2_an385", "mps2_an386"])
def test_the_same_bits_everywhere(made: PostTraining, path: Path, board: str) -> None:
    with edgec.compile(path, board=board) as model:
        for sample in images(3, seed=8):
            assert np.array_equal(model.run(*sample), interpret(made.integers, sample)[0])


def test_sums_and_products_are_those_of_int16() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 3, 4, 2), "float32"))
    z = b.param("z", TensorType((1, 3, 4, 2), "float32"))
    y = b.op("add", [x, z], AddAttrs(), name="sum")
    y = b.op("mul", [y, x], MulAttrs(), name="product")
    rng = np.random.default_rng(3)
    samples = [list(rng.standard_normal((2, 1, 3, 4, 2)).astype(np.float32)) for _ in range(20)]
    made = quantize_function(b.finish([y]), samples, Recipe(activations="int16"))
    names = [node.op.name for node in made.integers.nodes]
    assert names == ["quantize", "quantize", "add", "mul", "dequantize"]
    assert made.explain(samples).output_sqnr_db > 65.0


def test_means_keep_the_scale_of_what_they_are_of() -> None:
    """TFLite's mean of int16 has its input's scale, though means reach less far."""
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 8, 8, 4), "float32"))
    weights = b.constant("w", np.eye(4, dtype=np.float32).reshape(4, 1, 1, 4))
    y = b.op("conv2d", [x, weights, b.constant("b", np.zeros(4, np.float32))], Conv2dAttrs(),
             name="conv")  # fmt: skip
    y = b.op("avg_pool2d", [y], AvgPool2dAttrs((8, 8), (1, 1)), name="mean")
    function = b.finish([y])
    rng = np.random.default_rng(0)
    samples = [[rng.normal(1, 3, (1, 8, 8, 4)).astype(np.float32)] for _ in range(8)]
    made = quantize_function(function, samples, Recipe(activations="int16"))
    assert made.explain(samples).output_sqnr_db > 60.0
    pool = next(node for node in made.integers.nodes if node.op.name == "avg_pool2d")
    assert pool.inputs[0].type.quant == pool.output.type.quant


def test_a_mean_of_another_scale_is_no_mean_of_integers() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 2, 2, 1), "float32"))
    y = b.op("quantize", [x], QuantizeAttrs(Quant((0.01,), (0,)), "int16"), name="q1")
    y = b.op("dequantize", [y], name="d1")
    y = b.op("avg_pool2d", [y], AvgPool2dAttrs((2, 2), (1, 1)), name="mean")
    y = b.op("quantize", [y], QuantizeAttrs(Quant((0.002,), (0,)), "int16"), name="q2")
    function = b.finish([b.op("dequantize", [y], name="d2")])
    given = np.array([1.0, 2.0, 3.0, 6.0], np.float32).reshape(1, 2, 2, 1)
    (found,) = interpret(run_passes(function, "onnx"), [given])
    assert found.item() == pytest.approx(3.0, abs=0.002)
