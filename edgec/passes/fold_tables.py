"""Chains of functions of one stored int8 value become one table, or nothing.

What an operator makes of each element alone, the others being constants of one element, has one
answer for each of the 256 stored values. The operators themselves compute all of them.

1. A function that turns every stored value into itself is another view of the same bytes.
2. Two functions behind one another are one table.
3. Arithmetic on many elements is a table: that is less than half of its instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.operator import Operator
from edgec.graph.traits import Storage
from edgec.graph.types import Array, TensorType
from edgec.ops.lookup import Lookup, LookupAttrs
from edgec.ops.reinterpret import Reinterpret, ReinterpretAttrs
from edgec.ops.table import OPERANDS
from edgec.passes.rewriter import Rewriter

#: From so many elements on a table of 256 bytes is worth it.
MANY_ELEMENTS = 2048


def fold_tables(function: Function) -> Function:
    """The function with at most one table where there were several functions of one value."""
    return Rewriter(function).run(_Fold(function))


class _Fold:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.readers = function.consumers()

    def __call__(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        table = table_of(node)
        if table is None:
            return None
        (source,) = (value for value in inputs if not isinstance(value, Constant))
        (before,) = (value for value in node.inputs if not isinstance(value, Constant))
        above = rewriter.producer(source)
        sources = node.sources
        is_chain = False
        if above is not None and len(self.readers.get(before, [])) == 1:
            first = table_of(above) if before not in self._ends else None
            if first is not None:
                table, is_chain = table[first.astype(np.int64) + 128], True
                (source,) = (value for value in above.inputs if not isinstance(value, Constant))
                sources = (*above.sources, *node.sources)
        above = rewriter.producer(source)
        if above is not None and above.op.storage is Storage.REINTERPRET:
            (source,) = above.inputs
        output = node.output
        assert output.type.quant is not None  # `table_of` has seen it
        op: type[Operator[Any]]
        attrs: ReinterpretAttrs | LookupAttrs
        is_worth_it = node.op.rescales and output.type.elements >= MANY_ELEMENTS
        if np.array_equal(table, OPERANDS):
            if output in self._ends:
                return None
            if source.type == output.type:
                return (source,)
            op, attrs = Reinterpret, ReinterpretAttrs(output.type.quant)
        elif is_chain or is_worth_it:
            op, attrs = Lookup, LookupAttrs(tuple(table.tolist()), output.type.quant)
        else:
            return None
        return rewriter.remake(node, [source], attrs, op=op, sources=sources)

    @property
    def _ends(self) -> set[Value]:
        """Values that are seen from outside."""
        return {*self.function.results, *(state.after for state in self.function.states)}


def table_of(node: Node) -> Array | None:
    """The int8 results of -128..127, int8 [256], if the node is a function of each element alone.

    Of one value that is not constant, int8 and quantized per tensor as the result is.
    """
    if not node.op.is_elementwise or len(node.outputs) != 1:
        return None
    data = [value for value in node.inputs if not isinstance(value, Constant)]
    if len(data) != 1 or data[0].type.shape != node.output.type.shape:
        return None
    if any(value.type.elements != 1 for value in node.inputs if isinstance(value, Constant)):
        return None
    for type_ in (data[0].type, node.output.type):
        if type_.dtype != "int8" or type_.quant is None or not type_.quant.per_tensor:
            return None
    arrays, types = [], []
    for value in node.inputs:
        if isinstance(value, Constant):
            arrays.append(value.data.reshape(1))
        else:
            arrays.append(OPERANDS.astype(np.int8))
        types.append(TensorType(arrays[-1].shape, value.type.dtype, value.type.quant))
    try:
        outputs = node.op.infer(node.attrs, *types)
    except TypeMismatch:  # it tells channels apart
        return None
    (table,) = node.op.evaluate(node.attrs, arrays, types, outputs)
    return np.asarray(table)
