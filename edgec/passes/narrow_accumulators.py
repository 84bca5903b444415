"""Accumulate in int32 where int64 is declared but no input can need it.

TFLite has int64 accumulators for int16 activations. An accumulator's magnitude is at most |bias| +
2**15 times the sum of its weights' magnitudes, whatever the input and the order of summing. If that
is below 2**31 for every output channel, the bias and with it the accumulators become int32: the
same numbers in half the registers. The rescaling (`tflm16`) stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.numerics.fixed_point import INT32_MAX
from edgec.passes.rewriter import Rewriter


def narrow_accumulators(function: Function) -> Function:
    """The same function with int32 accumulators where they are proven to suffice."""
    return Rewriter(function).run(_visit)


def accumulator_bound(node: Node) -> int | None:
    """The largest absolute value that an accumulator can have at any time; None if unknown."""
    products = node.op.products
    if products is None or node.output.type.is_float:
        return None
    x, weights, bias = node.inputs
    if not isinstance(weights, Constant) or not isinstance(bias, Constant):
        return None
    zero_point = x.type.quant.zero_point[0] if x.type.quant is not None else 0
    limits = np.iinfo(x.type.dtype)
    largest = max(int(limits.max) - zero_point, zero_point - int(limits.min))
    others = tuple(a for a in range(weights.data.ndim) if a != products.outputs)
    sizes = np.abs(weights.data.astype(np.int64)).sum(axis=others)
    bounds = (
        int(size) * largest + abs(int(start)) for size, start in zip(sizes, bias.data, strict=True)
    )
    return max(bounds, default=0)


def _visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.outputs[0].type.dtype != "int64":
        return None
    bound = accumulator_bound(node)
    if bound is None or bound > INT32_MAX:
        return None
    bias = inputs[2]
    assert isinstance(bias, Constant)
    narrow = rewriter.builder.constant(
        bias.name, bias.data.astype(np.int32), bias.type.quant, bias.origin
    )
    return rewriter.remake(node, (*inputs[:2], narrow))
