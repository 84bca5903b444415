"""Bilinear resizing between QDQ nodes: ONNX Runtime's bits, in the reference and in C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder
from onnx_on_boards import PLACES, check_c_against_onnxruntime, onnx_runtime
from single_node import check_nests

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Array, Quant, TensorType
from edgec.ops.onnx_bilinear import BITS, doubt, find_axis
from edgec.ops.resize import Resize, ResizeAttrs
from edgec.passes.fuse_qdq import fuse_qdq
from edgec.passes.sink_transposes import sink_transposes

MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
#: (height, width) and the new ones: twice and four times as large, other factors, smaller, one.
SIZES = (
    ((4, 5), (8, 10)), ((3, 4), (12, 16)), ((5, 7), (9, 13)), ((6, 6), (9, 9)), ((8, 9), (4, 5)),
    ((7, 5), (3, 11)), ((2, 1), (5, 3)), ((6, 4), (6, 8)),
)  # fmt: skip


def qdq_model(seed: int, path: Path, channels: int = 3) -> tuple[Path, Array]:
    """A QDQ Resize and an input of random stored values, some of them at the ends."""
    rng = np.random.default_rng(seed)
    extents, size = SIZES[seed % len(SIZES)]
    mode = MODES[seed // len(SIZES) % len(MODES)]
    scale = float(np.float32(2.0 ** -int(rng.integers(3, 7)) if seed % 5 == 0 else
                             np.exp(rng.uniform(-6, 1))))  # fmt: skip
    zero_point = int(rng.integers(-128, 128))
    model = OnnxBuilder(seed, (1, channels, *extents))
    x = model.qdq("x", scale, zero_point)
    parameters = model.nodes[-1].input[1:]
    scales = np.array([1, 1, *np.divide(size, extents)], np.float32)
    if seed % 2 and np.array_equal(scales[2:] * extents, size):
        operands = [x, "", model.constant(scales, "scales")]
    else:
        sizes = np.array([1, channels, *size], np.int64)
        operands = [x, "", "", model.constant(sizes, "sizes")]
    y = model.add("Resize", operands, mode="linear", coordinate_transformation_mode=mode)
    y = model.add("QuantizeLinear", [y, *parameters])
    y = model.add("DequantizeLinear", [y, *parameters])
    stored = rng.choice([rng.integers(-128, 128), -128, 127], (1, channels, *extents))
    stored = np.where(rng.random(stored.shape) < 0.8, rng.integers(-128, 128, stored.shape), stored)
    return model.save(y, path), ((stored - zero_point) * np.float32(scale)).astype(np.float32)


@pytest.mark.parametrize("mode", range(len(MODES)))
def test_between_qdq_nodes_it_equals_onnxruntime(mode: int, tmp_path: Path) -> None:
    for block in range(3):
        start = (mode + block * len(MODES)) * len(SIZES)
        for seed in range(start, start + len(SIZES)):
            path, x = qdq_model(seed, tmp_path / "m.onnx", 20)
            passed = fuse_qdq(sink_transposes(import_model(path).main))
            (node,) = [n for n in passed.nodes if n.op.name == "resize"]
            assert node.attrs.is_onnx
            (mine,) = interpret(passed, [x])
            assert np.array_equal(mine, onnx_runtime(path, x)), seed
            if block == 0:
                check_nests(passed, [x])


@pytest.mark.parametrize(("board", "engine"), PLACES)
def test_c_between_qdq_nodes_equals_onnxruntime(board: str, engine: str, tmp_path: Path) -> None:
    """Weights that integers hold, and others."""
    for seed in (1, 2):
        path, x = qdq_model(seed, tmp_path / f"bilinear{seed}.onnx", 9)
        check_c_against_onnxruntime(path, x, board, engine)


@pytest.mark.parametrize("mode", [(False, False), (True, False), (False, True)], ids=str)
def test_integers_are_as_near_to_floats_as_stated(mode: tuple[bool, bool]) -> None:
    """Over many elements: what is not next to a half is the same, what is may be either."""
    rng = np.random.default_rng(7)
    for extent, size in ((4, 8), (5, 9), (9, 4), (6, 31)):
        axis = find_axis(extent, size, *mode)
        quant = Quant((float(np.float32(rng.uniform(0.001, 0.1))),), (int(rng.integers(-99, 99)),))
        steps = doubt(axis, axis, quant)
        assert steps is not None and steps < 1 << BITS - 5
        x = rng.integers(-128, 128, (1, extent, extent, 200)).astype(np.int8)
        down, across = axis.high_weight[:, None, None], axis.high_weight[:, None]
        rows = x[:, axis.low] * (1.0 - down) + x[:, axis.high] * down.astype(np.float64)
        exact = rows[:, :, axis.low] * (1.0 - across) + rows[:, :, axis.high] * across.astype(float)
        attrs = ResizeAttrs((size, size), "bilinear", *mode, rounding="onnx")
        type_ = TensorType(x.shape, "int8", quant)
        (found,) = Resize().evaluate(attrs, [x], [type_], Resize().infer(attrs, type_))
        off = np.abs(found - exact)
        assert off.max() <= 0.5 + steps / (1 << BITS)


def test_scales_that_lose_bits_take_floats_alone() -> None:
    axis = find_axis(2, 4, False, True)
    assert doubt(axis, axis, Quant((2.0**-70,), (0,))) is None
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 2, 2, 3), "int8", Quant((2.0**-70,), (3,))))
    attrs = ResizeAttrs((4, 4), "bilinear", half_pixel_centers=True, rounding="onnx")
    function = b.finish([b.op("resize", [x], attrs, name="y")])
    check_nests(function, [np.arange(-60, 60, 10).astype(np.int8).reshape(1, 2, 2, 3)])


@pytest.mark.parametrize("mode", MODES)
def test_floats_that_another_scale_quantizes_equal_onnxruntime(mode: str, tmp_path: Path) -> None:
    """A sum that is rounded otherwise is another step where half a step decides."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        extents, size = SIZES[seed % 2 + 5 * (seed % 3 == 0)]
        model = OnnxBuilder(seed, (1, 2, *extents))
        x = model.qdq("x", 0.25, int(rng.integers(-128, 128)))
        sizes = model.constant(np.array([1, 2, *size], np.int64), "sizes")
        y = model.add("Resize", [x, "", "", sizes], mode="linear",
                      coordinate_transformation_mode=mode)  # fmt: skip
        y = model.qdq(y, float(rng.choice([0.5, 0.2, 1.0])), int(rng.integers(-128, 128)))
        path = model.save(y, tmp_path / "m.onnx")
        x = rng.integers(-40, 40, (1, 2, *extents)).astype(np.float32) / 4
        passed = fuse_qdq(sink_transposes(import_model(path).main))
        (mine,) = interpret(passed, [x])
        assert np.array_equal(mine, onnx_runtime(path, x)), seed
        check_nests(passed, [x])


def test_integers_without_a_scale_have_no_such_meaning() -> None:
    attrs = ResizeAttrs((4, 4), "bilinear", rounding="onnx")
    with pytest.raises(TypeMismatch, match="needs int8 of one scale"):
        Resize().infer(attrs, TensorType((1, 2, 2, 3), "int8"))
