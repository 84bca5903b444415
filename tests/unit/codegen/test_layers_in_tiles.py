"""Convolutions in tiles of Winograd: the bits of their nest, near ONNX Runtime, where they win."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from c_harness import run_emitted
from onnx_builder import OnnxBuilder
from sanitized import build_sanitized, cases, run_sanitized, write_sources

import edgec
from edgec.boards.board import load_board
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import Interpretation
from edgec.graph.types import TensorType
from edgec.loop.interpret import interpret
from edgec.ops import load
from edgec.ops.clip import ClipAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import Variant, lower_group
from edgec.pipeline import compile_model
from edgec.targets.core import find_core, native_core
from edgec.targets.target import target_for

load()

FREE = Options(float_sums="free")
Shape = tuple[int, int, int, int]


def variant(
    shape: Shape, channels: int, core: str, options: Options = FREE, stride: int = 1
) -> Variant:
    """A limited convolution of 3 x 3 on an image [n, height, width, inputs], with padding."""
    rng, b = np.random.default_rng(sum(shape)), GraphBuilder()
    x = b.param("x", TensorType(shape, "float32"))
    w = b.constant("w", rng.normal(0, 0.1, (channels, 3, 3, shape[3])).astype(np.float32))
    bias = b.constant("bias", rng.normal(0, 1, channels).astype(np.float32))
    attrs = Conv2dAttrs(padding=((1, 1), (0, 1)), stride=(stride, stride))
    sums = b.op("conv2d", [x, w, bias], attrs, name="sums")
    function = b.finish([b.op("clip", [sums], ClipAttrs(minimum=0.0), name="relu")])
    (group,) = fuse_groups(function)
    return lower_group(group, target_for(find_core(core), options)).variants[0]


def in_tiles(found: Variant) -> int:
    """Outputs along a side of a tile; 0 where there are none."""
    return next((s.args["outputs"] for s in found.schedule.trace if s.primitive == "winograd"), 0)


@pytest.mark.parametrize(
    ("shape", "channels", "core", "size"),
    [
        ((1, 15, 13, 8), 8, "x86-64-v3", 4),  # no whole tiles of rows
        ((2, 11, 10, 12), 16, "x86-64-v3", 4),  # of columns, vectors of four, two images
        ((1, 5, 6, 72), 8, "x86-64-v3", 2),  # many inputs
        ((1, 8, 8, 16), 16, "x86-64-v4", 4),
        ((1, 9, 9, 16), 8, "aarch64", 4),
    ],
)
def test_c_has_the_bits_of_its_nest(
    shape: Shape, channels: int, core: str, size: int, tmp_path: Path
) -> None:
    found = variant(shape, channels, core)
    assert in_tiles(found) == size
    x = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    given = {"x": x, **found.constants}
    spare = {p.name: np.zeros(p.shape, p.dtype) for p in found.function.params}
    expected = interpret(found.function, {**spare, **given})["out"]
    made = run_emitted(found.function, given, tmp_path)["out"]
    assert np.any(expected > 0) and made.tobytes() == expected.tobytes()


@pytest.mark.parametrize("core", ["x86-64-v3", "x86-64-v4+vnni", "aarch64"])
def test_they_are_taken_where_they_win(core: str) -> None:
    for side, channels, size in ((32, 16, 4), (16, 32, 4), (8, 64, 2)):
        assert in_tiles(variant((1, side, side, channels), channels, core)) == size
    ordered, two = replace(FREE, float_sums="ordered"), replace(FREE, threads=2)
    assert not in_tiles(variant((1, 32, 32, 16), 16, core, ordered))
    assert not in_tiles(variant((1, 32, 32, 16), 16, core, stride=2))
    assert not in_tiles(variant((1, 32, 32, 3), 16, core))  # inputs are no vectors
    assert not in_tiles(variant((1, 2, 2, 512), 512, core))  # weights come from far
    assert in_tiles(variant((1, 8, 8, 64), 64, core, two)) == 2


def test_resnet8_has_four(sample_model: Callable[[str], Path]) -> None:
    path = sample_model("mlperf_ic_resnet8_f32.tflite")
    compiled = compile_model(path, find_core("x86-64-v3"), FREE, board=load_board("host"))
    kept = [{buffer.name for buffer in step.function.allocs} for step in compiled.program.steps]
    assert sum("acc_back" in names for names in kept) == 4


def convolutions(seed: int, path: Path) -> Path:
    """Two convolutions of 3 x 3 on random sizes, a sum of both, PReLU between them."""
    rng = np.random.default_rng(seed)
    height, width = map(int, rng.integers(4, 20, 2))
    inputs, channels = (int(8 * rng.integers(1, 9)) for _ in range(2))
    b = OnnxBuilder(seed, (1, inputs, height, width))

    def weights(*shape: int) -> str:
        return b.constant(b.rng.normal(0, 0.1, shape).astype(np.float32), "w")

    first = b.add("Conv", ["x", weights(channels, inputs, 3, 3), weights(channels)],
                  pads=[1, 1, 1, 1])  # fmt: skip
    y = b.add("PRelu", [first, weights(channels, 1, 1)])
    y = b.add("Conv", [y, weights(channels, channels, 3, 3)], pads=[1, 1, 1, 1])
    return b.save(b.add("Relu", [b.add("Add", [y, first])]), path)


@pytest.mark.skipif(not native_core().has("avx2"), reason="this computer has no vectors of x86")
@pytest.mark.parametrize("seed", [0, 2])
def test_they_are_near_onnx_runtime_on_any_number_of_threads(seed: int, tmp_path: Path) -> None:
    """Each convolution may be off by its tolerance, 2e-6 of the largest; here are two."""
    path = convolutions(seed, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    x = np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)
    (expected,) = session.run(None, {session.get_inputs()[0].name: x})
    found = []
    for threads in (1, 2):
        with edgec.compile(path, float_sums="free", threads=threads) as model:
            found.append(model.run(x))
    error = np.max(np.abs(found[0] - expected)) / np.max(np.abs(expected))
    assert error <= 4e-6
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.skipif(not native_core().has("avx2"), reason="this computer has no vectors of x86")
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.full)])
def test_the_sanitizers_find_nothing(threads: int, tmp_path: Path) -> None:
    path = convolutions(2, tmp_path / "m.onnx")
    options = replace(FREE, threads=threads)
    compiled = compile_model(path, native_core(), options, board=load_board("host"))
    kept = {buffer.name for step in compiled.program.steps for buffer in step.function.allocs}
    assert "acc_back" in kept
    manifest = write_sources(compiled, tmp_path / "project")
    program = build_sanitized(tmp_path / "project", manifest, native_core())
    inputs = cases(manifest.inputs, 2)[-2:]  # the first ones are not finite
    reference = Interpretation(compiled.module.main)
    for arrays, (found,) in zip(inputs, run_sanitized(program, manifest, inputs), strict=True):
        (wanted,) = reference.run_whole(arrays)
        assert np.max(np.abs(found - wanted)) <= 8e-6 * np.max(np.abs(wanted))
