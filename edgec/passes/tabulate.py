"""Find float arithmetic that depends on one stored int8 value, and tabulate it.

Between dequantize(x) and quantize a QDQ graph may compute anything element by element: an
activation, x * sigmoid(x), a hard swish of several nodes. Each stored value then has one result.
The operators themselves compute all 256, so the table has their bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import get_op
from edgec.graph.types import Array, TensorType
from edgec.ops.lookup import LookupAttrs
from edgec.ops.quantize import Quantize, QuantizeAttrs
from edgec.ops.table import OPERANDS

#: Nodes between a dequantize and a quantize, at most.
MOST_NODES = 32


def is_elementwise(node: Node) -> bool:
    """Whether each element of a float node is made of the same element of its only operand.

    Constants of one element may be operands as well.
    """
    output = node.outputs[0].type
    return (
        node.op.is_elementwise
        and node.op.storage is None
        and len(node.outputs) == 1
        and output.dtype == "float32"
        and all(
            value.type.elements == 1
            if isinstance(value, Constant)
            else value.type.shape == output.shape
            for value in node.inputs
        )
    )


def expression_of(
    value: Value, producer: Callable[[Value], Node | None]
) -> tuple[Value, list[Node]] | None:
    """(source, nodes in order) of a float value that is an elementwise function of one other.

    The source is the first value above that no elementwise node makes; of a value that none makes
    it is the value itself. None for several sources.
    """
    found: dict[Node, None] = {}
    sources: set[Value] = set()

    def visit(current: Value, depth: int) -> None:
        node = producer(current)
        if isinstance(current, Constant):
            return
        if node is None or not is_elementwise(node) or depth >= MOST_NODES:
            sources.add(current)
            return
        if node not in found:
            for operand in node.inputs:
                visit(operand, depth + 1)
            found[node] = None

    visit(value, 0)
    if len(sources) != 1 or len(found) > MOST_NODES:
        return None
    return sources.pop(), list(found)


def tabulate(
    dequantize: Node, nodes: list[Node], result: Value, attrs: QuantizeAttrs
) -> LookupAttrs:
    """The table from the stored input of `dequantize` to quantize(result)."""
    stored = dequantize.inputs[0]
    known: dict[Value, Array] = {stored: OPERANDS.astype(np.int8)}
    types = {stored: TensorType(known[stored].shape, "int8", stored.type.quant)}

    def run(node: Node) -> None:
        arrays, given = [], []
        for value in node.inputs:
            if isinstance(value, Constant):
                arrays.append(value.data.reshape(-1))
                given.append(TensorType((1,), value.type.dtype))
            else:
                arrays.append(known[value])
                given.append(types[value])
        (output,) = node.op.infer(node.attrs, *given)
        (array,) = node.op.evaluate(node.attrs, arrays, given, (output,))
        known[node.output], types[node.output] = array, output

    for node in (dequantize, *nodes):
        run(node)
    op = get_op(Quantize)
    (output,) = op.infer(attrs, types[result])
    (integers,) = op.evaluate(attrs, [known[result]], [types[result]], (output,))
    return LookupAttrs(tuple(int(v) for v in integers), attrs.output)
