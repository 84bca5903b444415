"""solve, cholesky: systems of linear equations, and roots of matrices, of floats.

A singular matrix, or one that is not positive definite, results in infinities and NaN, as in
torch's unchecked functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Definition, Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, index, intrinsic, select
from edgec.ops.broadcast import operand_tensors
from edgec.ops.det import matrices, number_of, turned_to_pivot
from edgec.ops.op import Op
from edgec.ops.row import FLOATS


class _ByColumns(Op[NoAttrs], ABC):
    """Operators that go column by column. tolerance: for well-conditioned matrices."""

    fusion = Fusion.OPAQUE
    tolerance = 1e-4

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The matrices are square."""
        (x,) = inputs
        if x.dtype not in FLOATS or len(x.shape) < 2 or not self.fits(*x.shape[-2:]):
            raise TypeMismatch(f"{self.name} of {x}: it needs matrices of floats, {self.needs}")
        if not x.elements:
            raise TypeMismatch(f"{self.name} of matrices without elements")
        return (x.with_shape((*x.shape[:-1], self.columns(*x.shape[-2:]))),)

    def steps(self, attrs: NoAttrs, inputs: Types) -> int:
        """Each column is gone through row by row."""
        return 4 * inputs[0].shape[-2] ** 2

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A step for each column."""
        (x,) = operand_tensors(target, inputs)
        define = target.definition
        assert target.target is not None
        rows = matrices(define, x)
        height, width = rows.shape[1:]
        with define.steps("columns", height):
            self.step(define, rows)
        first = width - self.columns(height, width)

        def element(*at: Any) -> Value:
            return self.result(rows[number_of(at[:-2], x.shape[:-2]), at[-2], at[-1] + first], at)

        return define.compute(
            target.target, element, shape=(*x.shape[:-1], self.columns(height, width))
        )

    needs: str

    @abstractmethod
    def fits(self, height: int, width: int) -> bool:
        """Whether matrices can be of this size."""

    @abstractmethod
    def columns(self, height: int, width: int) -> int:
        """Number of columns of the result."""

    @abstractmethod
    def step(self, define: Definition, rows: Tensor) -> None:
        """The update of the matrices for column t."""

    def result(self, value: Value, at: tuple[Any, ...]) -> Value:
        """The final value of an element."""
        return value


@register
class Solve(_ByColumns):
    """x [..., N, N + M], a matrix a and then b -> [..., N, M], with a @ result = b.

    By Gauss and Jordan, with the largest pivot of each column.
    """

    name = "solve"
    needs = "at least one column wider than high"

    def fits(self, height: int, width: int) -> bool:
        """a is square, and something is equal to it."""
        return width > height

    def columns(self, height: int, width: int) -> int:
        """The extents of b."""
        return width - height

    def step(self, define: Definition, rows: Tensor) -> None:
        """The pivot's row is divided by it, and every other row loses its part of that column."""
        _, turned = turned_to_pivot(define, rows)
        batch, _, width = rows.shape
        quotients = define.compute(
            "quotients", lambda t, b, j: turned[b, t, j] / turned[b, t, t],
            shape=(batch, width), dtype=rows.dtype,
        )  # fmt: skip

        def eliminated(t: Any, b: Any, i: Any, j: Any) -> Value:
            less = turned[b, i, j] - turned[b, i, t] * quotients[b, j]
            return select(index(i).equals(index(t)), quotients[b, j], less)

        define.compute(rows, eliminated, name="eliminate")


@register
class Cholesky(_ByColumns):
    """x [..., N, N], symmetric and positive definite -> lower triangles l, with l @ l^T = x.

    Only the lower triangle of x is read.
    """

    name = "cholesky"
    needs = "as wide as high"

    def fits(self, height: int, width: int) -> bool:
        """Square ones."""
        return width == height

    def columns(self, height: int, width: int) -> int:
        """All."""
        return width

    def step(self, define: Definition, rows: Tensor) -> None:
        """Column t is divided by its diagonal's root; columns after it lose its products."""
        batch, size, _ = rows.shape
        roots = define.compute("roots", lambda t, b: _root(rows[b, t, t]), shape=(batch,),
                               dtype=rows.dtype)  # fmt: skip
        column = define.compute("column", lambda t, b, i: rows[b, i, t] / roots[b],
                                shape=(batch, size), dtype=rows.dtype)  # fmt: skip

        def reduced(t: Any, b: Any, i: Any, j: Any) -> Value:
            less = rows[b, i, j] - column[b, i] * column[b, j]
            after = select(index(j) > index(t), less, rows[b, i, j])
            return select(index(j).equals(index(t)), column[b, i], after)

        define.compute(rows, reduced, name="reduce")

    def result(self, value: Value, at: tuple[Any, ...]) -> Value:
        """Zeros above the diagonal."""
        return select(index(at[-1]) > index(at[-2]), 0.0, value)


def _root(value: Value) -> Value:
    if value.dtype == "float32":
        return intrinsic("sqrt_f32", value)
    return cast(intrinsic("pow_f64", cast(value, "float64"), 0.5), value.dtype)
