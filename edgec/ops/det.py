"""det: determinants of square matrices, by elimination with the largest pivot of each column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Definition, Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, index, maximum, select
from edgec.ops.broadcast import operand_tensors
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.row import FLOATS


@register
class Det(Op[NoAttrs]):
    """x [..., M, M] of floats -> [...]."""

    name = "det"
    fusion = Fusion.OPAQUE
    tolerance = 1e-5
    onnx_name = "Det"

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One number for each matrix."""
        (x,) = inputs
        if x.dtype not in FLOATS or len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
            raise TypeMismatch(f"det of {x}: it needs square matrices of floats")
        if not x.shape[-1]:
            raise TypeMismatch("det of matrices without elements")
        return (x.with_shape(x.shape[:-2]),)

    def steps(self, attrs: NoAttrs, inputs: Types) -> int:
        """The pivot of each column is looked for row by row."""
        return 4 * inputs[0].shape[-1] ** 2

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A step for each column: find its pivot, swap rows, and subtract from those below."""
        (x,) = operand_tensors(target, inputs)
        define = target.definition
        assert target.target is not None
        rows = matrices(define, x)
        product = define.compute("product", lambda b: 1.0, shape=rows.shape[:1], dtype=x.dtype)

        with define.steps("columns", rows.shape[1]):
            _eliminate(define, rows, product)

        def element(*at: Any) -> Value:
            return product[number_of(at, x.shape[:-2])]

        return define.compute(target.target, element, shape=x.shape[:-2])


def matrices(define: Definition, x: Tensor) -> Tensor:
    """The last two axes of a tensor as matrices to work on, the others as one axis."""
    outer = x.shape[:-2]

    def given(b: Any, i: Any, j: Any) -> Value:
        strides = zip(_strides(outer), outer, strict=True)
        return x[(*(b // stride % extent for stride, extent in strides), i, j)]

    return define.compute("rows", given, shape=(math.prod(outer), *x.shape[-2:]), dtype=x.dtype)


def number_of(at: Sequence[Any], outer: Sequence[int]) -> Any:
    """Which of the matrices stands at this place of the outer axes."""
    return sum((a * s for a, s in zip(at, _strides(outer), strict=True)), 0)


def _strides(outer: Sequence[int]) -> list[int]:
    return [math.prod(outer[axis + 1 :]) for axis in range(len(outer))]


def turned_to_pivot(define: Definition, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Step t: which row from t on has the largest element in column t; it and row t swapped."""
    shape = rows.shape

    def magnitude(b: Any, i: Any, t: Any) -> Value:
        value: Value = maximum(rows[b, i, t], -rows[b, i, t])
        return value

    def larger(acc: Value, t: Any, b: Any, i: Any) -> Value:
        is_below = (index(i) > index(t)) & (magnitude(b, i, t) > magnitude(b, acc, t))
        return select(is_below, index(i), acc)

    pivot = define.reduce(
        "pivot", [("i", 0, shape[1])], init=lambda t, b: index(t), update=larger,
        shape=shape[:1], dtype="int32",
    )  # fmt: skip

    def swapped(t: Any, b: Any, i: Any, j: Any) -> Value:
        row = select(index(i).equals(index(t)), pivot[b], index(i))
        return rows[b, select(index(i).equals(pivot[b]), index(t), row), j]

    return pivot, define.compute("turned", swapped, shape=shape, dtype=rows.dtype)


def _eliminate(define: Definition, rows: Tensor, product: Tensor) -> None:
    """One step: the pivot comes to the diagonal, and into the product; rows below lose theirs."""
    pivot, turned = turned_to_pivot(define, rows)

    def multiplied(t: Any, b: Any) -> Value:
        is_own = pivot[b].equals(index(t))
        return product[b] * select(is_own, turned[b, t, t], -turned[b, t, t])

    def eliminated(t: Any, b: Any, i: Any, j: Any) -> Value:
        diagonal = turned[b, t, t]
        divisor = select(diagonal.equals(0.0), diagonal * 0.0 + 1.0, diagonal)
        less = turned[b, i, j] - turned[b, i, t] / divisor * turned[b, t, j]
        return select(index(i) > index(t), less, turned[b, i, j])

    define.compute(product, multiplied, name="multiply")
    define.compute(rows, eliminated, name="eliminate")


@from_onnx("Det", since=11)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX Det."""
    return builder.op(Det, raw.operands(1), name=raw.name)
