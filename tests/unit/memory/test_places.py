"""Outputs replace an input where it is only as long as that saves memory."""

from __future__ import annotations

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.types import Quant, TensorType
from edgec.memory.layout import placement_problem
from edgec.memory.places import settle_places
from edgec.memory.solve import plan_memory
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import LoweredGroup, Variant, lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

QUANT = Quant((0.05,), (-128,))


def layer(b: GraphBuilder, x: Value, kind: str, channels: int) -> Value:
    rng = np.random.default_rng(channels)
    depth = x.type.shape[3]
    shape = (3, 3, depth) if kind == "depthwise_conv2d" else (channels, 1, 1, depth)
    w = b.constant("w", rng.integers(-9, 9, shape).astype(np.int8), Quant((0.1,), (0,)))
    bias = b.constant("bias", np.zeros(channels, np.int32))
    same = ((1, 1), (1, 1))
    attrs = DepthwiseConv2dAttrs((1, 1), (1, 1), same) if len(shape) == 3 else Conv2dAttrs()
    acc = b.op(kind, [x, w, bias], attrs, name=kind)
    scaled = RequantizeAttrs((0.002,) * channels, QUANT, -128, 127, "tflm")
    return b.op("requantize", [acc], scaled, name="out")


def network(*layers: tuple[str, int]) -> Function:
    b = GraphBuilder()
    value = b.param("x", TensorType((1, 8, 8, 12), "int8", QUANT))
    for kind, channels in layers:
        value = layer(b, value, kind, channels)
    return b.finish([value])


def lowered(function: Function) -> list[LoweredGroup]:
    policy = target_for(find_core("cortex-m0"), Options())
    return [lower_group(group, policy) for group in fuse_groups(function)]


def peak(function: Function, groups: list[LoweredGroup], chosen: tuple[Variant, ...]) -> int:
    return plan_memory(placement_problem(function, groups, chosen)).peak_bytes["arena"]


def test_a_tie_that_costs_memory_is_undone() -> None:
    # The input lies above the first output, the third output below the second: at one place,
    # both reach far; apart, the second output lies above.
    function = network(("conv2d", 8), ("depthwise_conv2d", 8), ("conv2d", 16), ("conv2d", 4))
    groups = lowered(function)
    tied = tuple(group.variants[0] for group in groups)
    assert any(variant.same_place for variant in tied)
    settled = settle_places(function, groups, tied)
    assert not any(variant.same_place for variant in settled)
    assert peak(function, groups, settled) < peak(function, groups, tied)
    free = settle_places(function, groups, tied, most_instructions=float("inf"))
    assert peak(function, groups, free) <= peak(function, groups, settled)


def test_a_tie_that_saves_memory_stays() -> None:
    function = network(("conv2d", 12), ("depthwise_conv2d", 12), ("conv2d", 4))
    groups = lowered(function)
    tied = tuple(group.variants[0] for group in groups)
    settled = settle_places(function, groups, tied)
    assert [v.same_place for v in settled] == [v.same_place for v in tied]
    assert settle_places(function, groups[:1], tied[:1]) == tied[:1]
