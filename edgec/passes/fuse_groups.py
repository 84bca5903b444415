"""Group nodes that become one PrimFunc.

A group starts at a node and takes in the element-wise nodes after it while each intermediate
value has one reader and is not a result: a convolution takes its requantize. In a chain of floats,
operators with two operands join, too: their elements stay in registers. A view joins no group: it
is another shape of the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.operator import Fusion
from edgec.ops.cast import CastAttrs


@dataclass(frozen=True)
class Group:
    """Nodes in order; only the last one's outputs are seen from outside.

    inputs: values from outside the group, constants included, each once, in order of use. halves:
    float32 inputs whose numbers all fit in float16.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    halves: frozenset[Value] = frozenset()

    @property
    def name(self) -> str:
        """The model's name of the first node."""
        return self.nodes[0].name

    @cached_property
    def output(self) -> Value:
        return self.outputs[0]

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.nodes[-1].outputs

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s for node in self.nodes for s in node.sources))

    @property
    def activations(self) -> tuple[Value, ...]:
        """The inputs that are not constants."""
        return tuple(value for value in self.inputs if not isinstance(value, Constant))

    @property
    def macs(self) -> int:
        return sum(node.macs for node in self.nodes)


#: Nodes of a group: a schedule moves one temporary after the other, and looks at all each time.
MOST_MEMBERS = 32
#: Whether a group of these nodes does not take in the node that comes next.
IsWhole = Callable[[Sequence[Node], Node], bool]


def fuse_groups(
    function: Function, *, fuse: bool = True, is_whole: IsWhole | None = None
) -> tuple[Group, ...]:
    """All groups in execution order. With `fuse` False every node is a group of its own.

    is_whole: whether a core runs a group faster without the next node.
    """
    consumers, halves = function.consumers(), _halves(function)
    made_at = {v: at for at, node in enumerate(function.nodes) for v in node.outputs}
    taken: set[Node] = set()
    groups: list[Group] = []
    for node in function.nodes:
        if node in taken or node.op.fusion is Fusion.VIEW:
            continue
        members = [node]
        while fuse:
            reader = _next_member(function, consumers, members)
            if reader is None or (is_whole is not None and is_whole(members, reader)):
                break
            others = [v for v in reader.inputs if v is not members[-1].output]
            if any(made_at.get(v, -1) > made_at[node.output] for v in others):
                break  # computed after the group starts, perhaps from its results
            members.append(reader)
        taken.update(members)
        inside = {value for member in members for value in member.outputs}
        inputs = dict.fromkeys(v for m in members for v in m.inputs if v not in inside)
        groups.append(Group(tuple(members), tuple(inputs), halves.intersection(inputs)))
    return tuple(groups)


def _halves(function: Function) -> frozenset[Value]:
    """Values of float32 that float16 was widened to, and other shapes of them."""
    found: set[Value] = set()
    for node in function.nodes:
        is_cast = isinstance(node.attrs, CastAttrs) and node.attrs.dtype == "float32"
        is_view = node.op.fusion is Fusion.VIEW and node.inputs[0] in found
        if is_view or (is_cast and node.inputs[0].type.dtype == "float16"):
            found.add(node.output)
    return frozenset(found)


def _next_member(
    function: Function, consumers: Mapping[Value, Sequence[Node]], members: Sequence[Node]
) -> Node | None:
    """The next node, if it can process each of the group's elements when it is computed."""
    first, last = members[0].op, members[-1]
    if len(members) == MOST_MEMBERS or len(last.outputs) != 1 or last.output in function.results:
        return None
    if first.fusion is Fusion.OPAQUE:
        return None  # its value would have to lie in scratch as a whole
    readers = consumers.get(last.output, [])
    if len(readers) != 1:
        return None
    (reader,) = readers
    if all(map(_is_float_map, (*members, reader))):
        return reader if last.output.type.shape == reader.output.type.shape else None
    if reader.op.fusion is not Fusion.ELEMENTWISE:
        return None
    if first.fusion is Fusion.ELEMENTWISE and first is not reader.op:
        return None  # two plain element-wise nodes gain little; keep dtypes of a group simple
    return reader if reader.activations == (last.output,) else None


def _is_float_map(node: Node) -> bool:
    """Whether each of its elements is made of one element of each input, all of float32."""
    return node.op.is_elementwise and all(
        value.type.dtype == "float32" for value in (*node.inputs, *node.outputs)
    )


def storage(function: Function) -> dict[Value, Value]:
    """Maps each value to the value whose bytes it shares: views lead back to their source."""
    roots: dict[Value, Value] = {}
    for node in function.nodes:
        if node.op.fusion is Fusion.VIEW:
            source = node.inputs[0]
            roots[node.output] = roots.get(source, source)
    return roots
