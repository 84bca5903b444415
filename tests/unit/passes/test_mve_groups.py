"""Groups on a core with MVE: which microkernels they take, and that they mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Value
from edgec.graph.types import Quant, TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.loop.ir import Call
from edgec.loop.rewrite import walk
from edgec.ops.add import AddAttrs
from edgec.ops.avg_pool2d import AvgPool2dAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.dense import Dense
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs as Depthwise
from edgec.ops.max_pool2d import MaxPool2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import Variant, lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

QUANT = Quant((0.05,), (-3,))
M55 = target_for(find_core("cortex-m55"), Options())


def product(
    op: str,
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    attrs: object = None,
    *,
    zero_point: int = -3,
    limits: tuple[int, int] = (-128, 127),
    per_channel: bool = True,
) -> Function:
    """A convolution or dense and its requantize, with random weights."""
    rng = np.random.default_rng(sum(x_shape) + sum(w_shape))
    channels = w_shape[2] if op == "depthwise_conv2d" else w_shape[0]
    b = GraphBuilder()
    x = b.param("x", TensorType(x_shape, "int8", QUANT))
    w = b.constant("w", rng.integers(-127, 128, w_shape).astype(np.int8), Quant((0.1,), (0,)))
    bias = b.constant("bias", rng.integers(-900, 900, channels).astype(np.int32))
    inputs: list[Value] = [x, w, bias]
    acc = (
        b.op(Dense(), inputs, name="dense")
        if op == "dense"
        else b.op(op, inputs, attrs or Conv2dAttrs(), name="conv")
    )
    factors = rng.uniform(0.0005, 0.003, channels if per_channel else 1)
    output = Quant((0.05,), (zero_point,))
    wanted = RequantizeAttrs(tuple(factors.tolist()), output, *limits, "tflm")
    return b.finish([b.op("requantize", [acc], wanted, name="q")])


def callees(variant: Variant) -> set[str]:
    return {s.callee for s, _ in walk(variant.function.body) if isinstance(s, Call)}


def variants(function: Function) -> tuple[Variant, ...]:
    (group,) = fuse_groups(function)
    return lower_group(group, M55).variants


def check(function: Function, kernels: set[str]) -> None:
    """The first variant uses these kernels, and every one gives what the graph means."""
    found = variants(function)
    assert callees(found[0]) == kernels
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, function.params[0].type.shape).astype(np.int8)
    (expected,) = interpret(function, [x])
    for variant in found:
        got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
        assert np.array_equal(got.reshape(-1), expected.reshape(-1)), callees(variant)


DEPTHWISE = {"ec_pad_rows_s8_mve", "ec_depthwise_s8_mve"}
PLANES = {"ec_pack_planes_s8_mve", "ec_depthwise_planes_s8_mve"}
SAME, END = ((1, 1), (1, 1)), ((0, 1), (0, 1))
GATHERED = {"ec_pad_rows_s8_mve", "ec_columns_s8_mve", "ec_conv_s8_mve"}
RGB = {"ec_pad_rows_s8_mve", "ec_columns_rgb_s8_mve", "ec_conv_s8_mve"}
CASES = [
    (product("dense", (1, 24), (9, 24)), {"ec_conv_s8_mve"}),  # small: the kernel of others
    (product("dense", (1, 120), (9, 120)), {"ec_dense_s8_mve"}),
    (product("dense", (1, 137), (8, 137), zero_point=7, limits=(7, 90)), {"ec_dense_s8_mve"}),
    (product("dense", (3, 10), (5, 10), per_channel=False), {"ec_conv_s8_mve"}),
    (product("dense", (1, 10), (5, 10)), {"ec_conv_s8_mve"}),
    (product("conv2d", (1, 3, 5, 8), (6, 1, 1, 8)), {"ec_conv_s8_mve"}),
    (product("conv2d", (1, 1, 1, 90), (12, 1, 1, 90)), {"ec_dense_s8_mve"}),
    (
        product("conv2d", (1, 5, 6, 16), (8, 3, 3, 16), Conv2dAttrs((1, 1), (1, 1), SAME)),
        {"ec_pad_rows_s8_mve", "ec_conv_s8_mve"},
    ),
    (
        product("conv2d", (1, 7, 6, 8), (5, 3, 3, 8), Conv2dAttrs((2, 2), (1, 1), END)),
        {"ec_pad_rows_s8_mve", "ec_conv_s8_mve"},
    ),
    (product("conv2d", (1, 6, 6, 16), (8, 1, 1, 16), Conv2dAttrs((2, 2))), {"ec_conv_s8_mve"}),
    (
        product("conv2d", (1, 9, 4, 20), (6, 3, 1, 20), Conv2dAttrs((1, 3), (2, 2))),
        {"ec_conv_s8_mve"},
    ),
    (product("conv2d", (1, 6, 6, 3), (8, 3, 3, 3), Conv2dAttrs((1, 1), (1, 1), SAME)), RGB),
    (product("conv2d", (1, 6, 3, 3), (8, 3, 3, 3), Conv2dAttrs((1, 1), (2, 1), SAME)), GATHERED),
    (
        product("conv2d", (1, 9, 6, 1), (8, 4, 3, 1), Conv2dAttrs((2, 2))),
        {"ec_columns_s8_mve", "ec_conv_s8_mve"},
    ),
    (
        product("depthwise_conv2d", (1, 9, 6, 1), (3, 3, 8), Depthwise((2, 2), (1, 1), END)),
        GATHERED,
    ),
    (
        product(
            "depthwise_conv2d",
            (1, 4, 5, 16),
            (3, 3, 16),
            Depthwise((1, 1), (1, 1), SAME),
        ),
        DEPTHWISE,
    ),
    *(
        (
            product(
                "depthwise_conv2d",
                (1, *image, channels),
                (3, 3, channels),
                Depthwise((1, 1), (1, 1), padding),
                zero_point=-128,
            ),
            kernels,
        )
        for image, channels, padding, kernels in (
            ((4, 5), 16, SAME, PLANES),
            ((25, 5), 4, SAME, PLANES),
            ((4, 5), 18, SAME, DEPTHWISE),
            ((4, 5), 16, END, DEPTHWISE),
            ((26, 24), 8, SAME, PLANES),
            ((26, 26), 16, SAME, DEPTHWISE),
        )
    ),
    (
        product(
            "depthwise_conv2d",
            (1, 6, 5, 20),
            (3, 3, 20),
            Depthwise((2, 2), (1, 1), SAME),
        ),
        DEPTHWISE,
    ),
    (
        product("depthwise_conv2d", (1, 3, 5, 8), (3, 3, 8), Depthwise((1, 1), (1, 1), SAME)),
        DEPTHWISE,
    ),
    (
        product("depthwise_conv2d", (1, 9, 6, 17), (3, 2, 17), Depthwise((1, 2), (3, 2))),
        {"ec_depthwise_s8_mve"},
    ),
    (
        product("depthwise_conv2d", (1, 9, 1, 40), (4, 1, 40), Depthwise((2, 1))),
        {"ec_depthwise_s8_mve"},
    ),
    (product("conv2d", (1, 9, 1, 40), (8, 3, 1, 40), Conv2dAttrs((2, 1))), {"ec_conv_s8_mve"}),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_groups_take_kernels_and_mean_the_same(case: int) -> None:
    check(*CASES[case])


def test_weights_of_minus_128_pad_one_row_at_a_time() -> None:
    """Taps are paired anew; several rows at once take more scratch, and that is for time."""
    function = product(
        "depthwise_conv2d", (1, 4, 5, 16), (3, 3, 16), Depthwise((1, 1), (1, 1), SAME)
    )
    node = function.nodes[0]
    weights = node.inputs[1]
    assert isinstance(weights, Constant)
    weights.data.setflags(write=True)
    weights.data[0, :2, 3] = -128
    (group,) = fuse_groups(function)
    fast = target_for(find_core("cortex-m55"), Options(optimize="time"))
    x = np.random.default_rng(6).integers(-128, 128, (1, 4, 5, 16)).astype(np.int8)
    x[:, :, :3] = -128
    (expected,) = interpret(function, [x])
    for policy, rows in ((fast, 6), (M55, 3)):
        found = lower_group(group, policy).variants[0]
        assert callees(found) == DEPTHWISE
        assert found.scratch_bytes == rows * 7 * 16
        got = run_loops(found.function, {"x": x, **found.constants})["out"]
        assert np.array_equal(got.reshape(-1), expected.reshape(-1))


def test_rows_that_are_padded_once_are_free_for_the_output() -> None:
    """The next row was copied before an output is written: the output may replace the input."""
    function = product(
        "depthwise_conv2d", (1, 4, 5, 16), (3, 3, 16), Depthwise((1, 1), (1, 1), SAME)
    )
    by_rows = next(v for v in variants(function) if v.scratch_bytes == 3 * 7 * 16)
    assert [distance for _, distance in by_rows.overlaps] == [0]


@pytest.mark.parametrize("op", ["add", "sub"])
def test_sums_of_equal_shapes_are_one_call(op: str) -> None:
    b = GraphBuilder()
    values = [b.param(name, TensorType((1, 3, 5, 7), "int8", QUANT)) for name in ("x", "y")]
    function = b.finish([b.op(op, values, AddAttrs(Quant((0.11,), (2,))), name="sum")])
    (variant,) = variants(function)
    assert callees(variant) == {"ec_linear_sum_s8_mve"}
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-128, 128, (1, 3, 5, 7)).astype(np.int8) for _ in range(2))
    (expected,) = interpret(function, [x, y])
    assert np.array_equal(run_loops(variant.function, {"x": x, "x2": y})["out"], expected)
    assert sorted(distance for _, distance in variant.overlaps) == [0, 0]


@pytest.mark.parametrize(("channels", "kernel", "called"), [
    (20, (3, 5), "ec_mean_s8_mve"), (20, (2, 5), "ec_mean_s8_dsp"), (12, (3, 5), "ec_mean_s8_dsp"),
    (10, (3, 5), ""),
])  # fmt: skip
def test_means_take_kernels(channels: int, kernel: tuple[int, int], called: str) -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 3, 5, channels), "int8", QUANT))
    attrs = AvgPool2dAttrs(kernel, (1, 1), output=QUANT, minimum=-20, maximum=30)
    function = b.finish([b.op("avg_pool2d", [x], attrs, name="pool")])
    found = variants(function)
    assert callees(found[0]) == ({called} if called else set())
    data = np.random.default_rng(3).integers(-128, 128, (1, 3, 5, channels)).astype(np.int8)
    (expected,) = interpret(function, [data])
    for variant in found:
        assert np.array_equal(run_loops(variant.function, {"x": data})["out"], expected)


@pytest.mark.parametrize(("channels", "scale", "zero_point", "called"), [
    (16, 0.05, -3, True), (24, 0.05, 0, True), (12, 0.05, -3, False), (16, 1e-30, -3, False),
])  # fmt: skip
def test_means_in_floats_take_a_kernel(
    channels: int, scale: float, zero_point: int, called: bool
) -> None:
    quant = Quant((scale,), (zero_point,))
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 7, 5, channels), "int8", quant))
    attrs = AvgPool2dAttrs((7, 5), (1, 1), output=quant, rounding="onnx")
    function = b.finish([b.op("avg_pool2d", [x], attrs, name="pool")])
    (variant,) = variants(function)
    assert callees(variant) == ({"ec_sum_real_channels_s8_mve"} if called else set())
    data = np.random.default_rng(3).integers(-128, 128, (1, 7, 5, channels)).astype(np.int8)
    (expected,) = interpret(function, [data])
    assert np.array_equal(run_loops(variant.function, {"x": data})["out"], expected)


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "called"), [
    ((1, 6, 8, 20), (3, 3), (2, 2), ((0, 0), (0, 0)), True),
    ((1, 6, 8, 3), (2, 2), (2, 2), ((0, 0), (0, 0)), True),
    ((1, 7, 4, 33), (3, 1), (1, 3), ((0, 0), (0, 0)), True),
    ((1, 4, 2, 5), (2, 2), (2, 2), ((0, 0), (0, 0)), True),
    ((1, 6, 8, 20), (3, 3), (2, 2), ((1, 1), (1, 1)), False),
])  # fmt: skip
def test_max_pools_of_whole_windows_are_calls(
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[tuple[int, int], tuple[int, int]],
    called: bool,
) -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType(shape, "int8", QUANT))
    attrs = MaxPool2dAttrs(kernel, stride, padding, -20, 90)
    function = b.finish([b.op("max_pool2d", [x], attrs, name="pool")])
    found = variants(function)
    assert callees(found[0]) == ({"ec_max_pool_s8_mve"} if called else set())
    data = np.random.default_rng(4).integers(-128, 128, shape).astype(np.int8)
    (expected,) = interpret(function, [data])
    for variant in found:
        assert np.array_equal(run_loops(variant.function, {"x": data})["out"], expected)


@pytest.mark.parametrize(("channels", "called"), [(7, False), (20, True)])
def test_sums_that_broadcast_call_for_each_pixel(channels: int, called: bool) -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 3, 5, channels), "int8", QUANT))
    y = b.param("y", TensorType((1, 1, 1, channels), "int8", QUANT))
    function = b.finish([b.op("add", [x, y], AddAttrs(Quant((0.11,), (2,))), name="sum")])
    (variant,) = variants(function)
    assert callees(variant) == ({"ec_linear_sum_s8_mve"} if called else set())
    rng = np.random.default_rng(5)
    data = [rng.integers(-128, 128, p.type.shape).astype(np.int8) for p in function.params]
    (expected,) = interpret(function, data)
    got = run_loops(variant.function, {"x": data[0], "x2": data[1]})["out"]
    assert np.array_equal(got, expected)


def test_few_channels_are_plain_loops() -> None:
    assert "ec_conv_s8_mve" not in callees(variants(product("dense", (1, 8), (3, 8)))[0])


def test_large_factors_are_plain_loops() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 8), "int8", QUANT))
    w = b.constant("w", np.ones((8, 8), np.int8), Quant((0.1,), (0,)))
    acc = b.op(Dense(), [x, w, b.constant("bias", np.zeros(8, np.int32))], name="dense")
    attrs = RequantizeAttrs((3.0,), QUANT, -128, 127, "tflm")
    function = b.finish([b.op("requantize", [acc], attrs, name="q")])
    assert not any("mve" in name for v in variants(function) for name in callees(v))
