"""Weights of four bits stay so in flash for the kernels of a Cortex-M55, with the same bits."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from quantized_files import qdq_bytes

import edgec
from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Value
from edgec.graph.types import TensorType
from edgec.loop.microkernel import get_microkernel, kernels_of
from edgec.ops.clip import ClipAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.options import Options
from edgec.pipeline import Compiled, compile_model
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function
from edgec.targets.core import find_core

ops.load()

SAME = Conv2dAttrs(padding=((1, 1), (1, 1)))


def network() -> Function:
    """Windows in columns and in rows, single pixels, a dense layer; odd channels, long runs."""
    rng = np.random.default_rng(3)
    b = GraphBuilder()

    def layer(op: str, y: Value, attrs: Conv2dAttrs | None, name: str, *shape: int) -> Value:
        data = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        bias = 0.1 * rng.standard_normal(shape[0])
        inputs = [y, b.constant(f"{name}_w", data.astype(np.float32)),
                  b.constant(f"{name}_b", bias.astype(np.float32))]  # fmt: skip
        return b.op(op, inputs, attrs, name=name) if attrs else b.op(op, inputs, name=name)

    def relu(y: Value, name: str) -> Value:
        return b.op("clip", [y], ClipAttrs(0.0, np.inf), name=name)

    y = b.param("x", TensorType((1, 16, 16, 3), "float32"))
    y = relu(layer("conv2d", y, SAME, "first", 20, 3, 3, 3), "relu1")
    y = relu(layer("conv2d", y, SAME, "second", 38, 3, 3, 20), "relu2")
    wide = Conv2dAttrs((4, 4))
    y = relu(layer("conv2d", y, wide, "third", 41, 4, 4, 38), "relu3")
    y = relu(layer("conv2d", y, Conv2dAttrs(), "fourth", 30, 1, 1, 41), "relu4")
    y = b.op("reshape", [y], ReshapeAttrs((1, 480)), name="flat")
    y = relu(layer("dense", y, None, "fifth", 26, 480), "relu5")
    return b.finish([layer("dense", y, None, "sixth", 9, 26)])


def samples(count: int, seed: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [[rng.standard_normal((1, 16, 16, 3)).astype(np.float32)] for _ in range(count)]


@cache
def quantized(weights: str, group: int = 0) -> PostTraining:
    recipe = Recipe(
        "minmax", weights=weights, equalize="never", reconstruct=False, correct_biases=False,
        group=group,
    )  # fmt: skip
    return quantize_function(network(), samples(8, 1), recipe)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("int4_weights")


def file_of(folder: Path, weights: str, group: int = 0) -> Path:
    path = folder / f"{weights}_{group}.onnx"
    if not path.exists():
        path.write_bytes(qdq_bytes(quantized(weights, group)))
    return path


def bits_of(compiled: Compiled) -> set[int]:
    """Of weights, by all kernels on MVE that products are in."""
    called = {name for v in compiled.chosen for name in kernels_of(v.function)}
    called |= {n for v in compiled.chosen for f in v.callees.values() for n in kernels_of(f)}
    kernels = [get_microkernel(name) for name in called if name.endswith("_mve")]
    return {kernel.weight_bits for kernel in kernels if kernel.stream}


@pytest.mark.parametrize("optimize", ["balanced", "ram"])
def test_they_halve_what_weights_take(folder: Path, optimize: str) -> None:
    reports = {}
    for weights in ("int8", "int4"):
        made = quantized(weights)
        with edgec.compile(
            file_of(folder, weights), board="mps3_an547", optimize=optimize
        ) as model:
            for sample in samples(2, 8):
                assert np.array_equal(model.run(*sample), interpret(made.integers, sample)[0])
            reports[weights] = model.report
    stored = sum(w.data.size for w in quantized("int4").scheme.weights.values())
    saved = reports["int8"]["weights_bytes"] - reports["int4"]["weights_bytes"]
    assert 0.45 * stored < saved < 0.6 * stored  # inputs of runs are padded to slices
    code = reports["int4"]["code_bytes"] - reports["int8"]["code_bytes"]
    assert code < 400
    assert reports["int4"]["arena_bytes"] == reports["int8"]["arena_bytes"]


@pytest.mark.parametrize(
    ("weights", "group", "optimize", "bits"),
    [("int8", 0, "balanced", {8}), ("int4", 0, "balanced", {4}), ("int4", 0, "ram", {4}),
     ("int4", 0, "time", {8}), ("int4", 32, "balanced", {4, 8}), ("int4", 32, "time", {8})],
)  # fmt: skip
def test_kernels_of_levels(
    folder: Path, weights: str, group: int, optimize: str, bits: set[int]
) -> None:
    """`time` takes the fastest; groups have to be whole slices of 16 inputs."""
    path = file_of(folder, weights, group)
    compiled = compile_model(path, find_core("cortex-m55"), Options(optimize=optimize))  # type: ignore[arg-type]
    assert bits_of(compiled) == bits
