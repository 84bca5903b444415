"""Copies an output to its own memory where no step would write it there.

A view has no code: it shares another value's bytes. That is not enough for an output

1. that is a constant, which lies in flash;
2. that is a view of an input, where the input does not lie in the arena (`--io caller`, `rows`);
3. that has the same bytes as an output before it, where each output lies in memory of the caller;
4. that is asked to lie in a certain place, where it could not be computed (`every`).

Each of these becomes a `copy`.
"""

from __future__ import annotations

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Function, Value
from edgec.ops.copy import Copy
from edgec.options import Io
from edgec.passes.fuse_groups import storage


def copy_outputs(function: Function, io: Io, *, every: bool = False) -> Function:
    """The function with these copies, or with one of every output; itself if it needs none."""
    roots = storage(function)
    outside = set(function.inputs) if io != "arena" else set()
    taken: set[Value] = set()
    copied: list[int] = []
    for number, value in enumerate(function.outputs):
        root = roots.get(value, value)
        if (
            every
            or isinstance(root, Constant)
            or root in outside
            or (io == "caller" and root in taken)
        ):
            copied.append(number)
        taken.add(root)
    if not copied:
        return function
    builder = GraphBuilder(function.name)
    for param in function.params:
        builder.adopt(param)
    for node in function.nodes:
        builder.adopt_node(node)
    results = list(function.results)
    for number in copied:
        value = results[number]
        results[number] = builder.op(
            Copy, [value], name=f"{value.name}.copy", origins=[value.origin], sources=()
        )
    return builder.finish(results, function.states, function.counts)
