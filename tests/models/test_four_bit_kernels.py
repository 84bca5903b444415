"""Weights of four bits on the kernels of the DSP extension: the same bits, in half the flash."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from built_models import build
from onnx import numpy_helper
from quantized_cases import int4
from quantized_files import qdq_bytes
from tflite_builder import TfliteBuilder

from edgec import ops
from edgec.boards.board import load_board
from edgec.deploy.measure import BoardMeasure
from edgec.deploy.project import figures_of
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import TensorType
from edgec.loop.microkernel import get_microkernel, kernels_of, meaning_of
from edgec.ops.clip import ClipAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.options import Limits, Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import Compiled, compile_model
from edgec.quantizer.mixed_weights import mix
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

BOARD = "mps2_an386"
#: Instructions of a kernel that reads int4, at most, as a multiple of the int8 kernel's.
MOST_SLOWDOWN = 1.12

ops.load()


def network() -> Function:
    """Convolutions and dense layers with odd numbers of channels, ReLUs after most."""
    rng = np.random.default_rng(6)
    b = GraphBuilder()
    y = b.param("x", TensorType((1, 16, 16, 3), "float32"))

    def layer(op: str, shape: tuple[int, ...], attrs: object = None, relu: bool = True) -> None:
        nonlocal y
        w = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        bias = 0.1 * rng.standard_normal(shape[0])
        operands = [y, *(b.constant(n, a.astype(np.float32)) for n, a in (("w", w), ("b", bias)))]
        y = b.op(op, operands, *([] if attrs is None else [attrs]), name=f"{op}{shape[0]}")
        if relu:
            y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name=f"relu{shape[0]}")

    padded = ((1, 1), (1, 1))
    layer("conv2d", (17, 3, 3, 3), Conv2dAttrs(padding=padded))
    layer("conv2d", (36, 1, 1, 17), Conv2dAttrs(), relu=False)
    layer("conv2d", (20, 3, 3, 36), Conv2dAttrs(stride=(2, 2), padding=padded))
    layer("conv2d", (16, 3, 3, 20), Conv2dAttrs(stride=(2, 2), padding=padded))
    y = b.op("reshape", [y], ReshapeAttrs((1, 256)), name="flat")
    layer("dense", (43, 256))
    layer("dense", (41, 43), relu=False)
    layer("dense", (5, 41), relu=False)
    return b.finish([y])


def deep_network() -> Function:
    """A convolution of windows, one of pixels and dense layers, whose inputs are many of 16."""
    rng = np.random.default_rng(7)
    b = GraphBuilder()
    y = b.param("x", TensorType((1, 16, 16, 3), "float32"))
    padding = ((1, 1), (1, 1))
    layers = (
        ("conv2d", (48, 3, 3, 3), Conv2dAttrs(padding=padding)),
        ("conv2d", (48, 1, 1, 48), Conv2dAttrs()),  # takes most memory
        ("conv2d", (33, 3, 3, 48), Conv2dAttrs((2, 2), padding=padding)),
        ("conv2d", (32, 1, 1, 33), Conv2dAttrs()), ("conv2d", (64, 1, 1, 32), Conv2dAttrs((4, 4))),
        ("dense", (45, 256), None), ("dense", (7, 45), None),
    )  # fmt: skip
    for number, (op, shape, attrs) in enumerate(layers):
        if op == "dense" and len(y.type.shape) > 2:
            y = b.op("reshape", [y], ReshapeAttrs((1, shape[1])), name="flat")
        # Parts that differ in range, so that groups have different shifts.
        ranges = np.repeat(2.0 ** rng.integers(-3, 1, (shape[0], shape[-1])), 24, axis=1)
        ranges = ranges[:, : shape[-1]].reshape(shape[0], *[1] * (len(shape) - 2), shape[-1])
        w = rng.standard_normal(shape) * ranges / np.sqrt(np.prod(shape[1:]))
        w = w.astype(np.float32)
        operands = [y, b.constant("w", w), b.constant("b", np.zeros(shape[0], np.float32))]
        y = b.op(op, operands, *([] if attrs is None else [attrs]), name=f"{op}{number}")
        y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name=f"relu{number}")
    return b.finish([y])


def images(count: int, seed: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [[x] for x in rng.standard_normal((count, 1, 16, 16, 3)).astype(np.float32)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("four_bit_kernels")


def made(weights: str) -> PostTraining:
    return quantize_function(
        network(), images(24, 1), Recipe("mse", weights=weights, equalize="never")
    )


@pytest.fixture(scope="module")
def four(folder: Path) -> tuple[PostTraining, Path]:
    found = made("int4")
    (folder / "four.onnx").write_bytes(qdq_bytes(found))
    return found, folder / "four.onnx"


@pytest.fixture(scope="module")
def eight(folder: Path) -> tuple[PostTraining, Path]:
    found = made("int8")
    (folder / "eight.onnx").write_bytes(qdq_bytes(found))
    return found, folder / "eight.onnx"


def used_by(compiled: Compiled) -> set[str]:
    return {name for variant in compiled.chosen for name in kernels_of(variant.function)}


def in_bytes(path: Path, to: Path) -> Path:
    """The same integers as INT8, on which ONNX Runtime computes in integers, too."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT4:
            array = numpy_helper.to_array(tensor).astype(np.int8)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(model, to)
    return to


def require_core() -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")


def test_the_oracles_bits_in_less_flash(
    four: tuple[PostTraining, Path], eight: tuple[PostTraining, Path], folder: Path
) -> None:
    require_core()
    compiled, built = build(four[1], BOARD, "gcc")
    assert "ec_matrix_4_s4_onnx_s8_dsp" in used_by(compiled)
    assert {"ec_matrix_1_s4_onnx_s8_dsp", "ec_matrix_1_plain_s4_onnx_s8_dsp"} & used_by(compiled)
    oracle = open_oracle(in_bytes(four[1], folder / "four_in_bytes.onnx"))
    with open_session("core", built) as session:
        assert session.selftest() == 0
        for sample in images(4, 2):
            (found,) = session.run(sample).outputs
            assert np.array_equal(found, interpret(four[0].integers, sample)[0])
            assert np.array_equal(found, oracle.run(sample).outputs[0])
    short = figures_of(built, measured=True)
    whole = figures_of(build(eight[1], BOARD, "gcc")[1], measured=True)
    weights = sum(w.data.size for w in four[0].scheme.weights.values())
    assert short.flash_bytes <= whole.flash_bytes - 0.4 * weights
    assert short.instructions is not None and whole.instructions is not None
    assert short.instructions <= MOST_SLOWDOWN * whole.instructions
    assert short.ram_bytes <= whole.ram_bytes


def test_for_time_they_are_bytes(four: tuple[PostTraining, Path]) -> None:
    core = load_board(BOARD).core
    names = used_by(compile_model(four[1], core, Options(optimize="time"), board_name=BOARD))
    assert "ec_matrix_4_onnx_s8_dsp" in names
    assert {get_microkernel(name).weight_bits for name in names} == {8}


def test_a_mix_keeps_a_limit_of_flash(eight: tuple[PostTraining, Path]) -> None:
    """Which none of eight bits keeps: builds know what estimates leave out, unused kernels."""
    require_core()
    whole = figures_of(build(eight[1], BOARD, "gcc")[1], measured=False)
    limit = whole.flash_bytes - 6000
    limits, options = Limits(flash_bytes=limit), Options(compiler="gcc")
    measure = BoardMeasure(load_board(BOARD), limits, options)
    mixed = mix(eight[0], measure=measure)
    assert mixed.figures is not None and mixed.figures.flash_bytes <= limit
    assert sum(layer.bits == 4 for layer in mixed.layers) > 0


@pytest.mark.parametrize(("board", "engine", "optimize", "saved", "wanted"), [
    # Where flash is dear: bytes are faster.
    (BOARD, "core", "time=1,flash=1", 0.4,
     {"ec_matrix_4_groups_onnx_s8_dsp", "ec_matrix_1_groups_onnx_s8_dsp"}),
    # Where groups of 24 inputs keep their bytes.
    ("mps3_an547", "qemu", "balanced", 0.2, {"ec_dense_groups_onnx_s8_mve"}),
])  # fmt: skip
def test_groups_are_four_bits_and_shifts(
    folder: Path, board: str, engine: str, optimize: str, saved: float, wanted: set[str]
) -> None:
    require_core()
    if engine == "qemu" and shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    recipe = Recipe("mse", weights="int4", equalize="never", group=32)
    path = folder / "groups.onnx"
    quantized = quantize_function(deep_network(), images(12, 1), recipe)
    path.write_bytes(qdq_bytes(quantized))
    compiled, built = build(path, board, "gcc", optimize=optimize)
    names = {name.replace("_plain", "") for name in used_by(compiled)}
    assert wanted <= names
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        for sample in images(3, 2):
            (found,) = session.run(sample).outputs
            assert np.array_equal(found, interpret(quantized.integers, sample)[0])
    in_time = compile_model(path, load_board(board).core, Options(optimize="time"))
    weights = sum(w.data.size for w in quantized.scheme.weights.values())
    constants = [sum(v.constant_bytes for v in found.chosen) for found in (in_time, compiled)]
    assert constants[0] - constants[1] >= saved * weights


def test_they_mean_what_those_for_bytes_mean() -> None:
    for name in ("matrix_4", "matrix_3", "matrix_1", "matrix_1_plain"):
        for rounding in ("", "_onnx"):
            kernel = get_microkernel(f"ec_{name}_s4{rounding}_s8_dsp")
            other = get_microkernel(f"ec_{name}{rounding}_s8_dsp")
            assert (kernel.weight_bits, other.weight_bits) == (4, 8)
            numbers = (4, 6, 3, 0)[: len(other.sizes)]  # that for bytes may have a shift, too
            assert meaning_of(kernel, (4, 6, 3)) == meaning_of(other, numbers)


def layers_of_four_bits(rng: np.random.Generator) -> bytes:
    """Convolutions and a dense layer as TFLite has them; the first takes most memory."""
    model = TfliteBuilder()
    x = model.tensor("x", (1, 9, 7, 12), "int8", scale=0.05, zero_point=3)

    def operands(source: int, shape: tuple[int, ...], step: float) -> list[int]:
        weights = int4(rng.integers(-8, 8, shape).astype(np.int8))
        bias = rng.integers(-2000, 2000, shape[0]).astype(np.int32)
        w = model.tensor("w", shape, "int4", scale=[0.01], zero_point=[0], data=weights)
        b = model.tensor("b", shape[:1], "int32", scale=[0.01 * step], zero_point=[0], data=bias)
        return [source, w, b]

    def convolution(source: int, depth: int, channels: int, step: float, stride: int) -> int:
        shape = (1, -(-9 // stride), -(-7 // stride), channels)
        to = model.tensor("y", shape, "int8", scale=0.1, zero_point=-128)
        model.operator(
            "CONV_2D", operands(source, (channels, 1, 1, depth), step), [to], "Conv2DOptions",
            Padding=0, StrideH=stride, StrideW=stride, DilationHFactor=1, DilationWFactor=1,
            FusedActivationFunction=1,
        )  # fmt: skip
        return to

    small = convolution(convolution(x, 12, 48, 0.05, 1), 48, 15, 0.1, 2)
    z = model.tensor("z", (1, 35), "int8", scale=0.1, zero_point=7)
    model.operator(
        "FULLY_CONNECTED", operands(small, (35, 300), 0.1), [z], "FullyConnectedOptions",
        FusedActivationFunction=0, KeepNumDims=False,
    )  # fmt: skip
    return model.build([x], [z])


def test_rounding_of_tflite(tmp_path: Path) -> None:
    require_core()
    path = tmp_path / "four.tflite"
    path.write_bytes(layers_of_four_bits(np.random.default_rng(8)))
    compiled, built = build(path, BOARD, "gcc", optimize="time=1,flash=3")
    names = used_by(compiled)
    assert "ec_matrix_4_s4_s8_dsp" in names
    assert {"ec_matrix_1_s4_s8_dsp", "ec_matrix_1_plain_s4_s8_dsp"} & names
    oracle = open_oracle(path)
    with open_session("core", built) as session:
        assert session.selftest() == 0
        for seed in range(4):
            inputs = generate_inputs(seed, [((1, 9, 7, 12), "int8")])
            (found,) = session.run(inputs).outputs
            assert np.array_equal(found, oracle.run(inputs).outputs[0])
            assert len(np.unique(found)) > 10
