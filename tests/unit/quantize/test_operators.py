"""What becomes integers: a float network with an operator of every kind, and back from its file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder
from quantized_files import qdq_bytes, quantize_model

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import PostTraining, Recipe

#: The only floats of the integer form.
EDGES = {"quantize", "dequantize", "softmax"}


def integer_form(function: Function) -> Function:
    return run_passes(function, "onnx")


def ints(model: OnnxBuilder, *values: int) -> str:
    return model.constant(np.asarray(values, np.int64), "i")


def network(seed: int, path: Path) -> Path:
    """Branches joined, gated, padded, cut and averaged, with a function after each layer."""
    rng = np.random.default_rng(seed)
    model = OnnxBuilder(seed, (1, 3, 8, 10))

    def floats(*shape: int) -> str:
        scale = 1.0 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.3
        return model.constant(rng.normal(0, scale, shape).astype(np.float32), "w")

    def layer(x: str, outputs: int, inputs: int, extent: int = 3) -> str:
        weights = floats(outputs, inputs, extent, extent)
        return model.add("Conv", [x, weights, floats(outputs)], pads=[extent // 2] * 4)

    first = model.add("HardSwish", [layer("x", 6, 3)])
    second = model.add("LeakyRelu", [layer("x", 4, 3, 1)], alpha=0.1)
    y = model.add("Concat", [first, second], axis=1)
    gate = model.add("ReduceMean", [y], axes=[2, 3], keepdims=1)
    gate = model.add("Sigmoid", [layer(gate, 10, 10, 1)])
    y = model.add("Mul", [y, gate])
    y = model.add("Mul", [y, floats(1, 10, 1, 1)])
    value = model.constant(np.float32(0.0), "v")
    y = model.add("Pad", [y, ints(model, 0, 0, 1, 0, 0, 0, 0, 2), value])
    y = model.add("Slice", [y, ints(model, 1, 1), ints(model, 9, 12), ints(model, 2, 3)])
    y = model.add("Sub", [y, floats(1, 10, 1, 1)])
    z = layer(y, 10, 10)
    z = model.add("Mul", [z, model.add("Sigmoid", [z])])
    y = model.add("Relu", [model.add("Add", [y, z])])
    y = model.add("Sub", [y, layer(y, 10, 10, 1)])
    y = model.add("PRelu", [y, floats(10, 1, 1)])
    size = ints(model, 1, 10, 9, 13)
    y = model.add("Resize", [y, "", "", size], mode="linear")
    size = ints(model, 1, 10, 8, 10)
    y = model.add("Resize", [y, "", "", size], mode="nearest", nearest_mode="floor",
                  coordinate_transformation_mode="asymmetric")  # fmt: skip
    y = model.add("MaxPool", [y], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    y = model.add("AveragePool", [y], kernel_shape=[2, 2], strides=[2, 2])
    y = model.add("Tanh", [y])
    y = model.add("Flatten", [y])
    y = model.add("Gemm", [y, floats(5, 10 * 4 * 5), floats(5)], transB=1)
    return model.save(model.add("Softmax", [y], axis=-1), path)


@pytest.fixture(
    scope="module", params=[0, *(pytest.param(n, marks=pytest.mark.full) for n in (1, 2))]
)
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[PostTraining, list[list[np.ndarray]]]:
    rng = np.random.default_rng(request.param)
    samples = [[rng.normal(0, 1, (1, 3, 8, 10)).astype(np.float32)] for _ in range(30)]
    path = network(request.param, tmp_path_factory.mktemp("float") / "m.onnx")
    return quantize_model(path, iter(samples[:20]), Recipe()), samples


def test_only_the_edges_and_the_softmax_stay_float(
    made: tuple[PostTraining, list[list[np.ndarray]]],
) -> None:
    nodes = integer_form(made[0].quantized.function).nodes
    floats = Counter(n.op.name for n in nodes if any(v.type.is_float for v in n.outputs))
    assert set(floats) <= EDGES and floats["dequantize"] == 1
    kinds = {node.op.name for node in nodes}
    assert {"lookup", "mul", "concat", "pad", "slice", "avg_pool2d", "add", "conv2d"} <= kinds
    assert {"prelu", "resize", "max_pool2d"} <= kinds


def test_it_is_close(made: tuple[PostTraining, list[list[np.ndarray]]]) -> None:
    result, samples = made
    assert result.explain(samples[20:]).output_sqnr_db > 25


def test_values_that_are_joined_share_parameters(
    made: tuple[PostTraining, list[list[np.ndarray]]],
) -> None:
    for node in integer_form(made[0].quantized.function).nodes:
        if node.op.name in ("concat", "pad", "slice"):
            assert {value.type.quant for value in node.inputs} == {node.output.type.quant}


def test_the_file_has_the_same_integers_and_onnxruntime_agrees(
    made: tuple[PostTraining, list[list[np.ndarray]]], tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    result, samples = made
    path = tmp_path / "quantized.onnx"
    path.write_bytes(qdq_bytes(result))
    direct, back = (integer_form(f) for f in (result.quantized.function, import_model(path).main))
    assert Counter(n.op.name for n in direct.nodes) == Counter(n.op.name for n in back.nodes)
    oracle = open_oracle(path)
    for sample in samples:
        (ours,), (again,) = interpret(direct, sample), interpret(back, sample)
        assert np.array_equal(ours, again)
        # Tables of float functions may differ by a step next to a tie, softmax in its last bits.
        np.testing.assert_allclose(ours, oracle.run(sample).outputs[0], atol=0.004)


@pytest.mark.parametrize("recipe", [Recipe(symmetric=True), Recipe(equalize="never")])
def test_other_recipes_are_close_too(recipe: Recipe, tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    samples = [[rng.normal(0, 1, (1, 3, 8, 10)).astype(np.float32)] for _ in range(20)]
    result = quantize_model(network(9, tmp_path / "m.onnx"), samples, recipe)
    assert result.explain(samples).output_sqnr_db > 25
    zero_points = {s.quant.zero_point for s in result.quantized.stored.values()}
    assert (zero_points == {(0,)}) == recipe.symmetric


@pytest.mark.parametrize("stride", [10, pytest.param(1, marks=pytest.mark.full)])
def test_each_operator_on_int16_is_no_further_off(stride: int, tmp_path: Path) -> None:
    """All values in int16, and some alone: a range of int8 left anywhere would show."""
    rng = np.random.default_rng(4)
    samples = [[rng.normal(0, 1, (1, 3, 8, 10)).astype(np.float32)] for _ in range(12)]
    path = network(4, tmp_path / "m.onnx")
    plain = Recipe("minmax", equalize="never", reconstruct=False)
    found = {"": quantize_model(path, samples, plain)}
    found["all"] = quantize_model(path, samples, replace(plain, activations="int16"))
    for value in list(found[""].quantized.stored)[::stride]:
        alone = replace(plain, int16=(value.name,))
        found[value.name] = quantize_model(path, samples, alone)
    decibels = {name: made.explain(samples).output_sqnr_db for name, made in found.items()}
    least = decibels[""]
    assert decibels["all"] > least + 6.0
    assert {n: d for n, d in decibels.items() if d < least - 1.5} == {}, decibels


def decoder(seed: int, path: Path) -> Path:
    """Convolution and transposed convolutions, with and without what is cut off."""
    rng = np.random.default_rng(seed)
    model = OnnxBuilder(seed, (1, 3, 8, 10))

    def floats(*shape: int) -> str:
        return model.constant(rng.normal(0, 0.25, shape).astype(np.float32), "w")

    y = model.add("Conv", ["x", floats(6, 3, 3, 3), floats(6)], strides=[2, 2], pads=[1, 1, 1, 1])
    y = model.add("Relu", [y])
    y = model.add("ConvTranspose", [y, floats(6, 5, 3, 3), floats(5)], strides=[2, 2],
                  pads=[1, 1, 1, 1], output_padding=[1, 1])  # fmt: skip
    y = model.add("Relu", [y])
    y = model.add("ConvTranspose", [y, floats(5, 2, 2, 2), floats(2)], strides=[2, 2])
    return model.save(model.add("Tanh", [y]), path)


@pytest.mark.parametrize(("recipe", "least_db"), [
    (Recipe("minmax", equalize="never"), 30), (Recipe(activations="int16"), 40),
    (Recipe("minmax", weights="int4"), 10),
])  # fmt: skip
def test_transposed_convolutions(recipe: Recipe, least_db: float, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    rng = np.random.default_rng(1)
    samples = [[rng.normal(0, 1, (1, 3, 8, 10)).astype(np.float32)] for _ in range(20)]
    result = quantize_model(decoder(3, tmp_path / "m.onnx"), samples[:12], recipe)
    path = tmp_path / "quantized.onnx"
    path.write_bytes(qdq_bytes(result))
    back = integer_form(import_model(path).main)
    floats = {n.op.name for n in back.nodes if any(v.type.is_float for v in n.outputs)}
    assert floats <= {"dequantize", "tanh", "reshape", "transpose"}
    assert result.explain(samples[12:]).output_sqnr_db > least_db
    oracle = open_oracle(path)
    for sample in samples[12:]:
        (ours,) = interpret(back, sample)
        np.testing.assert_allclose(ours, oracle.run(sample).outputs[0], atol=0.02)
