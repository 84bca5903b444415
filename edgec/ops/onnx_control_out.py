"""if, while, scan and call as ONNX's If, Loop and Scan.

Bodies are closed here, but ONNX's subgraphs can read outer tensors, so fixed arguments become outer
tensors. A while computes its condition before the first round and at the end of each, as Loop wants
it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from edgec.graph.ir import Node
from edgec.graph.types import TensorType
from edgec.ops.onnx_graph import OnnxGraph, own_operands

#: The code of bool in ONNX.
BOOL = 9
ROUND, FLAG = TensorType((), "int64"), TensorType((), "bool")


def write_if(out: OnnxGraph, node: Node) -> None:
    """Both bodies as graphs without inputs."""
    condition, *given = own_operands(out, node)
    results = [value.type for value in node.outputs]
    then, otherwise = (
        out.graph(f"{node.name}.{name}", (), results, partial(out.body, body, given))
        for name, body in zip(("then", "else"), node.bodies, strict=True)
    )
    flag = _flag(out, condition, node.inputs[0].type)
    outputs = [out.define_own(value) for value in node.outputs]
    out.emit_several("If", [flag], outputs, then_branch=then, else_branch=otherwise)


def write_while(out: OnnxGraph, node: Node) -> None:
    """A Loop whose body says at the end of each iteration whether to go on."""
    condition, body = node.bodies
    count, limit = node.attrs.carried, node.attrs.limit
    given = own_operands(out, node)
    carried, fixed = _carried(out, node, count), given[count:]
    answer = condition.results[0].type

    def write() -> list[str]:
        after = out.body(body, [*carried, *fixed])
        return [_flag(out, out.body(condition, [*after, *fixed])[0], answer), *after]

    starts = _flag(out, out.body(condition, given)[0], answer)
    most = "" if limit is None else out.initializer(f"{node.name}.most", np.array(limit, np.int64))
    _write_loop(out, node, [most, starts, *given[:count]], carried, write)


def write_scan(out: OnnxGraph, node: Node) -> None:
    """A Scan, or a Loop with a fixed number of iterations where nothing is scanned."""
    (body,), attrs = node.bodies, node.attrs
    last = attrs.carried + attrs.scanned
    given = own_operands(out, node)
    carried, fixed = _carried(out, node, last), given[last:]
    if not attrs.scanned:
        most = out.initializer(f"{node.name}.rounds", np.array(attrs.steps, np.int64))
        on = out.initializer(f"{node.name}.on", np.array(True))
        inputs = [most, on, *given[:last]]
        _write_loop(out, node, inputs, carried, lambda: [on, *out.body(body, [*carried, *fixed])])
        return
    params = [value.type for value in body.params[:last]]
    results = [value.type for value in body.results]
    graph = out.graph(
        f"{node.name}.body", list(zip(carried, params, strict=True)), results,
        lambda: out.body(body, [*carried, *fixed]),
    )  # fmt: skip
    outputs = [out.define_own(value) for value in node.outputs]
    out.emit_several("Scan", given[:last], outputs, body=graph, num_scan_inputs=attrs.scanned)


def write_call(out: OnnxGraph, node: Node) -> None:
    """The nodes of the body, inlined."""
    results = out.body(node.bodies[0], own_operands(out, node))
    for value, tensor in zip(node.outputs, results, strict=True):
        out.emit("Identity", [tensor], out.define_own(value))


def _carried(out: OnnxGraph, node: Node, count: int) -> list[str]:
    """Names for the values that change between rounds."""
    return [out.fresh(f"{node.name}.{value.name}") for value in node.inputs[:count]]


def _write_loop(
    out: OnnxGraph,
    node: Node,
    inputs: list[str],
    carried: list[str],
    write: Callable[[], list[str]],
) -> None:
    """carried: the names of the first inputs after the limit and the condition, in the body."""
    types = [value.type for value in node.inputs[: len(carried)]]
    places = [
        (out.fresh(f"{node.name}.round"), ROUND), (out.fresh(f"{node.name}.holds"), FLAG),
        *zip(carried, types, strict=True),
    ]  # fmt: skip
    slices = [value.type for value in node.outputs[len(carried) :]]
    results = [FLAG, *types, *(each.with_shape(each.shape[1:]) for each in slices)]
    graph = out.graph(f"{node.name}.body", places, results, write)
    outputs = [out.define_own(value) for value in node.outputs]
    out.emit_several("Loop", inputs, outputs, body=graph)


def _flag(out: OnnxGraph, tensor: str, type_: TensorType) -> str:
    """A condition as one bool without axes."""
    if type_.dtype != FLAG.dtype:
        given, tensor = tensor, out.fresh(f"{tensor}.flag")
        out.emit("Cast", [given], tensor, to=BOOL)
    if type_.shape:
        given, tensor = tensor, out.fresh(f"{tensor}.scalar")
        shape = out.initializer(f"{tensor}.shape", np.zeros(0, np.int64))
        out.emit("Reshape", [given, shape], tensor)
    return tensor
