"""Make the menus, and find the cheapest choice among all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgec.graph.ir import Constant, Function
from edgec.loop.microkernel import get_microkernel, kernels_of
from edgec.memory.choose import MUCH_FASTER, Choice, choose
from edgec.memory.menus import make_menus
from edgec.memory.objective import Rank, flash_bytes
from edgec.options import FAST, LEVELS, SMALL, Options, Prices
from edgec.passes.fuse_groups import Group
from edgec.passes.pair_channels import pair_channels
from edgec.passes.side_by_side import side_by_side
from edgec.targets.core import Core
from edgec.targets.target import MANY_PRODUCTS, Target, target_for

#: Loops in another style have to be cheaper by this much: estimates of two styles differ.
STYLE_MARGIN = 0.1
#: Menus for speed are searched only if they could take at most this fraction of the instructions:
#: otherwise a second search would gain too little for its time.
LEAST_GAIN = 0.97


@dataclass(frozen=True)
class Decision:
    """The chosen program. function: as its kernels need it. fewest: the instructions of the fastest
    variants of all menus."""

    function: Function
    choice: Choice
    rank: Rank
    fewest: int

    def or_better(self, other: Decision | None, margin: float = 0.0) -> Decision:
        """The other one, if it breaks the arena's limit less, or costs less by the margin."""
        if other is None or (self.rank[0], self.rank[2]) <= (other.rank[0], other.rank[2] + margin):
            return self
        return other


def decide(
    function: Function, core: Core, options: Options, limit_bytes: int | None = None
) -> Decision:
    """The chosen program. limit_bytes: of the arena. Raises PlanError as `choose`."""
    prices = options.prices
    best = _of_style(function, core, options, limit_bytes, prices)
    assert best is not None
    if prices.least_gain:
        instructions = sum(variant.instructions for variant in best.choice.variants)
        fast = replace(FAST, least_gain=prices.least_gain)
        styles, margin = [fast] if instructions < prices.least_gain else [], STYLE_MARGIN
    else:
        styles, margin = [] if prices in LEVELS.values() else [FAST, SMALL], 0.0
    for style in styles:
        slow = best if prices.least_gain else None
        found = _of_style(function, core, options, limit_bytes, style, slow)
        best = best.or_better(found, margin)
    return best


def _of_style(
    function: Function,
    core: Core,
    options: Options,
    limit_bytes: int | None,
    style: Prices,
    slow: Decision | None = None,
) -> Decision | None:
    """The best choice from menus made for these prices, in both orders of channels.

    slow: None is returned unless the choice is much faster than this one.
    """
    target = target_for(core, replace(options, optimize=style))
    target = replace(
        target,
        has_much_to_do=_has_much_to_do(function, style),
        spares_ram=limit_bytes is not None or not options.prices.least_gain,
    )
    best = _decided(function, target, options, limit_bytes, slow)
    both = target.core.has_pairs and not target.paired and not style.is_small
    if best is None or not both or not _has_loops(best.choice):
        return best
    slow, target = best if options.prices.least_gain else None, replace(target, paired=True)
    return best.or_better(_decided(function, target, options, limit_bytes, slow))


def _has_much_to_do(function: Function, style: Prices) -> bool:
    """Whether kernels that save half an instruction per product save enough to be used."""
    return style.is_fast or 0 < 2 * style.least_gain <= function.macs


def _is_much_faster(one: Decision, other: Decision) -> bool:
    """Whether it halves the time, or takes no more of anything."""
    variants = one.choice.variants, other.choice.variants
    fast, slow = (sum(v.instructions for v in each) for each in variants)
    flash = [flash_bytes(each) for each in variants]
    is_smaller = flash[0] <= flash[1] and one.rank[3] <= other.rank[3]
    return fast <= slow / MUCH_FASTER or (fast < slow and is_smaller)


def _decided(
    function: Function,
    target: Target,
    options: Options,
    limit_bytes: int | None,
    slow: Decision | None,
) -> Decision | None:
    """The best choice for a target. slow: None unless the choice is much faster than this one.

    None, too, if the menus are hardly faster than `slow`'s.
    """
    ordered = pair_channels(function) if target.paired else function
    ordered, groups = make_menus(ordered, target, options)
    fewest = sum(min(variant.instructions for variant in each.variants) for each in groups)
    if slow is not None and fewest > LEAST_GAIN * slow.fewest:
        return None
    rank, choice = choose(ordered, groups, target, options, limit_bytes=limit_bytes)
    if target.core.has_gpu:
        choice = _for_gpu(ordered, choice, options)
    decision = Decision(ordered, choice, rank, fewest)
    return decision if slow is None or _is_much_faster(decision, slow) else None


def _for_gpu(function: Function, choice: Choice, options: Options) -> Choice:
    """The choice in the order in which groups may run side by side."""
    if options.driver == "block" or options.unfused:
        return choice
    running = side_by_side(function, list(zip(choice.groups, choice.variants, strict=True)))
    groups = tuple(lowered for lowered, _ in running)
    return replace(choice, groups=groups, variants=tuple(variant for _, variant in running))


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
