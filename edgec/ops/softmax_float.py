"""Code that softmax and log_softmax of float32 rows share.

With m the largest element of a row, e[i] = exp((x[i] - m) * beta) and s the sum of e, softmax is
e[i] / s and log_softmax is (x[i] - m) * beta - log(s). Every operation is rounded to float32.
Exponentials are computed twice: keeping them would take as much memory as the output.

Rows are added in order. Long rows are added in parts of PART elements, the incomplete part first,
and then the sums of the parts: thousands of small terms added to a sum of 1 one by one are each
rounded to its last bit (Higham, Accuracy and Stability of Numerical Algorithms, 4.2: the error
grows with the number of additions of a term).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Node, Value
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value as LoopValue
from edgec.loop.values import intrinsic, maximum
from edgec.ops.fill_beyond import filled, reopened
from edgec.ops.op import RawNode, axis_of
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.transpose import transposed

#: Elements that are added in order; rows of at least twice this length get a second loop.
PART = 64
#: The tolerance of rows that are added in parts, as of other sums. ONNX Runtime's softmax of 6,625
#: elements, one of them large, is 2.1e-6 off the exact one.
LONG_ROW_TOLERANCE = 2e-6


def is_long(length: int) -> bool:
    """Whether a row is added in parts."""
    return length >= 2 * PART


def lower_rows(
    node: Node,
    target: Lowering,
    x: Tensor,
    beta: float,
    finish: Callable[[LoopValue, LoopValue], LoopValue],
    of_row: Callable[[LoopValue], LoopValue] | None = None,
) -> Tensor:
    """The loops; `finish` makes an element of its difference and the row's sum of exponentials.

    of_row: a function of the sum, applied once for each row.
    """
    *outer, length = x.shape
    define = target.definition
    largest = define.reduce(
        "largest", [("k", 0, length)], init=lambda *row: -math.inf,
        update=lambda acc, *at: maximum(acc, x[at]), shape=tuple(outer), dtype="float32",
    )  # fmt: skip

    def difference(at: tuple[Any, ...]) -> LoopValue:
        value = x[at] - largest[at[:-1]]
        return value if beta == 1 else value * beta

    total = _lower_sums(
        target, tuple(outer), length, lambda at: intrinsic("exp_f32", difference(at))
    )
    if of_row is not None:
        sums = total
        total = define.compute(
            "row", lambda *row: of_row(sums[row]), shape=tuple(outer), dtype="float32"
        )

    def element(*at: Any) -> LoopValue:
        return finish(difference(at), total[at[:-1]])

    return target.compute("element", node.output.type.shape, "float32", element)


def _lower_sums(
    target: Lowering,
    rows: tuple[int, ...],
    length: int,
    term: Callable[[tuple[Any, ...]], LoopValue],
) -> Tensor:
    """The sums of the terms of rows, in the order of `row_exponents`."""
    define = target.definition

    def in_order(name: str, shape: tuple[int, ...], count: int, first: Any = 0) -> Tensor:
        """Sum `count` elements in order after `first`, or after each part of shape's last axis."""

        def at(*index: Any) -> tuple[Any, ...]:
            row, inner = index[: len(rows)], index[len(rows) :]
            start = inner[0] * PART if len(inner) > 1 else first
            return (*row, start + inner[-1])

        return define.reduce(
            name,
            [("k", 0, count)],
            init=lambda *_: 0,
            update=lambda acc, *index: acc + term(at(*index)),
            shape=shape,
            dtype="float32",
        )

    if not is_long(length):
        return in_order("total", rows, length)
    count, left = divmod(length, PART)
    part = in_order("part", (*rows, count), PART)
    rest = in_order("rest", rows, left, count * PART) if left else None
    return define.reduce(
        "total",
        [("part", 0, count)],
        init=lambda *row: 0 if rest is None else rest[row],
        update=lambda acc, *at: acc + part[at],
        shape=rows,
        dtype="float32",
    )


def along_last_axis(builder: GraphBuilder, raw: RawNode, op: str, attrs: Any) -> Value:
    """Append an ONNX node that works along one axis as an operator along the last one.

    From opset 13 on `axis` is that axis (-1); before, all axes from `axis` (1) on are one.
    """
    (x,) = raw.operands(1)
    shape = x.type.shape
    rank = len(shape)
    if raw.opset < 13:
        axis = int(raw.attribute("axis", 1))
        rows = ReshapeAttrs((math.prod(shape[: axis % rank]), math.prod(shape[axis % rank :])))
        flat = builder.op("reshape", [x], rows, name=f"{raw.name}/flatten", sources=(raw.name,))
        made = builder.op(op, [flat], attrs, name=f"{raw.name}/rows", sources=(raw.name,))
        return builder.op("reshape", [made], ReshapeAttrs(shape), name=raw.name)
    axis = axis_of(int(raw.attribute("axis", -1)), rank)
    whole = filled(builder, raw, [axis], -math.inf)
    if whole is not raw:
        return reopened(builder, raw, axis, along_last_axis(builder, whole, op, attrs))
    if axis == rank - 1:
        return builder.op(op, [x], attrs, name=raw.name)
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]  # its own inverse
    swapped = transposed(builder, x, tuple(order), f"{raw.name}/swapped")
    made = builder.op(op, [swapped], attrs, name=f"{raw.name}/rows", sources=(raw.name,))
    return transposed(builder, made, tuple(order), raw.name)
