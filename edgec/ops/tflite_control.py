"""TFLite's IF, WHILE and STABLEHLO_CASE as if and while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.ops.bodies import Body, closed
from edgec.ops.control import If, While, WhileAttrs
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.tflite_hlo import inlined


@from_tflite("IF", plain_bytes=True)
def import_if(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite IF: one of two subgraphs on all operands but the first."""
    condition, *given = raw.operands()
    types = [value.type for value in given]
    names = ("then_subgraph", "else_subgraph")
    _, bodies = closed([raw.read_body(name, types) for name in names])
    return builder.node(If, [condition, *given], name=raw.name, bodies=bodies).outputs


@from_tflite("STABLEHLO_CASE", plain_bytes=True)
def import_case(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """STABLEHLO_CASE: the subgraph of an index, or the last one where there is none of it."""
    index, *given = raw.operands()
    count = raw.attribute("branches", 0)
    if not count or index.type.dtype != "int32" or index.type.elements != 1:
        raise ImportFailed(f"one of {count} subgraphs by {index.type}")
    types = [value.type for value in given]
    bodies = [raw.read_body(f"branch_subgraph{number}", types) for number in range(count)]
    return _chosen(builder, raw.name, bodies, [index, *given])


def _chosen(
    builder: GraphBuilder, name: str, bodies: Sequence[Body], operands: Sequence[Value]
) -> tuple[Value, ...]:
    """The first body where the index, the first operand, is 0, else the choice of the others."""
    index, *given = operands
    if len(bodies) == 1:
        return inlined(builder, name, bodies[0], given)
    one = builder.constant(f"{name}.one", np.asarray(1, "int32"))
    others = GraphBuilder()
    inner = [others.param(value.name, value.type) for value in operands]
    less = others.op("int_sub", [inner[0], one], name=f"{name}/index{len(bodies)}")
    rest = _chosen(others, f"{name}/of{len(bodies) - 1}", bodies[1:], [less, *inner[1:]])
    first = bodies[0].builder
    first.param("index", index.type)
    first.params.insert(0, first.params.pop())
    _, both = closed([Body(others, list(rest)), bodies[0]])
    return builder.node(If, [index, *operands], name=name, bodies=both).outputs


@from_tflite("WHILE", plain_bytes=True)
def import_while(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite WHILE: run the body subgraph while the condition subgraph holds.

    Operands that the body returns unchanged are not carried.
    """
    inputs = raw.operands()
    types = [value.type for value in inputs]
    head, body = (raw.read_body(name, types) for name in ("cond_subgraph", "body_subgraph"))
    if len(head.results) != 1 or len(body.results) != len(inputs):
        raise ImportFailed(f"its body computes {len(body.results)} values of {len(inputs)}")
    limit = _most_rounds(head, body, inputs)
    params = body.builder.params
    changes = [result is not param for result, param in zip(body.results, params, strict=True)]
    order = sorted(range(len(inputs)), key=lambda position: not changes[position])
    carried = sum(changes)
    for each in (head, body):
        each.builder.params[:] = [each.builder.params[position] for position in order]
    body.results = [body.results[position] for position in order[:carried]]
    _, bodies = closed([head, body])
    node = builder.node(
        While, [inputs[position] for position in order], WhileAttrs(carried, limit),
        name=raw.name, bodies=bodies,
    )  # fmt: skip
    outputs = dict(zip(order, node.outputs, strict=False))
    return tuple(outputs.get(position, value) for position, value in enumerate(inputs))


#: Operators of variables. A frontend runs the main graph's own, since their values are states of
#: the whole model.
VARIABLE_KINDS = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")


def _refuse_variable(builder: GraphBuilder, raw: RawNode) -> Value:
    raise ImportFailed("variables in the bodies of other operators are not supported")


for _kind in VARIABLE_KINDS:
    from_tflite(_kind)(_refuse_variable)


def _most_rounds(head: Body, body: Body, inputs: tuple[Value, ...]) -> int | None:
    """Most rounds of a loop that counts by one from a constant to a constant, else None."""
    made = body.builder.nodes
    found = []
    for node in _parts(head.builder.nodes, head.results[0]):
        count, end = node.inputs
        if node.op.name != "less" or not isinstance(end, Constant):
            continue
        if count not in head.builder.params or end.type.elements != 1:
            continue
        position = head.builder.params.index(count)
        start, param = inputs[position], body.builder.params[position]
        if isinstance(start, Constant) and _adds_one(made, param, body.results[position]):
            found.append(max(int(end.data.item()) - int(start.data.item()), 0))
    return min(found, default=None)


def _parts(nodes: list[Node], value: Value) -> Iterator[Node]:
    """The comparisons that must hold, all of them, for a condition to hold."""
    for node in nodes:
        if value in node.outputs:
            if node.op.name == "logical_and":
                for part in node.inputs:
                    yield from _parts(nodes, part)
            elif len(node.inputs) == 2:
                yield node


def _adds_one(nodes: list[Node], before: Value, after: Value) -> bool:
    for node in nodes:
        if after in node.outputs and node.op.name == "int_add" and before in node.inputs:
            amounts = [v for v in node.inputs if isinstance(v, Constant) and v.type.elements == 1]
            return len(amounts) == 1 and amounts[0].data.item() == 1
    return False
