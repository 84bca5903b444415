"""Rules: which kernels they name, and which nests they match."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function
from edgec.graph.types import Quant, TensorType
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import all_microkernels, kernels_of
from edgec.numerics.fixed_point import Rounding
from edgec.ops import load
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.max_pool2d import MaxPool2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.common.sums import Kind, Sums, find_sums
from edgec.targets.core import CORES, find_core
from edgec.targets.target import RULES, target_for

load()

QUANT = Quant((0.05,), (-3,))
PATTERNS = {pattern for rules in RULES.values() for rule in rules for pattern in rule.kernels}
#: Called by schedules of streams of groups, not by schedules of one group.
OF_STREAMS = ("ec_move_rows_*", "ec_copy_row_*")


def test_each_kernel_is_named_by_a_rule() -> None:
    names = [kernel.name for kernel in all_microkernels()]
    known = (*PATTERNS, *OF_STREAMS)
    assert [name for name in names if not any(fnmatch(name, p) for p in known)] == []


def test_each_rule_names_kernels_that_exist() -> None:
    names = [kernel.name for kernel in all_microkernels()]
    assert [p for p in PATTERNS if not any(fnmatch(name, p) for name in names)] == []


@pytest.mark.parametrize("isa", sorted(RULES))
def test_some_core_has_what_the_kernels_of_a_rule_need(isa: str) -> None:
    kernels = all_microkernels()
    cores = [core for core in CORES.values() if core.isa == isa]
    for rule in RULES[isa]:
        features = [core.features for core in cores if rule.needs <= core.features]
        if not features:
            continue
        for pattern in rule.kernels:
            needed = [kernel.needs for kernel in kernels if fnmatch(kernel.name, pattern)]
            assert any(n <= f for n in needed for f in features), (rule.name, pattern)


@pytest.mark.parametrize("isa", sorted({core.isa for core in CORES.values()}))
def test_every_instruction_set_has_an_answer_for_every_nest(isa: str) -> None:
    assert RULES[isa][-1].name == "sums"


def rescaled(
    name: str,
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    attrs: Any,
    rounding: Rounding = "tflm",
) -> Function:
    b = GraphBuilder()
    x = b.param("x", TensorType(shape, "int8", QUANT))
    channels = weights[2] if name == "depthwise_conv2d" else weights[0]
    w = b.constant("w", np.ones(weights, np.int8), Quant((0.1,), (0,)))
    bias = b.constant("bias", np.zeros(channels, np.int32))
    acc = b.op(name, [x, w, bias], attrs, name="sums")
    last = RequantizeAttrs((0.001,), QUANT, -128, 127, rounding)
    return b.finish([b.op("requantize", [acc], last, name="q")])


def pool() -> Function:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4, 4, 8), "int8", QUANT))
    return b.finish([b.op("max_pool2d", [x], MaxPool2dAttrs((2, 2), (2, 2)), name="pool")])


CASES: list[tuple[Callable[[], Function], Sums]] = [
    (lambda: rescaled("dense", (1, 9), (4, 9), None), Sums(Kind.MATRIX, True, False)),
    (
        lambda: rescaled("conv2d", (1, 5, 5, 3), (4, 3, 3, 3), Conv2dAttrs()),
        Sums(Kind.WINDOWS, True, False),
    ),
    (
        lambda: rescaled("conv2d", (1, 1, 1, 3), (1, 1, 1, 3), Conv2dAttrs()),
        Sums(Kind.WINDOWS, True, False),
    ),
    (
        lambda: rescaled(
            "conv2d", (1, 5, 5, 3), (4, 3, 3, 3), Conv2dAttrs(padding=((1, 1), (1, 1)))
        ),
        Sums(Kind.WINDOWS, True, False),
    ),
    (
        lambda: rescaled("depthwise_conv2d", (1, 5, 5, 1), (3, 3, 2), DepthwiseConv2dAttrs()),
        Sums(Kind.CHANNEL_WINDOWS, True, False),
    ),
    (pool, Sums(Kind.LARGEST, False, False)),
]


@pytest.mark.parametrize(("function", "expected"), CASES)
def test_sums_are_read_from_the_nest(function: Callable[[], Function], expected: Sums) -> None:
    (group,) = fuse_groups(function())
    found: list[PrimFunc] = []
    target = target_for(find_core("cortex-m3"), Options(optimize="size"))
    lower_group(group, _Watched(target, found))  # type: ignore[arg-type]
    assert find_sums(found[0]) == expected


class _Watched:
    """A target that shows how the group is lowered plainly."""

    def __init__(self, target: Any, found: list[PrimFunc]) -> None:
        self.target, self.core, self.found = target, target.core, found

    def menu(self, lower: Any) -> Any:
        self.found.append(lower.build())
        return self.target.menu(lower)


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "x86_64"])
@pytest.mark.parametrize("kernel", [(3, 1), (1, 3)])
def test_windows_that_leave_by_one_side_are_copied_to_planes(
    core: str, kernel: tuple[int, int]
) -> None:
    padding = tuple((size // 2, size // 2) for size in kernel)
    attrs = DepthwiseConv2dAttrs(padding=padding)  # type: ignore[arg-type]
    (group,) = fuse_groups(rescaled("depthwise_conv2d", (1, 6, 5, 3), (*kernel, 3), attrs))
    variants = lower_group(group, target_for(find_core(core), Options())).variants
    assert any("ec_gather_plane_s8" in kernels_of(v.function) for v in variants)
    x = np.random.default_rng(1).integers(-128, 128, (1, 6, 5, 3)).astype(np.int8)
    results = []
    for variant in variants:
        if kernels_of(variant.function) <= {"ec_gather_plane_s8"}:
            results.append(interpret(variant.function, {"x": x, **variant.constants})["out"])
    assert len(results) > 1
    assert all(np.array_equal(results[0].ravel(), result.ravel()) for result in results)


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m55", "x86_64"])
@pytest.mark.parametrize("rounding", ["tflm", "onnx"])
@pytest.mark.parametrize("weights", [(3, 3, 8), (5, 3, 8), (3, 3, 16)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
def test_rules_stand_back_where_a_layer_lacks_their_form(
    core: str, rounding: Rounding, weights: tuple[int, ...], stride: tuple[int, int]
) -> None:
    attrs = DepthwiseConv2dAttrs(stride=stride, padding=((1, 1), (1, 1)))
    function = rescaled("depthwise_conv2d", (1, 7, 7, 8), weights, attrs, rounding)
    (group,) = fuse_groups(function)
    assert lower_group(group, target_for(find_core(core), Options())).variants
