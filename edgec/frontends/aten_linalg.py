"""ATen operators of linear algebra, and products of matrices that are chosen in groups."""

from __future__ import annotations

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.aten import Call, Operand, Result, aten, ints, library
from edgec.graph.ir import Value
from edgec.ops.linear_equations import Cholesky, Solve


@aten("linalg_inv_ex.default")
def inverse(call: Call, x: Value, check_errors: bool = False) -> Result:
    """The inverse; where there is none, infinities and NaN, without the error of torch."""
    return _solution(call, x, np.eye(x.type.shape[-1], dtype=x.type.dtype)), _no_error(call, x)


@aten("_linalg_solve_ex.default")
def solve(call: Call, a: Value, b: Value, left: bool = True, check_errors: bool = False) -> Result:
    """x of a @ x = b, or of x @ a = b; b may be one vector."""
    if {1, 2} & call.used:
        raise ImportFailed("edgec does not compute the LU factors, which this module uses")
    if len(b.type.shape) == 1 or b.type.shape == a.type.shape[:-1]:
        b = call.shaped(b, (*b.type.shape, 1))
    return call.shaped(_from_side(call, a, b, left), call.shape), None, None, _no_error(call, a)


@aten("linalg_solve_triangular.default")
def solve_triangular(call: Call, a: Value, b: Value, upper: bool, left: bool = True,
                     unitriangular: bool = False) -> Result:  # fmt: skip
    """`solve` of a triangle of a, the other one taken as zeros, and the diagonal as ones."""
    return _from_side(call, _triangle(call, a, upper, unitriangular), b, left)


@aten("linalg_cholesky_ex.default")
def cholesky(call: Call, x: Value, upper: bool = False, check_errors: bool = False) -> Result:
    """The lower triangle whose product with its transpose is x, or the upper one."""
    if not x.type.elements:
        return x, _no_error(call, x)
    made = call.builder.op(Cholesky, [_turned(call, x) if upper else x], name=call.name)
    return _turned(call, made) if upper else made, _no_error(call, x)


@aten("_linalg_det.default")
def determinant(call: Call, x: Value) -> Result:
    if {1, 2} & call.used:
        raise ImportFailed("edgec does not compute the LU factors, which this module uses")
    return _determinant(call, x), None, None


@aten("_linalg_slogdet.default")
def sign_and_logarithm(call: Call, x: Value) -> Result:
    """The signs of determinants, and the logarithms of their magnitudes."""
    if {2, 3} & call.used:
        raise ImportFailed("edgec does not compute the LU factors, which this module uses")
    made = _determinant(call, x)
    return call.onnx("Sign", made), call.onnx("Log", call.onnx("Abs", made)), None, None


@aten("addbmm.default")
def sum_of_products(call: Call, x: Value, a: Value, b: Value, beta: float = 1,
                    alpha: float = 1) -> Result:  # fmt: skip
    """beta * x + alpha * the sum of a batch of products."""
    total = call.onnx("ReduceSum", call.onnx("MatMul", a, b), ints([0]), keepdims=0)
    parts = [call.onnx("Mul", y, call.like(factor, call.dtype)) if factor != 1 else y
             for y, factor in ((x, beta), (total, alpha))]  # fmt: skip
    return parts[1] if beta == 0 else call.onnx("Add", *parts)


@library("transformers", "grouped_mm_fallback.default")
def grouped_product(call: Call, x: Value, weights: Value, ends: Value) -> Result:
    """Each row of x by the matrix of its group; group n are the rows below ends[n].

    So Hugging Face's transformers compute experts, with rows in their order: each gathers its
    matrix.
    """
    rows, columns = call.shape
    numbers = np.arange(rows, dtype=ends.type.dtype)[:, None]
    past = call.onnx("LessOrEqual", call.shaped(ends, (1, ends.type.elements)), numbers)
    group = call.onnx("ReduceSum", call.cast(past, "int64"), ints([1]), keepdims=0)
    last = np.asarray(weights.type.shape[0] - 1, np.int64)  # of rows after all groups
    chosen = call.onnx("Gather", weights, call.onnx("Min", group, last), axis=0)
    product = call.onnx("MatMul", call.shaped(x, (rows, 1, x.type.shape[1])), chosen)
    return call.shaped(product, (rows, columns))


def _determinant(call: Call, x: Value) -> Value:
    """ONNX's, and 1 of matrices without elements."""
    if x.type.elements:
        return call.onnx("Det", x)
    return call.builder.constant(call.name, np.ones(x.type.shape[:-2], x.type.dtype))


def _from_side(call: Call, a: Value, b: Value, left: bool) -> Value:
    """x of a @ x = b, or of x @ a = b."""
    if left:
        return _solution(call, a, b)
    return _turned(call, _solution(call, _turned(call, a), _turned(call, b)))


def _solution(call: Call, a: Value, b: Operand) -> Value:
    """x of a @ x = b, after broadcasting of the leading axes."""
    if not a.type.elements:
        return call.builder.constant(call.name, np.zeros(call.shape, a.type.dtype))
    operands = [a, call.value(b)]
    shapes = [x.type.shape for x in operands if x is not None]
    outer = np.broadcast_shapes(*(shape[:-2] for shape in shapes))
    whole = [call.onnx("Expand", x, ints((*outer, *shape[-2:]))) if shape[:-2] != outer else x
             for x, shape in zip(operands, shapes, strict=True)]  # fmt: skip
    return call.builder.op(Solve, [call.onnx("Concat", *whole, axis=-1)], name=call.name)


def _turned(call: Call, x: Value) -> Value:
    """The transposes of matrices."""
    rank = len(x.type.shape)
    return call.onnx("Transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


def _triangle(call: Call, x: Value, upper: bool, of_ones: bool) -> Value:
    """A triangle of matrices, zeros elsewhere; of_ones: the diagonal is taken as ones."""
    whole = np.ones(x.type.shape[-2:], bool)
    inside = np.triu(whole, int(of_ones)) if upper else np.tril(whole, -int(of_ones))
    rest = np.eye(whole.shape[0], dtype=x.type.dtype) * of_ones
    return call.onnx("Where", inside, x, rest.astype(x.type.dtype))


def _no_error(call: Call, x: Value) -> Value:
    """torch's status of each matrix: 0, no error."""
    return call.builder.constant(f"{call.name}.info", np.zeros(x.type.shape[:-2], np.int32))
