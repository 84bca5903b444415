"""Orders of groups with a small live peak: from lowered groups to `order` and back."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.graph.ir import Constant, Function
from edgec.memory.layout import variant_distances
from edgec.memory.order import Step, smallest_order
from edgec.passes.fuse_groups import storage
from edgec.passes.lower_groups import LoweredGroup, Variant

#: Sets of groups looked at: enough for some branches side by side, a second or so.
STATE_LIMIT = 5_000


def orders(
    function: Function, groups: Sequence[LoweredGroup]
) -> tuple[tuple[LoweredGroup, ...], ...]:
    """The groups as given, and in other orders in which fewer bytes live at once.

    Live bytes depend on the variants: one order is for the variants with the least scratch, one for
    the fastest. Models with states keep their order, which decides when a state may be overwritten.
    """
    found = [tuple(groups)]
    for variants in (
        [min(g.variants, key=lambda v: (v.scratch_bytes, v.instructions)) for g in groups],
        [min(g.variants, key=lambda v: (v.instructions, v.scratch_bytes)) for g in groups],
    ):
        ordered = tuple(groups[i] for i in best_order(function, groups, variants))
        if ordered not in found:
            found.append(ordered)
    return tuple(found)


def best_order(
    function: Function, groups: Sequence[LoweredGroup], variants: Sequence[Variant]
) -> tuple[int, ...]:
    """Positions of the groups, which run in these variants, in the order that keeps least alive.

    The given order if none is better.
    """
    if function.states:
        return tuple(range(len(groups)))
    roots = storage(function)
    sizes = {v.name: v.type.nbytes for v in function.values() if v not in roots}
    steps = []
    for lowered, variant in zip(groups, variants, strict=True):
        group = lowered.group
        distances = variant_distances(variant, group.output, roots)
        distances |= {roots.get(v, v): 0 for v in variant.in_place}
        size = group.output.type.nbytes
        savings = tuple(
            (root.name, group.output.name, min(root.type.nbytes, size - max(distance, 0)))
            for root, distance in distances.items()
            if distance < size
        )
        reads = dict.fromkeys(
            roots.get(v, v).name for v in group.inputs if not isinstance(v, Constant)
        )
        writes = tuple(value.name for value in group.outputs)
        steps.append(Step(group.name, tuple(reads), writes, variant.scratch_bytes, savings))
    order = smallest_order(
        steps,
        sizes,
        inputs=[v.name for v in function.inputs],
        results=[roots.get(v, v).name for v in function.results if not isinstance(v, Constant)],
        state_limit=STATE_LIMIT,
    )
    return order.positions
