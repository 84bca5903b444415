"""Find float arithmetic that depends on one stored value of int8 or int16, and tabulate it.

Between dequantize(x) and quantize a QDQ graph may compute anything element by element: an
activation, x * sigmoid(x), a hard swish of several nodes. Each stored value then has one result.
The operators themselves compute all 256, so the table has their bits. For int16 they compute all
65,536, and the table has enough of them that lines between them stay near the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import get_op
from edgec.graph.types import Array, TensorType
from edgec.ops.integer_root import IntegerRootAttrs
from edgec.ops.lookup import LookupAttrs
from edgec.ops.lookup_int16 import (
    FEWEST_BITS,
    FINER,
    MOST_BITS,
    OCTAVE_BITS,
    OCTAVES,
    LookupInt16,
    LookupInt16Attrs,
)
from edgec.ops.quantize import Quantize, QuantizeAttrs
from edgec.ops.reinterpret import ReinterpretAttrs
from edgec.ops.table import OPERANDS

#: Tables of int16 grow until they are off by this many steps; one off by more than the second
#: number at its longest is none: the function has a jump, or is steep.
NEAR_STEPS, MOST_STEPS = 1, 64
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
    """The table from the stored int8 input of `dequantize` to quantize(result)."""
    integers, _ = _results(dequantize, nodes, result, attrs, OPERANDS.astype(np.int8))
    return LookupAttrs(tuple(int(v) for v in integers), attrs.output)


def tabulate_int16(
    dequantize: Node, nodes: list[Node], result: Value, attrs: QuantizeAttrs, least: int
) -> LookupInt16Attrs | ReinterpretAttrs | IntegerRootAttrs | None:
    """The same for an int16 input of at least `least`: a table, the identity, or the inverse of a
    root, which is too steep for a table. None if no table is accurate enough.

    Each length is compared with all results. Entries are corrected by half of the lines' error in
    the middle, averaged over both sides.
    """
    operands = np.arange(-32768, 32768).astype(np.int16)
    exact, reals = _results(dequantize, nodes, result, attrs, operands)
    if np.array_equal(exact, operands):
        return ReinterpretAttrs(attrs.output)
    finer = 1 << FINER[attrs.dtype]
    with np.errstate(all="ignore"):
        steps = reals.astype(np.float64) / attrs.output.scale[0] * finer
    info, zero_point = np.iinfo(attrs.dtype), attrs.output.zero_point[0]
    low, high = (finer * (int(end) - zero_point) for end in (info.min, info.max))
    steps = np.clip(np.nan_to_num(steps), max(low, -32768), min(high, 32767))
    steps[operands < least] = steps[least + 32768]
    is_result = (operands >= least) & ~np.isnan(reals)
    even = (_entries(steps, bits) for bits in range(FEWEST_BITS, MOST_BITS + 1))
    found = _nearest(even, attrs, exact, is_result)
    positive = operands > 0
    above = operands[positive].astype(np.float64) * dequantize.inputs[0].type.scalar_quant()[0]
    if found is None and np.allclose(reals[positive], above**-0.5, rtol=1e-6, atol=0):
        return IntegerRootAttrs(attrs.output)
    if found is not None and found.off <= NEAR_STEPS:
        return found
    octaves = (_octave_entries(steps, bits) for bits in OCTAVE_BITS)
    tables = [
        each for each in (found, _nearest(octaves, attrs, exact, is_result)) if each is not None
    ]
    return min(tables, key=lambda table: table.off, default=None)


def _nearest(
    tables: Iterable[Array], attrs: QuantizeAttrs, exact: Array, is_result: Array
) -> LookupInt16Attrs | None:
    """The first table that is near the results, or the last if it is not too far."""
    made = None
    for entries in tables:
        made = LookupInt16Attrs(tuple(int(v) for v in entries), attrs.output, attrs.dtype)
        found = _interpolated(made, np.arange(-32768, 32768).astype(np.int16))
        off = np.abs(found.astype(np.int64) - exact)[is_result].max(initial=0)
        made = replace(made, off=int(off))
        if off <= NEAR_STEPS:
            return made
    return made if made is not None and made.off <= MOST_STEPS else None


def _octave_entries(steps: Array, bits: int) -> Array:
    """The entry for 0, then entries of 2**bits lines for each octave of positive numbers."""
    octaves = 2.0 ** np.arange(OCTAVES)
    at = octaves[:, None] * (1 + np.arange(1 << bits) / (1 << bits))
    zero, positive = steps[32768], np.append(steps[32769:], 2 * steps[-1] - steps[-2])
    entries = np.interp(np.append(at.ravel(), 32768), np.arange(1, 32769), positive)
    return np.asarray(np.clip(np.rint(np.append(zero, entries)), -32768, 32767))


def _entries(steps: Array, bits: int) -> Array:
    """Entries of a table of 2**bits lines for numbers at -32768..32767."""
    reach = len(steps) >> bits
    at = np.append(steps[::reach], 2 * steps[-1] - steps[-2])
    middle = steps[reach // 2 :: reach]
    off = (at[:-1] + at[1:]) / 2 - middle
    both = (np.append(off, off[-1]) + np.append(off[:1], off)) / 2
    return np.asarray(np.clip(np.rint(at - both / 2), -32768, 32767))


def _interpolated(attrs: LookupInt16Attrs, operands: Array) -> Array:
    op = get_op(LookupInt16)
    x = TensorType(operands.shape, "int16", attrs.output)
    (found,) = op.evaluate(attrs, [operands], [x], op.infer(attrs, x))
    return np.asarray(found)


def _results(
    dequantize: Node, nodes: list[Node], result: Value, attrs: QuantizeAttrs, operands: Array
) -> tuple[Array, Array]:
    """quantize(result) for stored operands, and the real results."""
    stored = dequantize.inputs[0]
    known: dict[Value, Array] = {stored: operands}
    types = {stored: TensorType(operands.shape, stored.type.dtype, stored.type.quant)}

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
    return np.asarray(integers), known[result]
