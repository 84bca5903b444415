"""Chains of functions of one stored int8 value become one table, or nothing.

An element-wise operator whose other operands are scalar constants has one result for each of the
256 stored values. The operators themselves compute all results.

1. A function that turns every stored value into itself is another view of the same bytes.
2. Two functions in a row are one table.
3. Arithmetic on many elements is a table: that is less than half of its instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Storage
from edgec.graph.types import Array, TensorType
from edgec.ops.lookup import Lookup, LookupAttrs
from edgec.ops.reinterpret import Reinterpret, ReinterpretAttrs
from edgec.ops.table import OPERANDS
from edgec.passes.rewriter import Rewriter

#: The least number of elements for which a table of 256 bytes is used.
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
        first = self._above(rewriter, node, source)
        sources = node.sources
        if first is not None:
            above, earlier = first
            table = table[earlier.astype(np.int64) + 128]
            (source,) = above.activations
            sources = (*above.sources, *node.sources)
        renamed = rewriter.producer(source)
        if renamed is not None and renamed.op.storage is Storage.REINTERPRET:
            (source,) = renamed.inputs
        quant = node.output.type.quant
        assert quant is not None  # `table_of` has seen it
        if np.array_equal(table, OPERANDS):
            if node.output in self._ends:
                return None
            if source.type == node.output.type:
                return (source,)
            renaming = ReinterpretAttrs(quant)
            return rewriter.remake(node, [source], renaming, op=Reinterpret, sources=sources)
        is_worth_it = node.op.rescales and node.output.type.elements >= MANY_ELEMENTS
        if first is None and not is_worth_it:
            return None
        attrs = LookupAttrs(tuple(table.tolist()), quant)
        return rewriter.remake(node, [source], attrs, op=Lookup, sources=sources)

    def _above(self, rewriter: Rewriter, node: Node, source: Value) -> tuple[Node, Array] | None:
        """The node that makes a source for this one alone, and its table, if it is a function."""
        (before,) = node.activations
        above = rewriter.producer(source)
        if above is None or len(self.readers.get(before, [])) != 1 or before in self._ends:
            return None
        table = table_of(above)
        return None if table is None else (above, table)

    @property
    def _ends(self) -> set[Value]:
        """Values that are seen from outside."""
        return {*self.function.results, *(state.after for state in self.function.states)}


def _is_of_one_value(node: Node) -> bool:
    """Whether a node reads one int8 value and numbers, and makes int8 of its shape."""
    data = node.activations
    if len(data) != 1 or len(node.outputs) != 1 or data[0].type.shape != node.output.type.shape:
        return False
    if any(value.type.elements != 1 for value in node.inputs if isinstance(value, Constant)):
        return False
    return all(
        type_.dtype == "int8" and type_.quant is not None and type_.quant.per_tensor
        for type_ in (data[0].type, node.output.type)
    )


def table_of(node: Node) -> Array | None:
    """The int8 results of -128..127, int8 [256], if the node is a function of each element alone.

    Of one value that is not constant, int8 and quantized per tensor as the result is.
    """
    if not node.op.is_elementwise or not _is_of_one_value(node):
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
    except TypeMismatch:  # it treats channels differently
        return None
    (table,) = node.op.evaluate(node.attrs, arrays, types, outputs)
    return np.asarray(table)
