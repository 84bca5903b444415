"""int16 for some values among int8: what is stored how, in the graph, in the file and in C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from quantized_files import qdq_bytes
from small_network import images, network

import edgec
from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Value
from edgec.graph.types import Quant, TensorType
from edgec.loop.microkernel import kernels_of
from edgec.ops.add import AddAttrs
from edgec.ops.avg_pool2d import AvgPool2dAttrs
from edgec.ops.clip import ClipAttrs
from edgec.ops.concat import ConcatAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.quantize import QuantizeAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function


@pytest.fixture(scope="module", params=["second", "relu2"])  # by the layer, or by what it makes
def made(request: pytest.FixtureRequest) -> PostTraining:
    recipe = Recipe("minmax", int16=("x", request.param, "fourth"))
    return quantize_function(network(), images(30), recipe)


def test_products_read_and_write_either(made: PostTraining) -> None:
    """The input and what is made of it by moving share parameters, and so the dtype."""
    stored = {value.name: stored.dtype for value, stored in made.quantized.stored.items()}
    assert stored == {
        "x": "int16", "last": "int16", "relu1": "int8", "relu2": "int16", "relu3": "int8",
        "flat": "int8", "fourth": "int16",
    }  # fmt: skip
    layers = [node for node in made.integers.nodes if node.op.name == "requantize"]
    assert [node.output.type.dtype for node in layers] == ["int8", "int16", "int8", "int16"]
    assert [node.attrs.rounding for node in layers] == ["tflm16", "onnx", "tflm16", "onnx"]
    floats = [node.op.name for node in made.integers.nodes if node.output.type.is_float]
    assert floats == ["transpose", "dequantize"]  # the input's, and the result


def test_it_is_nearer_to_float_than_int8(made: PostTraining) -> None:
    samples = images(30, seed=6)
    narrow = quantize_function(network(), images(30), Recipe("minmax"))
    whole = quantize_function(network(), images(30), Recipe(activations="int16"))
    found = [each.explain(samples).output_sqnr_db for each in (narrow, made, whole)]
    assert found[0] + 10.0 < found[1] < found[2]


@pytest.mark.parametrize("board", ["host", "sim_m0", "mps2_an386"])
def test_the_file_and_c_give_the_same(made: PostTraining, board: str, tmp_path: Path) -> None:
    path = tmp_path / "some.onnx"
    path.write_bytes(qdq_bytes(made))
    back = run_passes(import_model(path).main, "onnx")
    with edgec.compile(path, board=board) as model:
        for sample in images(3, seed=8):
            expected = interpret(made.integers, sample)[0]
            assert np.array_equal(interpret(back, sample)[0], expected)
            assert np.array_equal(model.run(*sample), expected)


def meeting() -> Function:
    """A sum, a product with a constant and a concat, behind convolutions and a mean."""
    rng = np.random.default_rng(2)
    b = GraphBuilder()

    def convolution(x: Value, name: str) -> Value:
        weights = rng.standard_normal((4, 1, 1, x.type.shape[3]))
        weights = b.constant("w", weights.astype(np.float32))
        bias = b.constant("b", rng.standard_normal(4).astype(np.float32))
        return b.op("conv2d", [x, weights, bias], Conv2dAttrs(), name=name)

    x = b.param("x", TensorType((1, 6, 6, 4), "float32"))
    one, other = convolution(x, "one"), convolution(x, "other")
    both = b.op("add", [one, other], AddAttrs(), name="sum")
    both = b.op("clip", [both], ClipAttrs(0.0, np.inf), name="relu")
    factors = b.constant("factors", rng.uniform(0.5, 2.0, (1, 1, 1, 4)).astype(np.float32))
    scaled = b.op("mul", [both, factors], MulAttrs(), name="scaled")
    mean = b.op("avg_pool2d", [scaled], AvgPool2dAttrs((6, 6), (1, 1)), name="mean")
    joined = b.op("concat", [convolution(mean, "three"), mean], ConcatAttrs(3), name="joined")
    return b.finish([convolution(joined, "last")])


def alternating() -> Function:
    """Products of every kind, each of which is to write another dtype than it reads."""
    rng = np.random.default_rng(3)
    b = GraphBuilder()

    def constants(*shape: int, channels: int) -> list[Value]:
        data = rng.standard_normal(shape) / np.sqrt(np.prod(shape) / channels)
        bias = 0.1 * rng.standard_normal(channels)
        return [b.constant("w", data.astype(np.float32)), b.constant("b", bias.astype(np.float32))]

    around = ((1, 1), (1, 1))
    y = b.param("x", TensorType((1, 6, 6, 4), "float32"))
    y = b.op("conv2d", [y, *constants(8, 3, 3, 4, channels=8)], Conv2dAttrs(padding=around),
             name="one")  # fmt: skip
    y = b.op("depthwise_conv2d", [y, *constants(3, 3, 8, channels=8)],
             DepthwiseConv2dAttrs(padding=around), name="two")  # fmt: skip
    y = b.op("conv2d", [y, *constants(12, 1, 1, 8, channels=12)], Conv2dAttrs(), name="three")
    y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name="relu")
    y = b.op("conv2d", [y, *constants(8, 3, 3, 12, channels=8)],
             Conv2dAttrs(padding=around), name="four")  # fmt: skip
    y = b.op("reshape", [y], ReshapeAttrs((1, 288)), name="flat")
    y = b.op("dense", [y, *constants(18, 288, channels=18)], name="five")
    y = b.op("clip", [y], ClipAttrs(0.0, 1.5), name="limited")
    y = b.op("reshape", [y], ReshapeAttrs((1, 3, 3, 2)), name="square")
    y = b.op("conv2d", [y, *constants(9, 3, 3, 2, channels=9)], Conv2dAttrs(padding=around),
             name="six")  # fmt: skip
    return b.finish([b.op("dense", [
        b.op("reshape", [y], ReshapeAttrs((1, 81)), name="end"), *constants(5, 81, channels=5)
    ], name="seven")])  # fmt: skip


#: Every second product of the network, from the first on.
ODD_ONES = ("one", "three", "five", "seven")


@pytest.mark.parametrize(
    ("board", "engine", "names", "kernels"),
    [
        ("host", None, ODD_ONES, set()),
        ("mps2_an386", "core", ODD_ONES, {
            "ec_matrix_3_onnx_s8_s16_dsp", "ec_matrix_1_onnx_s8_s16_dsp", "ec_matrix_1_s16_s8_dsp",
            "ec_gather_window_s16", "ec_depthwise_windows_s16_s8_dsp",
        }),
        ("mps3_an547", "qemu", ODD_ONES, {
            "ec_conv_onnx_s8_s16_mve", "ec_depthwise_s16_s8_mve", "ec_conv_s16_s8_mve",
            "ec_dense_onnx_s8_s16_mve",
        }),
        ("mps3_an547", "qemu", ("two", "four"), {"ec_depthwise_onnx_s8_s16_mve"}),
    ],
)  # fmt: skip
def test_products_that_change_the_dtype_run_on_kernels(
    board: str, engine: str | None, names: tuple[str, ...], kernels: set[str], tmp_path: Path
) -> None:
    recipe = Recipe("minmax", int16=names)
    made = quantize_function(alternating(), tensors(20), recipe)
    (path := tmp_path / "alternating.onnx").write_bytes(qdq_bytes(made))
    with edgec.compile(path, board=board, engine=engine, optimize="time") as model:
        used = {n for variant in model.compiled.chosen for n in kernels_of(variant.function)}
        assert kernels <= used
        for sample in tensors(4, seed=8):
            assert np.array_equal(model.run(*sample), interpret(made.integers, sample)[0])


@pytest.mark.parametrize(
    ("recipe", "kernel"),
    [
        (Recipe("minmax", activations="int16"), "ec_matrix_1_tail_s16_dsp"),
        (Recipe("minmax", int16=("first",)), "ec_matrix_1_tail_s16_s8_dsp"),
    ],
    ids=["int16", "some"],
)
def test_inputs_that_are_no_multiple_of_four(recipe: Recipe, kernel: str, tmp_path: Path) -> None:
    """Windows of 45 inputs of int16, whose kernels take more code than loops: for time alone."""
    rng = np.random.default_rng(4)
    b = GraphBuilder()
    y = b.param("x", TensorType((1, 6, 6, 4), "float32"))
    for name, channels in (("first", 5), ("second", 16)):
        weights = rng.standard_normal((channels, 3, 3, y.type.shape[3])).astype(np.float32)
        bias = rng.standard_normal(channels).astype(np.float32)
        operands = [y, b.constant("w", weights), b.constant("b", bias)]
        y = b.op("conv2d", operands, Conv2dAttrs(padding=((1, 1), (1, 1))), name=name)
    made = quantize_function(b.finish([y]), tensors(20), recipe)
    (path := tmp_path / "odd.onnx").write_bytes(qdq_bytes(made))
    for optimize in ("time", "balanced"):
        with edgec.compile(path, board="mps2_an386", engine="core", optimize=optimize) as model:
            used = {n for variant in model.compiled.chosen for n in kernels_of(variant.function)}
            assert (kernel in used) == (optimize == "time")
            for sample in tensors(4, seed=8):
                assert np.array_equal(model.run(*sample), interpret(made.integers, sample)[0])


def tensors(count: int, seed: int = 0) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [[rng.normal(1, 2, (1, 6, 6, 4)).astype(np.float32)] for _ in range(count)]


@pytest.mark.parametrize(
    ("names", "wide"),
    [
        (("one",), {"one"}),
        (("sum",), {"relu"}),
        (("relu", "other"), {"relu", "other"}),
        (("scaled",), {"scaled", "mean", "three", "joined"}),
        (("three",), {"scaled", "mean", "three", "joined"}),
    ],
)
def test_what_meets_is_int16_and_what_shares_too(
    names: tuple[str, ...], wide: set[str], tmp_path: Path
) -> None:
    """A mean of int16 has the scale of what it is of; int8 in a sum of int16 is widened."""
    made = quantize_function(meeting(), tensors(20), Recipe("minmax", int16=names))
    stored = {value.name: stored.dtype for value, stored in made.quantized.stored.items()}
    assert {name for name, dtype in stored.items() if dtype == "int16"} == wide
    for node in made.integers.nodes:
        if node.op.name in ("add", "mul"):
            assert len({value.type.dtype for value in (*node.inputs, node.output)}) == 1
        assert not node.output.type.is_float or node.op.name == "dequantize"
    (path := tmp_path / "some.onnx").write_bytes(qdq_bytes(made))
    back = run_passes(import_model(path).main, "onnx")
    for board in ("host", "sim_m0"):
        with edgec.compile(path, board=board) as model:
            for sample in tensors(3, seed=8):
                expected = interpret(made.integers, sample)[0]
                assert np.array_equal(interpret(back, sample)[0], expected)
                assert np.array_equal(model.run(*sample), expected)


def test_onnxruntime_runs_the_file(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    made = quantize_function(meeting(), tensors(20), Recipe("minmax", int16=("sum", "three")))
    (path := tmp_path / "some.onnx").write_bytes(qdq_bytes(made))
    oracle = open_oracle(path)
    step = made.scheme.values[made.source.results[0]].quant.scale[0]
    for sample in tensors(10, seed=7):
        # It computes in float: factors of 15 bits make a few steps of 65,536.
        found = oracle.run(sample).outputs[0]
        np.testing.assert_allclose(interpret(made.integers, sample)[0], found, atol=8.01 * step)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (("int8", 0.02, -5), ("int16", 0.02 / 128, 0)),
        (("int16", 0.0003, 0), ("int8", 0.05, 17)),
        (("int16", 0.0003, 0), ("int16", 0.000417, 0)),
    ],
)
def test_a_pair_of_dequantize_and_quantize_is_one_requantize(
    given: tuple[str, float, int], taken: tuple[str, float, int], tmp_path: Path
) -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4099), "float32"))
    for place, (dtype, scale, zero_point) in enumerate((given, taken)):
        attrs = QuantizeAttrs(Quant((float(np.float32(scale)),), (zero_point,)), dtype)
        x = b.op("quantize", [x], attrs, name=f"q{place}")
        x = b.op("dequantize", [x], name=f"d{place}")
    function = b.finish([x])
    made = run_passes(function, "onnx")
    assert [node.op.name for node in made.nodes] == ["quantize", "requantize", "dequantize"]
    info = np.iinfo(given[0])
    stored = np.linspace(info.min, info.max, 4099).round() - given[2]
    sample = [(stored * np.float32(given[1])).astype(np.float32)[np.newaxis]]
    (wanted,), (found,) = interpret(function, sample), interpret(made, sample)
    # The pair divides floats: where that is near a half it may round otherwise.
    steps = np.abs(wanted - found) / np.float32(taken[1])
    assert steps.max() < 1.01 and np.count_nonzero(steps > 0.5) <= 0.01 * steps.size


def test_int8_is_widened_without_any_error() -> None:
    made = quantize_function(meeting(), tensors(20), Recipe("minmax", int16=("sum",)))
    widened = [
        n for n in made.integers.nodes if n.op.name == "requantize" and n.inputs[0].type.quant
    ]
    assert [node.inputs[0].type.dtype for node in widened] == ["int8", "int8", "int16"]
    assert [node.attrs.multiplier for node in widened] == [(128.0,), (128.0,), (1 / 128,)]
    every = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 64, 4)
    for node in widened[:2]:
        given, output = node.inputs[0].type, node.output.type
        types = [given.with_shape(every.shape)], [output.with_shape(every.shape)]
        (found,) = node.op.evaluate(node.attrs, [every], *types)
        (scale,), (zero_point,) = given.quant.scale, given.quant.zero_point
        exact = (every.astype(np.float64) - zero_point) * scale
        np.testing.assert_array_equal(found * output.quant.scale[0], exact)


def test_a_name_that_no_layer_has() -> None:
    with pytest.raises(EdgecError, match="there is no layer 'fifth' to store in int16") as error:
        quantize_function(network(), images(2), Recipe("minmax", int16=("fifth",)))
    assert "layer relu3" in error.value.details
    assert error.value.details.count("layer x") == 1  # stored as it comes, and channels last


@pytest.mark.parametrize("others", [{"activations": "int16"}, {"weights": "float16"}])
def test_it_is_for_layers_among_int8(others: dict[str, str]) -> None:
    words = r"int16 layers \(x\) cannot be combined with (activations int16|a model that)"
    with pytest.raises(EdgecError, match=words):
        Recipe(int16=("x",), **others)
