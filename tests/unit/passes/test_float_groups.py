"""Groups of floats on a core with an FPU: which kernels they take, and that they mean the same."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import edgec.ops.dense  # noqa: F401  registers it
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.loop.microkernel import kernels_of
from edgec.loop.traffic import traffic
from edgec.memory.choose import choose_alone
from edgec.ops.clip import ClipAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.leaky_relu import LeakyReluAttrs
from edgec.options import Optimize, Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import LoweredGroup, Variant, lower_group
from edgec.targets.core import find_core
from edgec.targets.cortex_m.kernels.float_rows import (
    CONV,
    CONV_GROUPS,
    CONV_HALVES,
    CONV_INT4,
    CONV_STEPS,
    CONV_UNITS,
    DEPTHWISE,
    DEPTHWISE_HALVES,
    DEPTHWISE_STEPS,
    DEPTHWISE_UNITS,
    MOST_SHIFT,
)
from edgec.targets.cortex_m.kernels.products import DENSE
from edgec.targets.target import target_for

SAME = ((1, 1), (1, 1))
LAYERS = {
    "padded": ("conv2d", (1, 7, 9, 3), (6, 3, 3, 3), Conv2dAttrs(padding=SAME), CONV),
    "strided": ("conv2d", (1, 8, 7, 4), (4, 3, 2, 4), Conv2dAttrs((2, 1), (2, 1), SAME), CONV),
    "pixels": ("conv2d", (1, 3, 5, 6), (9, 1, 1, 6), Conv2dAttrs(), CONV),
    "column": ("conv2d", (1, 6, 1, 2), (5, 3, 1, 2), Conv2dAttrs(), CONV),
    "images": ("conv2d", (2, 4, 4, 2), (4, 3, 3, 2), Conv2dAttrs(padding=SAME), CONV),
    "depthwise": (
        "depthwise_conv2d", (1, 6, 8, 5), (3, 3, 5),
        DepthwiseConv2dAttrs((1, 2), (2, 2), ((2, 2), (1, 2))), DEPTHWISE,
    ),
    "dense": ("dense", (3, 10), (7, 10), None, CONV),
}  # fmt: skip
#: Layers of whole units of channels.
IN_UNITS = {
    "padded": ("conv2d", (1, 7, 9, 3), (8, 3, 3, 3), Conv2dAttrs(padding=SAME), CONV_UNITS),
    "pixels": ("conv2d", (1, 3, 5, 6), (4, 1, 1, 6), Conv2dAttrs(), CONV_UNITS),
    "depthwise": (
        "depthwise_conv2d", (1, 6, 8, 12), (3, 3, 12),
        DepthwiseConv2dAttrs((1, 2), (2, 2), ((2, 2), (1, 2))), DEPTHWISE_UNITS,
    ),
    "dense": ("dense", (3, 10), (8, 10), None, CONV_UNITS),
}  # fmt: skip
#: Weights that count steps, and how many at most; the kernels of all that are stored in less.
MOST = {"steps": 128, "int4": 8}
NARROW = {"halves": CONV_HALVES, "steps": CONV_STEPS, "int4": CONV_INT4}
NARROW_DEPTHWISE = {
    "halves": DEPTHWISE_HALVES, "steps": DEPTHWISE_STEPS, "int4": DEPTHWISE_STEPS,
}  # fmt: skip
#: Layers whose weights have shifts of groups, and the inputs of a group.
GROUPED = {
    "padded": ("conv2d", (1, 5, 7, 32), (6, 3, 3, 32), Conv2dAttrs(padding=SAME), 16),
    "strided": ("conv2d", (1, 8, 7, 17), (4, 3, 2, 17), Conv2dAttrs((2, 1), (2, 1), SAME), 17),
    "pixels": ("conv2d", (1, 3, 5, 48), (9, 1, 1, 48), Conv2dAttrs(), 24),
    "dense": ("dense", (3, 64), (21, 64), None, 32),
    "odd": ("dense", (1, 51), (35, 51), None, 17),
}
#: What kernels cannot do, and leave to loops.
REFUSED = {
    "dilated": ("conv2d", (1, 5, 9, 3), (4, 1, 3, 3), Conv2dAttrs(dilation=(1, 2))),
    "multiplied": ("depthwise_conv2d", (1, 5, 5, 2), (3, 3, 4), DepthwiseConv2dAttrs()),
}


def layer(
    op: str,
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    attrs: Any,
    stored: str | int = "",
    most_shift: int = MOST_SHIFT,
    limits: tuple[float, float] = (-1.0, 6.0),
    first_bias: float = 1.0,
) -> Function:
    """A layer with random weights, its result limited.

    stored: what weights stand for, or how many inputs in a row share a shift up to most_shift.
    """
    rng = np.random.default_rng(sum(x_shape))
    channels = w_shape[2] if op == "depthwise_conv2d" else w_shape[0]
    weights = rng.normal(size=w_shape).astype(np.float32)
    if stored == "halves":
        weights = weights.astype(np.float16).astype(np.float32)
    elif stored in MOST:
        step = rng.uniform(0.01, 0.1, (channels,) + (1,) * (len(w_shape) - 1)).astype(np.float32)
        step = step.reshape(-1) if op == "depthwise_conv2d" else step
        most = MOST[stored]
        weights = rng.integers(-most, most, w_shape).astype(np.float32) * step
    elif isinstance(stored, int):
        step = rng.uniform(0.01, 0.1, (channels,) + (1,) * (len(w_shape) - 1)).astype(np.float32)
        counts = rng.integers(-8, 8, w_shape)
        counts[..., ::stored] = 7  # so that a shift cannot be another
        shifts = rng.integers(0, most_shift + 1, (*w_shape[:-1], w_shape[-1] // stored))
        shifts[0, ..., 0], shifts[-1, ..., -1] = 0, most_shift
        counts <<= np.repeat(shifts, stored, axis=-1)
        weights = counts.astype(np.float32) * step
    b = GraphBuilder()
    x = b.param("x", TensorType(x_shape, "float32"))
    w = b.constant("w", weights)
    biases = [first_bias, *rng.normal(size=channels - 1)]
    bias = b.constant("bias", np.array(biases, np.float32))
    sums = b.op(op, [x, w, bias], attrs, name="sums")
    return b.finish([b.op("clip", [sums], ClipAttrs(*limits), name="clip")])


def menu(function: Function, core: str, optimize: Optimize = "balanced") -> LoweredGroup:
    (group,) = fuse_groups(function)
    return lower_group(group, target_for(find_core(core), Options(optimize=optimize)))


def taken(
    function: Function, groups: list[LoweredGroup], core: str, optimize: Optimize = "balanced"
) -> tuple[Variant, ...]:
    options = Options(optimize=optimize)
    return choose_alone(function, groups, target_for(find_core(core), options), options)


@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("name", LAYERS)
def test_kernels_mean_the_layer(name: str, core: str) -> None:
    *given, kernel = LAYERS[name]
    function = layer(*given)
    found = menu(function, core).variants
    assert kernels_of(found[0].function) == {kernel}
    assert len(found) == (1 if core == "cortex-m55" else 2)  # loops where they may be as good
    x = np.random.default_rng(1).normal(size=function.params[0].type.shape).astype(np.float32)
    (expected,) = interpret(function, [x])
    for variant in found:
        got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
        assert got.tobytes() == expected.tobytes(), variant.function.name


def of_large_model(function: Function, core: str = "cortex-m4") -> LoweredGroup:
    """The menu of a layer as it is in a model that has much to do."""
    (group,) = fuse_groups(function)
    return lower_group(group, replace(target_for(find_core(core), Options()), has_much_to_do=True))


@pytest.mark.parametrize("limits", [(0.0, 6.0), (0.0, math.inf), (-math.inf, 2.0)])
@pytest.mark.parametrize("name", IN_UNITS)
def test_kernels_of_whole_units_mean_the_layer(name: str, limits: tuple[float, float]) -> None:
    *given, kernel = IN_UNITS[name]
    function = layer(*given, limits=limits)
    variant = of_large_model(function).variants[0]
    assert kernels_of(variant.function) == {kernel}
    x = np.random.default_rng(1).normal(size=function.params[0].type.shape).astype(np.float32)
    (expected,) = interpret(function, [x])
    got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
    assert got.tobytes() == expected.tobytes()


def test_results_of_a_row_may_lie_over_its_first_inputs() -> None:
    """All but the last unit, before which all inputs are read again."""
    function = layer("dense", (1, 64), (16, 64), None, limits=(0.0, 6.0))
    variant = menu(function, "cortex-m4").variants[0]
    assert kernels_of(variant.function) == {DENSE}
    assert [below for _, below in variant.overlaps] == [4 * 12]


def test_what_whole_units_cannot_do_is_left_to_rows() -> None:
    *given, _ = IN_UNITS["padded"]
    usual = layer(*given, limits=(0.0, 6.0))
    assert kernels_of(menu(usual, "cortex-m4").variants[0].function) == {CONV}  # a small model
    assert kernels_of(of_large_model(usual, "cortex-m55").variants[0].function) == {CONV}
    for limits, bias in (((-1.0, 6.0), 1.0), ((0.0, 6.0), math.nan), ((-math.inf, -2.0), 1.0)):
        found = of_large_model(layer(*given, limits=limits, first_bias=bias))
        assert kernels_of(found.variants[0].function) == {CONV}, (limits, bias)
    many = layer("dense", (1 << 15, 4), (8, 4), None, limits=(0.0, 6.0))
    assert kernels_of(of_large_model(many).variants[0].function) == {CONV}  # sizes have 16 bits


@pytest.mark.parametrize("optimize", ["size", "balanced", "time"])
@pytest.mark.parametrize("stored", NARROW)
@pytest.mark.parametrize("name", LAYERS)
def test_kernels_of_narrow_weights_mean_the_layer(
    name: str, stored: str, optimize: Optimize
) -> None:
    *given, kernel = LAYERS[name]
    function = layer(*given, stored=stored)
    found = menu(function, "cortex-m4", optimize).variants
    narrow = [{(NARROW if kernel == CONV else NARROW_DEPTHWISE)[stored]}]
    if stored == "int4" and kernel == CONV:  # others of the model may have groups
        narrow.append({CONV_GROUPS})
    expected = [{kernel}] if optimize == "time" else narrow
    if optimize == "balanced" and stored in MOST:  # what they save is weighed later
        expected = [{kernel}, *narrow]
    if optimize == "balanced" and stored == "steps" and kernel == DEPTHWISE:
        expected = [{kernel}]  # few weights: a quarter of their bytes saves less than it costs
    assert [kernels_of(v.function) for v in found if kernels_of(v.function)] == expected
    x = np.random.default_rng(1).normal(size=function.params[0].type.shape).astype(np.float32)
    (expected,) = interpret(function, [x])
    for variant in found:
        got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
        assert got.tobytes() == expected.tobytes(), variant.function.name


@pytest.mark.parametrize("optimize", ["size", "balanced"])
@pytest.mark.parametrize("name", GROUPED)
def test_kernels_by_groups_mean_the_layer(name: str, optimize: Optimize) -> None:
    *given, group = GROUPED[name]
    function = layer(*given, stored=group)
    found = menu(function, "cortex-m4", optimize).variants
    kernels = [v for v in found if kernels_of(v.function) == {CONV_GROUPS}]
    assert len(kernels) == 1
    x = np.random.default_rng(1).normal(size=function.params[0].type.shape).astype(np.float32)
    (expected,) = interpret(function, [x])
    for variant in found:
        got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
        assert got.tobytes() == expected.tobytes(), variant.function.name


def test_shifts_of_four_are_left_to_bytes() -> None:
    """Sixteen does not fit in four bits with a sign."""
    *given, group = GROUPED["dense"]
    found = menu(layer(*given, stored=group, most_shift=MOST_SHIFT + 1), "cortex-m4").variants
    assert [kernels_of(v.function) for v in found] == [{CONV}, {CONV_STEPS}, set()]


def test_many_halves_stay_so() -> None:
    """Also where plain loops of floats would be as fast."""
    for channels, kernels in ((51, [{CONV_HALVES}, set()]), (52, [{CONV_HALVES}])):
        function = layer("dense", (1, 10), (channels, 10), None, "halves")
        assert [kernels_of(v.function) for v in menu(function, "cortex-m4").variants] == kernels


def test_size_takes_the_least_flash() -> None:
    """A kernel by bytes would take twice as many constants, one by four bits its own code."""
    function = layer("dense", (1, 640), (8, 640), None, 32)
    lowered = menu(function, "cortex-m4", "size")
    (chosen,) = taken(function, [lowered], "cortex-m4", "size")
    flash = [v.code_bytes + v.constant_bytes for v in lowered.variants]
    assert chosen.code_bytes + chosen.constant_bytes == min(flash)


@pytest.mark.parametrize("stored", [32, "int4"])
def test_layers_of_four_bits_stay_so_with_and_without_groups(stored: int | str) -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 640), "float32"))
    results = []
    for name, kind in (("a", stored), ("b", "int4")):
        w, bias = (c.data for c in layer("dense", (1, 640), (200, 640), None, kind).constants())
        inputs = [x, b.constant(f"{name}_w", w), b.constant(f"{name}_bias", bias)]
        results.append(b.op("dense", inputs, None, name=name))
    function = b.finish(results)
    policy = target_for(find_core("cortex-m55"), Options())
    lowered = [lower_group(group, policy) for group in fuse_groups(function)]
    fastest = [menus.variants[0] for menus in lowered]
    assert [kernels_of(v.function) for v in fastest] == [{CONV}, {CONV}]
    chosen = taken(function, lowered, "cortex-m55")
    first = CONV_INT4 if stored == "int4" else CONV_GROUPS
    assert [kernels_of(v.function) for v in chosen] == [{first}, {CONV_INT4}]
    for variant in chosen:
        counts = traffic(variant.function, variant.callees)
        assert all(counts[param.name] for param in variant.function.params)


@pytest.mark.parametrize(("stored", "pays"), [("int4", True), ("steps", False), ("", False)])
def test_integers_of_steps_are_taken_where_they_save_more_than_they_cost(
    stored: str, pays: bool
) -> None:
    """An eighth of the bytes justifies 82 % more instructions; a quarter does not justify 75 %."""
    function = layer("dense", (2, 640), (128, 640), None, stored)
    lowered = menu(function, "cortex-m4")
    chosen = taken(function, [lowered], "cortex-m4")
    assert [kernels_of(v.function) for v in chosen] == [{CONV_INT4} if pays else set()]


@pytest.mark.parametrize("name", ["padded", "depthwise"])
def test_rows_of_a_layer_choose_alike(name: str) -> None:
    """With two ways to choose from, its weights could be there twice, in two orders."""
    *given, kernel = LAYERS[name]
    (group,) = fuse_groups(layer(*given))
    policy = replace(target_for(find_core("cortex-m4"), Options()), in_rows=True)
    for variant in lower_group(group, policy).variants:
        assert kernels_of(variant.function) == {kernel}


@pytest.mark.parametrize("name", REFUSED)
def test_loops_do_the_rest(name: str) -> None:
    for variant in menu(layer(*REFUSED[name]), "cortex-m4").variants:
        assert not kernels_of(variant.function)


@pytest.mark.parametrize(
    ("core", "optimize"), [("cortex-m4", "size"), ("cortex-m3", "time"), ("x86_64", "time")]
)
def test_no_kernels_where_they_do_not_pay(core: str, optimize: Optimize) -> None:
    *given, _ = LAYERS["padded"]
    for variant in menu(layer(*given), core, optimize).variants:
        assert not kernels_of(variant.function)


def test_kernels_may_not_take_more_bytes_than_loops() -> None:
    """In a plain loop each pixel takes the place of its inputs; of four at once, none does."""
    function = layer("conv2d", (1, 4, 8, 4), (4, 1, 1, 4), Conv2dAttrs())
    lowered = menu(function, "cortex-m4")
    kernel, loops = lowered.variants
    closest = [dict(variant.overlaps)[function.params[0]] for variant in (kernel, loops)]
    assert closest[0] > closest[1]
    assert taken(function, [lowered], "cortex-m4") == (loops,)


@pytest.mark.parametrize(
    ("core", "channels", "expected"),
    [
        ("cortex-m4", 16, [("conv2d",), ("leaky_relu",)]),
        ("cortex-m55", 16, [("conv2d",), ("leaky_relu",)]),
        ("cortex-m4", 4, [("conv2d", "leaky_relu")]),  # too small
        ("cortex-m3", 16, [("conv2d", "leaky_relu")]),
    ],
)
def test_what_kernels_do_not_do_is_a_step_of_its_own(
    core: str, channels: int, expected: list[tuple[str, ...]]
) -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 8, 8, 16), "float32"))
    w = b.constant("w", np.ones((channels, 1, 1, 16), np.float32))
    bias = b.constant("bias", np.ones(channels, np.float32))
    sums = b.op("conv2d", [x, w, bias], Conv2dAttrs(), name="sums")
    result = b.op("leaky_relu", [sums], LeakyReluAttrs(0.25), name="leaky")
    function = b.finish([result])
    policy = target_for(find_core(core), Options())
    groups = fuse_groups(function, is_whole=policy.is_whole)
    assert [tuple(node.op.name for node in group.nodes) for group in groups] == expected
