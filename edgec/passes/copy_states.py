"""Copy states that cannot be computed in their own place.

A state's new value overwrites the old one, so nothing may read the old value afterwards. The new
value is computed in place if

1. a node computes it (it is not a view, parameter or constant), and it is neither an output of the
   model nor another state's new value;
2. every group that reads the state runs before the group that makes the new value, or is that
   group, and has read each byte before it writes over it, in all of its variants.

Every other state gets a `copy` at the end of the function. Where that copy would read another
state, which may be overwritten by then, the value is first copied to the arena. So is an output of
the model that is a state's old value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, State, Value
from edgec.loop.overlap import overlap_distance
from edgec.ops.copy import Copy
from edgec.passes.fuse_groups import storage
from edgec.passes.lower_groups import LoweredGroup, Variant


def copy_states(function: Function, groups: Sequence[LoweredGroup]) -> Function:
    """The function with the copies that its states need; itself if they need none.

    `groups` are the function's, lowered. After fusing the result the same groups are there, and
    one for each copy.
    """
    if not function.states:
        return function
    roots = storage(function)
    befores = {state.before for state in function.states}
    shown = {roots.get(value, value) for value in function.outputs} & befores
    loose = _needing_copies(function, groups, roots, shown)
    if not loose and not shown:
        return function
    builder = GraphBuilder(function.name)
    for param in function.params:
        builder.adopt(param)
    for node in function.nodes:
        builder.adopt_node(node)
    outputs = [
        _copy(builder, value, f"{value.name}.shown") if roots.get(value, value) in shown else value
        for value in function.outputs
    ]
    copied = {
        state: _copy(builder, state.after, f"{state.before.name}.kept")
        for state in loose
        if roots.get(state.after, state.after) in befores
    }
    moved = {
        state: _copy(builder, copied.get(state, state.after), f"{state.before.name}.after")
        for state in loose
    }
    states = tuple(State(s.before, moved.get(s, s.after), s.initial) for s in function.states)
    results = [*outputs, *(s.after for s in states)]
    return builder.finish(results, states, function.counts)


def _copy(builder: GraphBuilder, value: Value, name: str) -> Value:
    return builder.op(Copy, [value], name=name, origins=[value.origin], sources=())


def _needing_copies(
    function: Function,
    groups: Sequence[LoweredGroup],
    roots: Mapping[Value, Value],
    shown: set[Value],
) -> list[State]:
    """The states that need a copy; states in `shown` are read when the function ends."""
    makers = {v: position for position, g in enumerate(groups) for v in g.group.outputs}
    taken = {roots.get(value, value) for value in function.outputs}
    loose: list[State] = []
    for state in function.states:
        after = state.after
        free = after in makers and _is_free(state, makers[after], groups, roots)
        if not free or after in taken or state.before in shown:
            loose.append(state)
        taken.add(after)
    return loose


def _is_free(
    state: State, made: int, groups: Sequence[LoweredGroup], roots: Mapping[Value, Value]
) -> bool:
    """Whether nothing needs the old value when the group at position `made` writes the new one."""
    for position, lowered in enumerate(groups):
        readers = [v for v in lowered.group.inputs if roots.get(v, v) is state.before]
        if position > made and readers:
            return False
        if position == made and not all(
            _in_place(variant, value, state.after)
            for variant in lowered.variants
            for value in readers
        ):
            return False
    return True


def _in_place(variant: Variant, before: Value, after: Value) -> bool:
    if before in variant.in_place:
        return True
    params = dict(zip(variant.args, variant.function.params, strict=True))
    distance = overlap_distance(variant.function, params[before], params[after])
    return distance is not None and distance <= 0
