"""The order of groups with the smallest live peak: from lowered groups to `order` and back."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.graph.ir import Constant, Function
from edgec.memory.layout import variant_distances
from edgec.memory.order import Step, smallest_order
from edgec.passes.fuse_groups import storage
from edgec.passes.lower_groups import LoweredGroup

#: Sets of groups looked at: enough for some branches side by side, a second or so.
STATE_LIMIT = 5_000


def reordered(function: Function, groups: Sequence[LoweredGroup]) -> tuple[LoweredGroup, ...]:
    """The groups in the order with the smallest live peak; as given where none is smaller.

    Every group counts with its variant that needs the least scratch. Models with state keep their
    order, which says when a state may be overwritten.
    """
    if function.states:
        return tuple(groups)
    roots = storage(function)
    sizes = {v.name: v.type.nbytes for v in function.values() if v not in roots}
    steps = []
    for lowered in groups:
        group = lowered.group
        variant = min(lowered.variants, key=lambda v: (v.scratch_bytes, v.instructions))
        distances = variant_distances(variant, group.output, roots)
        distances |= {roots.get(v, v): 0 for v in variant.same_place}
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
    return tuple(groups[position] for position in order.positions)
