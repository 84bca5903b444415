"""Softmax of floats of 16 bits: every operation is rounded to them, as ONNX defines it.

ONNX's own definition is exp(x - m) / sum(exp(x - m)) with m the largest element. ONNX's evaluator
rounds a sum of float16 once, and one of bfloat16 at each step. The sum of a long row would lose
its small elements so: beyond MOST_STEPS it is rounded once, too.
"""

from __future__ import annotations

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.add import AddAttrs
from edgec.ops.op import RawNode, axis_of
from edgec.ops.parts import Parts
from edgec.ops.reduce import ReduceAttrs

#: The dtypes that it takes.
ROUNDED = ("float16", "bfloat16")
#: Most elements of a bfloat16 sum that is rounded at each step.
MOST_STEPS = 8


def rounded_softmax(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Softmax since opset 13, of an input of one of ROUNDED."""
    parts, (x,) = Parts(builder, raw), raw.operands(1)
    dtype = x.type.dtype
    axis = axis_of(int(raw.attribute("axis", -1)), len(x.type.shape))

    def rounded(value: Value, what: str) -> Value:
        return parts.cast(parts.cast(value, dtype, f"{what}.rounded"), "float32", f"{what}.wide")

    def reduced(value: Value, kind: str) -> Value:
        return parts.op("reduce", [value], ReduceAttrs((axis,), kind), kind)

    wide = parts.cast(x, "float32", "wide")
    most = reduced(wide, "max")
    less = rounded(parts.op("sub", [wide, most], AddAttrs(), "sub"), "less")
    powers = rounded(parts.op("exp", [less], what="exp"), "exp")
    by_step = dtype == "bfloat16" and x.type.shape[axis] <= MOST_STEPS
    total = rounded(reduced(powers, "sum_bfloat16" if by_step else "sum"), "total")
    return parts.cast(parts.op("div", [powers, total], what="div"), dtype)
