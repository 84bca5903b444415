"""Decide whether channels stand in the order that kernels can take two by two.

That order brings layers with weights of -128 to kernels (`edgec.passes.pair_channels`). `time`
always takes it. `balanced` decides what runs in both orders, and takes it where that needs no more
bytes, or where the code becomes much faster and its bytes grow by a smaller factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgec.graph.ir import Constant, Function
from edgec.loop.cost import estimate_code_bytes
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import get_microkernel, kernels_of
from edgec.memory.choose import Choice, peak_bytes
from edgec.memory.decide import MUCH_FASTER, decide
from edgec.memory.menus import make_menus
from edgec.options import Options
from edgec.passes.fuse_groups import Group
from edgec.passes.lower_groups import Variant
from edgec.passes.pair_channels import pair_channels
from edgec.targets.target import MANY_PRODUCTS, Target


def decide_order(
    function: Function, target: Target, options: Options, limit_bytes: int | None = None
) -> tuple[Function, Choice]:
    """The function as the target's kernels need it, and what runs.

    limit_bytes: what the arena should not exceed. Raises PlanError as `decide`.
    """
    found = _decided(function, target, options, limit_bytes)
    both = options.optimize == "balanced" and target.core.has_pairs and limit_bytes is None
    if target.paired or not both or not _has_loops(found[1]):
        return found
    paired = _decided(function, replace(target, paired=True), options, limit_bytes)
    return paired if _is_better(paired, found, options) else found


def _decided(
    function: Function, target: Target, options: Options, limit_bytes: int | None
) -> tuple[Function, Choice]:
    ordered = pair_channels(function) if target.paired else function
    ordered, groups = make_menus(ordered, target, options)
    return ordered, decide(ordered, groups, target, options, limit_bytes)


def _has_loops(choice: Choice) -> bool:
    """Whether layers of many products run without kernels that paired channels may bring them."""
    for lowered, variant in zip(choice.groups, choice.variants, strict=True):
        if not _may_gain(lowered.group):
            continue
        products = [node for node in lowered.group.nodes if node.op.dot_products is not None]
        macs = sum(node.macs for node in products if node.inputs[0].type.dtype == "int8")
        called = set().union(*map(kernels_of, (variant.function, *variant.callees.values())))
        if macs >= MANY_PRODUCTS and not any(get_microkernel(k).stream for k in called):
            return True
    return False


def _may_gain(group: Group) -> bool:
    """Whether the group has weights of -128, or nodes that a paired product leaves to a step."""
    weights = (v.data for v in group.inputs if isinstance(v, Constant) and v.type.dtype == "int8")
    return len(group.nodes) > 2 or any(data.min(initial=0) == -128 for data in weights)


def _is_better(
    one: tuple[Function, Choice], other: tuple[Function, Choice], options: Options
) -> bool:
    """Whether it is faster, by estimate, and worth what it takes more.

    A part of the time is worth as large a part of the arena and of flash, once the code becomes
    MUCH_FASTER times as fast; below that nothing may grow.
    """
    slowdown = _instructions(other[1].variants) / max(_instructions(one[1].variants), 1)
    if slowdown <= 1:
        return False
    most_growth = slowdown if slowdown >= MUCH_FASTER else 1.0
    if flash_bytes(one[1].variants) > most_growth * flash_bytes(other[1].variants):
        return False
    peaks = [peak_bytes(f, c.groups, c.variants, options) for f, c in (one, other)]
    return peaks[0] <= most_growth * peaks[1]


def _instructions(variants: Sequence[Variant]) -> int:
    return sum(variant.instructions for variant in variants)


def flash_bytes(variants: Sequence[Variant]) -> int:
    """About what constants and code take: a function, and a kernel that it calls, counts once."""
    functions: set[PrimFunc] = set()
    for variant in variants:
        functions |= {variant.function, *variant.callees.values()}
    return sum(variant.constant_bytes for variant in variants) + code_bytes(functions)


def code_bytes(functions: set[PrimFunc]) -> int:
    """About what the code of these functions takes, with the kernels that they call."""
    own = sum(estimate_code_bytes(f) - _kernel_bytes(kernels_of(f)) for f in functions)
    return own + _kernel_bytes(frozenset().union(*map(kernels_of, functions)))


def _kernel_bytes(names: frozenset[str]) -> int:
    return sum(get_microkernel(name).code_bytes for name in names)
