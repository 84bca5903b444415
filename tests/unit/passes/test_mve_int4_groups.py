"""Groups on a core with MVE whose weights have four bits: kernels, meaning, and which are taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Value
from edgec.graph.types import Quant, TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.loop.ir import Call, Const
from edgec.loop.microkernel import get_microkernel, kernels_of
from edgec.loop.rewrite import walk
from edgec.memory.choose import choose_alone
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.dense import Dense
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs as Depthwise
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import LoweredGroup, Variant, lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

QUANT = Quant((0.05,), (-3,))
M55 = find_core("cortex-m55")
SAME = ((1, 1), (1, 1))
DENSE, CONV = "ec_dense_s4{}_s8_mve", "ec_conv_s4{}_s8_mve"


def layers(
    rounding: str, *shapes: tuple[str, tuple[int, ...], object], x: tuple[int, ...],
    factor: float = 0.002, least: int = -8, group: int = 0,
) -> Function:  # fmt: skip
    """Products one after the other, each with its requantize; weights in [least, 7].

    group: the inputs of a channel that share a shift of 0 to 3.
    """
    rng = np.random.default_rng(sum(x) + len(shapes))
    b = GraphBuilder()
    y: Value = b.param("x", TensorType(x, "int8", QUANT))
    for number, (op, w_shape, attrs) in enumerate(shapes):
        channels = w_shape[2] if op == "depthwise_conv2d" else w_shape[0]
        data = rng.integers(least, 8, w_shape).astype(np.int8)
        data.reshape(-1)[:2] = least, 7
        if group:
            shifts = rng.integers(0, 4, (*w_shape[:-1], w_shape[-1] // group))
            shifts[..., -1] = 3
            data <<= np.repeat(shifts, group, axis=-1).astype(np.int8)
        bias = rng.integers(-900, 900, channels).astype(np.int32)
        inputs = [y, b.constant(f"w{number}", data, Quant((0.1,), (0,))), b.constant("b", bias)]
        if op == "dense":
            acc = b.op(Dense(), inputs, name=f"dense{number}")
        else:
            acc = b.op(op, inputs, attrs or Conv2dAttrs(), name=f"conv{number}")
        factors = np.float32(rng.uniform(factor / 4, factor, channels)).tolist()
        wanted = RequantizeAttrs(tuple(factors), QUANT, -128, 127, rounding)  # type: ignore[arg-type]
        y = b.op("requantize", [acc], wanted, name=f"q{number}")
    return b.finish([y])


def menus(function: Function, optimize: str = "balanced", **changes: bool) -> list[LoweredGroup]:
    policy = replace(target_for(M55, Options(optimize=optimize)), **changes)  # type: ignore[arg-type]
    return [lower_group(group, policy) for group in fuse_groups(function)]


def products(variant: Variant) -> set[str]:
    """The kernels on MVE that read weights."""
    names = {n for n in kernels_of(variant.function) if n.endswith("_mve")}
    return {name for name in names if get_microkernel(name).stream}


CASES = [
    (("dense", (9, 120), None), (1, 120), DENSE),
    (("dense", (33, 33), None), (1, 33), DENSE),
    (("dense", (5, 10), None), (3, 10), CONV),
    (("conv2d", (12, 1, 1, 90), None), (1, 1, 1, 90), DENSE),
    (("conv2d", (6, 1, 1, 8), None), (1, 3, 5, 8), CONV),
    (("conv2d", (8, 3, 3, 16), Conv2dAttrs(padding=SAME)), (1, 5, 6, 16), CONV),
    (("conv2d", (6, 1, 1, 16), Conv2dAttrs((2, 2))), (1, 6, 6, 16), CONV),
    (("conv2d", (8, 3, 3, 3), Conv2dAttrs(padding=SAME)), (1, 6, 6, 3), CONV),
    (("depthwise_conv2d", (3, 3, 8), Depthwise((2, 2))), (1, 9, 7, 1), CONV),
]


@pytest.mark.parametrize("rounding", ["tflm", "onnx"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_both_kernels_mean_the_same(case: int, rounding: str) -> None:
    shape, x_shape, wanted = CASES[case]
    function = layers(rounding, shape, x=x_shape)
    (menu,) = menus(function)
    kernel = wanted.format("_onnx" if rounding == "onnx" else "")
    found = [v for v in menu.variants if products(v) == {kernel}]
    assert products(menu.variants[0]) == {kernel.replace("_s4", "")}
    assert found and found[0].scratch_bytes == menu.variants[0].scratch_bytes
    x = np.random.default_rng(1).integers(-128, 128, x_shape).astype(np.int8)
    (expected,) = interpret(function, [x])
    for variant in menu.variants:
        got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
        assert np.array_equal(got.reshape(-1), expected.reshape(-1)), products(variant)


GROUPS = [
    (("dense", (12, 96), None), (1, 96), 32, "ec_dense_groups_onnx_s8_mve", 2),
    (("dense", (5, 48), None), (3, 48), 16, "ec_conv_groups_onnx_s8_mve", 1),
    (("conv2d", (6, 1, 1, 64), None), (1, 3, 5, 64), 64, "ec_conv_groups_onnx_s8_mve", 4),
    (("conv2d", (8, 3, 3, 64), Conv2dAttrs(padding=SAME)), (1, 5, 6, 64), 32,
     "ec_conv_groups_onnx_s8_mve", 2),
    (("conv2d", (5, 3, 2, 48), Conv2dAttrs((2, 1))), (1, 7, 4, 48), 48,
     "ec_conv_groups_onnx_s8_mve", 3),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(GROUPS)))
def test_shifts_of_groups(case: int) -> None:
    shape, x_shape, group, kernel, slices = GROUPS[case]
    function = layers("onnx", shape, x=x_shape, group=group)
    (menu,) = menus(function)
    found = [v for v in menu.variants if products(v) == {kernel}]
    assert found and found[0].constant_bytes < 0.8 * menu.variants[0].constant_bytes
    calls = [s for s, _ in walk(found[0].function.body) if isinstance(s, Call)]
    (last,) = {c.args[-1] for c in calls if c.callee == kernel}
    assert last == Const(slices, "int32")
    x = np.random.default_rng(1).integers(-128, 128, x_shape).astype(np.int8)
    (expected,) = interpret(function, [x])
    for variant in menu.variants:
        got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
        assert np.array_equal(got.reshape(-1), expected.reshape(-1)), products(variant)


def test_groups_of_other_sizes_keep_their_bytes() -> None:
    (menu,) = menus(layers("onnx", ("dense", (16, 120), None), x=(1, 120), group=24))
    assert {n for v in menu.variants for n in products(v)} == {"ec_dense_onnx_s8_mve"}


@pytest.mark.parametrize(("optimize", "in_rows", "bits"), [
    ("balanced", False, {4, 8}), ("balanced", True, {4}), ("time", False, {8}),
    ("time", True, {8}), ("ram", False, {4}), ("size", False, {4}),
])  # fmt: skip
def test_what_is_offered(optimize: str, in_rows: bool, bits: set[int]) -> None:
    function = layers("onnx", ("conv2d", (6, 1, 1, 8), None), x=(1, 3, 5, 8))
    (menu,) = menus(function, optimize, in_rows=in_rows)
    offered = {get_microkernel(n).weight_bits for v in menu.variants for n in products(v)}
    assert offered == bits


@pytest.mark.parametrize("least", [-9, -128])
def test_others_keep_their_bytes(least: int) -> None:
    function = layers("onnx", ("dense", (16, 64), None), x=(1, 64), least=least)
    (menu,) = menus(function)
    assert {n for v in menu.variants for n in products(v)} == {"ec_dense_onnx_s8_mve"}


def test_results_of_large_scales_fit() -> None:
    """What a scale above a half gives is bounded by the sums that there can be."""
    function = layers("onnx", ("dense", (16, 64), None), x=(1, 64), factor=3.0)
    (menu,) = menus(function)
    assert products(menu.variants[0]) == {"ec_dense_onnx_s8_mve"}
    x = np.random.default_rng(2).choice([-128, 127], (1, 64)).astype(np.int8)
    (expected,) = interpret(function, [x])
    for variant in menu.variants:
        got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
        assert np.array_equal(got, expected)
    (menu,) = menus(layers("onnx", ("dense", (16, 64), None), x=(1, 64), factor=4000.0))
    assert not any(products(v) for v in menu.variants)


def taken(function: Function) -> list[set[str]]:
    options = Options()
    chosen = choose_alone(function, menus(function), target_for(M55, options), options)
    return [products(v) for v in chosen]


def test_they_are_taken_where_that_pays() -> None:
    """Not for a layer of so few weights that its kernel's code is more than what it saves."""
    large = ("conv2d", (64, 1, 1, 64), None), ("conv2d", (40, 1, 1, 64), None)
    found = taken(layers("onnx", *large, x=(1, 8, 8, 64)))
    assert found == [{"ec_conv_s4_onnx_s8_mve"}] * 2
    (few,) = taken(layers("onnx", ("dense", (8, 16), None), x=(1, 16)))
    assert not any("int4" in name for name in few)
    wide = layers("onnx", ("conv2d", (16, 1, 1, 64), None), ("conv2d", (128, 3, 3, 16), Conv2dAttrs(
        padding=SAME)), x=(1, 8, 8, 64))  # fmt: skip
    assert taken(wide) == [{"ec_conv_s4_onnx_s8_mve"}] * 2


def test_layers_that_cost_the_most_for_a_byte_are_left_out() -> None:
    function = layers(
        "onnx", ("conv2d", (16, 1, 1, 16), None), ("conv2d", (64, 3, 3, 16), Conv2dAttrs((4, 4))),
        ("depthwise_conv2d", (12, 12, 64), Depthwise()), x=(1, 48, 48, 16), group=16,
    )  # fmt: skip
    few, many, in_bytes = taken(function)
    assert few == {"ec_conv_onnx_s8_mve"} and many == {"ec_conv_groups_onnx_s8_mve"}
    assert in_bytes == {"ec_depthwise_onnx_s8_mve"}
