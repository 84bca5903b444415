"""The choice is a local optimum of one cost, whatever the prices are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.types import Quant, TensorType
from edgec.memory.choose import choose_alone
from edgec.memory.exchange import WORST, Costs
from edgec.memory.layout import ARENA
from edgec.memory.objective import Tally, flash_bytes, make_objective
from edgec.memory.solve import plan_memory
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import LEVELS, Options, Prices
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import LoweredGroup, lower_group
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


def lowered(function: Function, core: str, options: Options) -> list[LoweredGroup]:
    policy = target_for(find_core(core), options)
    return [lower_group(group, policy) for group in fuse_groups(function)]


LAYERS = (("conv2d", 8), ("depthwise_conv2d", 8), ("conv2d", 16), ("conv2d", 4))
PRICES = [
    *(p for p in LEVELS.values() if not p.least_gain),
    Prices(1, 1, 1),
    Prices(time=1, ram=5),
    Prices(flash=3, ram=1),
]


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4"])
def test_no_other_variants_cost_less(core: str, prices: Prices) -> None:
    """Of a few layers, all choices are compared."""
    function, options = network(*LAYERS), Options(optimize=prices)
    groups = lowered(function, core, options)
    target = target_for(find_core(core), options)
    chosen = choose_alone(function, groups, target, options)
    objective = make_objective(groups, prices, float("inf"), prices.slowdown)
    costs = Costs(function, groups, objective, "arena")
    rank = costs.rank(chosen)
    assert rank is not None
    for others in itertools.product(*(g.variants for g in groups)):
        found = costs.rank(others)
        assert found is None or rank[:3] <= (found[0], found[1], found[2] + 1e-9), others


def test_a_tie_that_costs_memory_is_undone() -> None:
    # The input lies above the first output, the third output below the second: at one place,
    # both reach far; apart, the second output lies above.
    function, options = network(*LAYERS), Options(optimize="ram")
    groups = lowered(function, "cortex-m0", options)
    objective = make_objective(groups, options.prices, float("inf"), float("inf"))
    costs = Costs(function, groups, objective, "arena")
    tied = tuple(group.variants[0] for group in groups)
    assert any(variant.in_place for variant in tied)
    chosen = choose_alone(function, groups, target_for(find_core("cortex-m0"), options), options)
    assert not any(variant.in_place for variant in chosen)
    assert costs.peak_bytes(chosen) < costs.peak_bytes(tied)


def test_code_of_equal_layers_counts_once() -> None:
    function, options = network(("conv2d", 12), ("conv2d", 12)), Options()
    groups = lowered(function, "cortex-m4", options)
    objective = make_objective(groups, options.prices, float("inf"), float("inf"))
    first, second = (group.variants[0] for group in groups)
    tally = Tally(objective, [first, second])
    assert tally.flash_bytes == flash_bytes([first, second])
    assert tally.flash_bytes == flash_bytes([first]) + second.constant_bytes
    for other in groups[1].variants:
        tally.change(second, -1)
        tally.change(other, 1)
        assert tally.flash_bytes == flash_bytes([first, other])
        assert tally.instructions == first.instructions + other.instructions
        second = other


def test_moves_of_equal_layers_that_do_not_pay_are_planned_once() -> None:
    options = Options()
    function = network(*[("conv2d", 12)] * 9)
    groups = lowered(function, "cortex-m4", options)
    costs = Costs(function, groups, make_objective(groups, options.prices, np.inf, 2.0), "arena")
    large = [max(group.variants, key=lambda v: v.scratch_bytes) for group in groups]
    small = [min(group.variants, key=lambda v: v.scratch_bytes) for group in groups]
    found = []
    for changed in (3, 4, 5, 4):
        variants = [large[i] if i == changed else small[i] for i in range(len(groups))]
        found.append(costs.rank(tuple(variants), below=found[0] if found else WORST))
    assert found[0] is not None and found[1:] == [None] * 3
    assert len(costs.peaks) == 1
    rank = costs.rank(tuple(variants))  # what may pay is planned for itself
    assert rank is not None and len(costs.peaks) == 2
    assert (
        rank[3] == plan_memory(costs.problem(tuple(variants)), node_limit=2_500).peak_bytes[ARENA]
    )
