"""The nodes that an importer appends: in float32 if needed, folded if constant, named as in the
source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgec.errors import BadNode, EdgecError, ImportFailed, TooLarge
from edgec.graph.builder import GraphBuilder
from edgec.graph.evaluate import ends, evaluate_constant
from edgec.graph.ir import Constant, Value
from edgec.graph.limits import Spending
from edgec.graph.provenance import Origin
from edgec.graph.traits import Storage
from edgec.numerics.work import now_at
from edgec.ops.cast import CastAttrs, cast_to
from edgec.ops.op import Importer, RawNode

#: Operators that know no floats of these are computed in float32.
NARROW = ("float16", "bfloat16")


def imported(builder: GraphBuilder, raw: RawNode, importer: Importer) -> tuple[Value, ...]:
    """The outputs of a node. Of floats of 16 bits that its operator does not know in float32.

    These are rounded to the narrow type at the end. A fault of the importer itself is not hidden.
    """
    first = len(builder.nodes)
    now_at(raw.name)
    try:
        made = importer(builder, raw)
    except (TooLarge, BadNode):
        raise
    except EdgecError as error:
        del builder.nodes[first:]
        narrow = [v.type.dtype for v in raw.inputs if v is not None and v.type.dtype in NARROW]
        if not narrow:
            raise
        try:
            return _widened(builder, raw, importer, narrow[0])
        except EdgecError:
            raise error from None
    return made if isinstance(made, tuple) else (made,)


def _widened(
    builder: GraphBuilder, raw: RawNode, importer: Importer, narrow: str
) -> tuple[Value, ...]:
    """A node in float32, and its results rounded."""
    inputs = [
        cast_to(builder, value, CastAttrs("float32"), f"{raw.name}/wide{number}")
        if value is not None and value.type.dtype in NARROW
        else value
        for number, value in enumerate(raw.inputs)
    ]
    declared = [
        replace(type_, dtype="float32") if type_ is not None and type_.dtype in NARROW else type_
        for type_ in raw.output_types
    ]
    made = importer(builder, replace(raw, inputs=tuple(inputs), output_types=tuple(declared)))
    return tuple(
        cast_to(builder, value, CastAttrs(narrow), f"{raw.name}/{number}")
        if value.type.dtype == "float32"
        else value
        for number, value in enumerate(made if isinstance(made, tuple) else (made,))
    )


def folded(
    builder: GraphBuilder, made: tuple[Value, ...], first: int, spending: Spending
) -> tuple[Value, ...]:
    """Constants where the nodes from number `first` on compute with nothing else.

    Importers need shapes and axes as constants, which exporters compute node by node.
    """
    known: dict[Value, Constant] = {}
    for node in builder.nodes[first:]:
        inputs = [known.get(value, value) for value in node.inputs]
        is_known = all(isinstance(value, Constant) for value in inputs)
        if node.op.storage is Storage.DEQUANTIZE or not is_known or not ends(node):
            return made
        spending.evaluate(node)
        known.update(zip(node.outputs, evaluate_constant(node, inputs), strict=True))
    if not all(value in known or isinstance(value, Constant) for value in made):
        return made
    del builder.nodes[first:]
    return tuple(known.get(value, value) for value in made)


def require_open(
    builder: GraphBuilder, inputs: Sequence[Value | None], made: Sequence[Value]
) -> None:
    """Raise ImportFailed if a node ignored that an input's size depends on data.

    Its importer took the largest size for the actual one.
    """
    opened = [value for value in inputs if value is not None and value in builder.open_axes
              and value not in builder.filled]  # fmt: skip
    builder.filled.clear()
    if opened and any(value not in builder.open_axes for value in made):
        raise ImportFailed(
            f"the number of valid elements of {opened[0]} depends on the data, and the result"
            " of this operator depends on that number",
            hint=f"make {opened[0]} an output of the model, and compute the rest outside of it",
        )


def mentions(builder: GraphBuilder, first: int) -> dict[Value, list[int]]:
    """Indices of the nodes from `first` on that make or read each value, in order."""
    uses: dict[Value, list[int]] = defaultdict(list)
    for at, node in enumerate(builder.nodes[first:], first):
        for value in {*node.inputs, *node.outputs}:
            uses[value].append(at)
    return uses


def is_made(builder: GraphBuilder, value: Value, uses: Mapping[Value, list[int]]) -> bool:
    """Whether one of the nodes that use a value makes it."""
    own = uses.get(value)
    return own is not None and value in builder.nodes[own[0]].outputs


def put_in_place(builder: GraphBuilder, value: Value, fresh: Value, at: Sequence[int]) -> None:
    """Let the nodes at these positions compute and read `fresh` in place of a value.

    A later node may read the value: a variance reads the mean.
    """

    def renamed(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(fresh if v is value else v for v in values)

    for i in at:
        node = builder.nodes[i]
        builder.nodes[i] = replace(node, inputs=renamed(node.inputs), outputs=renamed(node.outputs))


def named(builder: GraphBuilder, value: Value, name: str, uses: Mapping[Value, list[int]]) -> Value:
    """Give a value of the nodes at `uses` the source tensor's name and provenance."""
    if not is_made(builder, value, uses):
        return value
    origin = None if value in builder.undefined else Origin(name, value.type.shape)
    fresh = Value(builder.unique(name), value.type, origin)
    put_in_place(builder, value, fresh, uses[value])
    for axis, number in builder.open_axes.pop(value, {}).items():
        builder.open(fresh, axis, number)
    return fresh
