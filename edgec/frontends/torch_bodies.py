"""`torch.cond`, `while_loop`, `scan` and `map` as if, while and scan with functions as bodies.

torch passes a body everything that it reads as operands. Constants among them, such as weights,
become constants of the body, so that importers find them; the others are its parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from edgec.errors import EdgecError, TooLarge
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.ops.control import If, Scan, ScanAttrs, While, WhileAttrs


def visit(importer: Any, node: Any, owner: Any) -> None:
    """Import one node of a graph; owner: the module that the graph belongs to."""
    name = getattr(node.target, "__name__", "")
    if node.op == "get_attr":
        importer.values[node.name] = getattr(owner, node.target)
    elif node.op == "call_function" and name in _CONTROL:
        _control(importer, node, _CONTROL[name])
    elif node.op == "call_function":
        importer.node(node)


def _control(importer: Any, node: Any, make: Callable[..., Node | None]) -> None:
    layer = importer.layer(node)
    arguments = importer.mapped(node.args)
    if importer.is_missing(arguments):
        return  # it follows from an unsupported node
    try:
        made = make(importer, layer, *arguments)
    except TooLarge:
        raise
    except EdgecError as error:
        location = importer.location(node, layer)
        importer.problems.append("; ".join((f"{node.target}  {location}: {error.message}",
                                            *error.details)))  # fmt: skip
        return
    if made is not None:
        importer.values[node.name] = made.outputs


def _cond(
    importer: Any, name: str, condition: Value, then: Any, otherwise: Any, operands: Sequence[Value]
) -> Node | None:
    """Both bodies take the operands that are not constants."""
    bodies = [_body(importer, each, operands, 0, name) for each in (then, otherwise)]
    given = [value for value in operands if not isinstance(value, Constant)]
    return _node(importer, If, [condition, *given], None, name, bodies)


def _while_loop(
    importer: Any, name: str, condition: Any, body: Any, carried: Sequence[Value],
    fixed: Sequence[Value],
) -> Node | None:  # fmt: skip
    """A carried value may start as a constant, but is a parameter."""
    operands = [*carried, *fixed]
    bodies = [_body(importer, each, operands, len(carried), name) for each in (condition, body)]
    given = [*carried, *(value for value in fixed if not isinstance(value, Constant))]
    return _node(importer, While, given, WhileAttrs(len(carried)), name, bodies)


def _scan(
    importer: Any, name: str, body: Any, carried: Sequence[Value], scanned: Sequence[Value],
    fixed: Sequence[Value],
) -> Node | None:  # fmt: skip
    """The body once for every index of the first axis of the scanned inputs."""
    operands = [*carried, *map(_slice, scanned), *fixed]
    opened = len(carried) + len(scanned)
    given = [*carried, *scanned, *(value for value in fixed if not isinstance(value, Constant))]
    attrs = ScanAttrs(scanned[0].type.shape[0], len(carried), len(scanned))
    return _node(
        importer, Scan, given, attrs, name, [_body(importer, body, operands, opened, name)]
    )


def _slice(whole: Value) -> Value:
    """A value of the type that one step takes."""
    return Value(f"{whole.name}.step", whole.type.with_shape(whole.type.shape[1:]))


def _map_impl(
    importer: Any, name: str, body: Any, scanned: Sequence[Value], fixed: Sequence[Value]
) -> Node | None:
    """A scan that carries nothing."""
    return _scan(importer, name, body, (), scanned, fixed)


#: By torch's name, which each function has.
_CONTROL: dict[str, Callable[..., Node | None]] = {
    make.__name__.lstrip("_"): make for make in (_cond, _while_loop, _scan, _map_impl)
}


def _node(
    importer: Any, op: Any, given: Sequence[Value], attrs: Any, name: str,
    bodies: Sequence[Function | None],
) -> Node | None:  # fmt: skip
    """The node, or None if a body has a problem, which the importer records."""
    functions = tuple(body for body in bodies if body is not None)
    if len(functions) < len(bodies):
        return None
    builder: GraphBuilder = importer.builder
    return builder.node(op, given, attrs, name=name, bodies=functions)


def _body(
    importer: Any, module: Any, operands: Sequence[Value], carried: int, name: str
) -> Function | None:
    """The function of a body; the first `carried` operands are parameters in any case."""
    inner = copy.copy(importer)
    inner.builder, inner.values = importer.builder.inner(name), {}
    places = [node for node in module.graph.nodes if node.op == "placeholder"]
    for number, (place, value) in enumerate(zip(places, operands, strict=True)):
        inner.values[place.name] = _taken(inner.builder, value, is_param=number < carried)
    for node in module.graph.nodes:
        visit(inner, node, module)
    results = next(node for node in module.graph.nodes if node.op == "output").args[0]
    made = inner.mapped(list(results) if isinstance(results, (list, tuple)) else [results])
    return None if importer.is_missing(made) else inner.builder.finish(made)


def _taken(builder: GraphBuilder, value: Value, *, is_param: bool) -> Value:
    """The value that represents an operand in a body."""
    if isinstance(value, Constant) and not is_param:
        return builder.constant(value.name, value.data, value.type.quant, value.origin)
    return builder.param(value.name, value.type, value.origin)
