"""Values with operators, for the lambdas of `edgec.loop.define`.

One Python body has two readings. With index *terms* it builds an expression (`ExprValue`); with
index *arrays* it computes on NumPy arrays, all elements at once (`ArrayValue`). The functions here
(`cast`, `minimum`, `select`, `intrinsic` ...) work on either, and on bare index terms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from operator import methodcaller
from typing import Any, Literal, Union

import numpy as np
import numpy.typing as npt

from edgec.errors import ContractError
from edgec.loop.dtype import integer_range, is_float, is_integer
from edgec.loop.intrinsics import get_intrinsic
from edgec.loop.ir import Binary, Cast, Const, Expr, IndexValue, Intrinsic, Select
from edgec.loop.tape import Tape
from edgec.numerics import term as terms
from edgec.numerics.float_math import float_maximum, float_minimum
from edgec.numerics.term import Term, Var

Array = npt.NDArray[Any]
Index = Union[Term, Var, int, Array]
Operand = Union["Value", int, float]
#: Floats below it have all halves, and 1.5 * 2**23 more of them no fraction.
MOST_BOUNDED = 2.0**22
#: NumPy's functions for operations of the loop IR, where their meaning is C's.
FUNCTIONS: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum,
    "max": np.maximum, "div": np.true_divide, "shl": np.left_shift, "shr": np.right_shift,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lt": np.less,
    "le": np.less_equal, "eq": np.equal,
}  # fmt: skip
COMPARISONS = ("lt", "le", "eq")


class Value:
    """A scalar value of a known dtype; arithmetic has C's meaning at that dtype (ints wrap)."""

    @property
    def dtype(self) -> str:
        """The element type."""
        raise NotImplementedError

    def _binary(self, op: str, other: Operand, *, swap: bool = False) -> Value:
        raise NotImplementedError

    def _literal(self, value: int | float) -> Value:
        raise NotImplementedError

    def _with(self, other: Operand) -> Value:
        if isinstance(other, Value):
            if other.dtype != self.dtype:
                raise ContractError(
                    f"an operation mixes {self.dtype} and {other.dtype}", hint="add a cast"
                )
            return other
        return self._literal(other)

    def __add__(self, other: Operand) -> Value:
        return self._binary("add", other)

    def __radd__(self, other: Operand) -> Value:
        return self._binary("add", other, swap=True)

    def __sub__(self, other: Operand) -> Value:
        return self._binary("sub", other)

    def __rsub__(self, other: Operand) -> Value:
        return self._binary("sub", other, swap=True)

    def __mul__(self, other: Operand) -> Value:
        return self._binary("mul", other)

    def __rmul__(self, other: Operand) -> Value:
        return self._binary("mul", other, swap=True)

    def __truediv__(self, other: Operand) -> Value:
        return self._binary("div", other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self._binary("div", other, swap=True)

    def __neg__(self) -> Value:
        if is_float(self.dtype):  # 0 - x would be a positive zero for both zeros
            return self._binary("mul", -1)
        return self._binary("sub", 0, swap=True)

    def __lshift__(self, other: Operand) -> Value:
        return self._binary("shl", other)

    def __rshift__(self, other: Operand) -> Value:
        return self._binary("shr", other)

    def __and__(self, other: Operand) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._binary("xor", other)

    def __lt__(self, other: Operand) -> Value:
        return self._binary("lt", other)

    def __le__(self, other: Operand) -> Value:
        return self._binary("le", other)

    def __gt__(self, other: Operand) -> Value:
        return self._binary("lt", other, swap=True)

    def __ge__(self, other: Operand) -> Value:
        return self._binary("le", other, swap=True)

    def equals(self, other: Operand) -> Value:
        """Whether both are equal; `==` stays Python's."""
        return self._binary("eq", other)


class ExprValue(Value):
    """A value that is an expression of the loop IR."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.expr.dtype

    def _literal(self, value: int | float) -> Value:
        number = float(value) if is_float(self.dtype) else int(value)
        return ExprValue(Const(number, self.dtype))

    def _binary(self, op: str, other: Operand, *, swap: bool = False) -> Value:
        second = self._with(other)
        assert isinstance(second, ExprValue)
        left, right = (second.expr, self.expr) if swap else (self.expr, second.expr)
        return ExprValue(Binary(op, left, right))


#: NumPy makes the name of a dtype anew each time, which takes longer than a small sum.
name_of = lru_cache(str)


class ArrayValue(Value):
    """A value that is an array: the same element for every point of an index grid.

    It is a known array, or the result of a tape's call on arrays that only a run has.
    """

    def __init__(self, array: Array) -> None:
        self.array = np.asarray(array)
        self.tape: Tape | None = None
        self.slot = -1
        self.known = name_of(self.array.dtype)

    @classmethod
    def traced(cls, tape: Tape, slot: int, dtype: str) -> ArrayValue:
        made = cls.__new__(cls)
        made.tape, made.known, made.slot = tape, dtype, slot
        return made

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.known

    def slot_in(self, tape: Tape) -> int:
        """The value's slot; a known array becomes a constant of the tape."""
        return tape.slot(self.array) if self.tape is None else self.slot

    def _literal(self, value: int | float) -> Value:
        return ArrayValue(np.asarray(value, dtype=self.dtype))

    def _binary(self, op: str, other: Operand, *, swap: bool = False) -> Value:
        second = self._with(other)
        assert isinstance(second, ArrayValue)
        if isinstance(second, Accumulator):
            return second._binary(op, self, swap=not swap)
        pair = (second, self) if swap else (self, second)
        dtype = "bool" if op in COMPARISONS else self.dtype
        return noted(function_of(op, self.dtype), dtype, *pair)


def noted(function: Callable[..., Array], dtype: str, *values: ArrayValue) -> ArrayValue:
    """A function of arrays: computed where all are known, else a call on the values' tape."""
    tape = next((value.tape for value in values if value.tape is not None), None)
    if tape is None:
        with np.errstate(all="ignore"):
            return ArrayValue(function(*(value.array for value in values)))
    return ArrayValue.traced(tape, tape.note(function, [v.slot_in(tape) for v in values]), dtype)


class NotAChain(Exception):
    """The elements of an `Accumulator` are needed."""


class Accumulator(ArrayValue):
    """A reduction's accumulator while it is traced: operations on it are recorded as a chain.

    chain: the operation, its other operand, and whether this operand is the first one.
    """

    def __init__(self, dtype: str, chain: tuple[tuple[str, ArrayValue, bool], ...] = ()) -> None:
        self.known = dtype
        self.chain = chain

    @property
    def tape(self) -> Tape | None:  # type: ignore[override]
        """Not known. Raises NotAChain."""
        raise NotAChain

    def _binary(self, op: str, other: Operand, *, swap: bool = False) -> Value:
        second = self._with(other)
        assert isinstance(second, ArrayValue)
        if op in COMPARISONS or isinstance(second, Accumulator):
            raise NotAChain
        return Accumulator(self.known, (*self.chain, (op, second, swap)))


def function_of(op: str, dtype: str) -> Callable[..., Array]:
    """An operation of the loop IR on arrays of this dtype, as C computes it."""
    if op == "div" and not is_float(dtype):
        return _truncated_quotient
    if op in ("min", "max") and is_float(dtype):  # C's comparison, also of NaNs and zeros
        return float_minimum if op == "min" else float_maximum
    return FUNCTIONS[op]


def _truncated_quotient(a: Array, b: Array) -> Array:
    """C's division of integers."""
    down = a // b
    return np.asarray(down + ((a % b != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)


def _choose(op: Literal["min", "max"], left: Any, right: Any) -> Any:
    if isinstance(left, Value):
        return left._binary(op, right)
    if isinstance(right, Value):
        return right._binary(op, left, swap=True)
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return np.asarray(FUNCTIONS[op](left, right))  # indices
    result = (terms.minimum if op == "min" else terms.maximum)(left, right)
    return result if result.constant is None else result.constant


def minimum(left: Any, right: Any) -> Any:
    """The smaller of two values, or of two index terms."""
    return _choose("min", left, right)


def maximum(left: Any, right: Any) -> Any:
    """The larger of two values, or of two index terms."""
    return _choose("max", left, right)


def clamp(value: Value, low: Operand, high: Operand) -> Value:
    """The value limited to [low, high]."""
    limited: Value = minimum(maximum(value, low), high)
    return limited


def saturate(value: Value, dtype: str) -> Value:
    """The value as an integer of a dtype, the nearest that it has."""
    return cast(clamp(value, *integer_range(dtype)), dtype)


def cast(value: Value, dtype: str) -> Value:
    """C's conversion: integers wrap, float to integer truncates."""
    if value.dtype == dtype:
        return value
    if isinstance(value, ExprValue):
        return ExprValue(Cast(dtype, value.expr))
    assert isinstance(value, ArrayValue)
    return noted(_conversion(dtype), dtype, value)


@lru_cache
def _conversion(dtype: str) -> methodcaller:
    """NumPy's conversion, the same object for the same dtype: programs find equal calls by it."""
    return methodcaller("astype", dtype)


int8, int16, int32, int64, uint8, float32, float64 = (
    partial(cast, dtype=dtype)
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "float32", "float64")
)


def index(position: Index, dtype: str = "int32") -> Value:
    """An index term as a value."""
    if isinstance(position, (np.ndarray, np.generic)):  # arithmetic makes scalars of 0-d arrays
        return ArrayValue(np.asarray(position).astype(dtype))
    return ExprValue(IndexValue(terms.as_term(position), dtype))


def select(condition: Value, yes: Operand, no: Operand) -> Value:
    """`yes` where the condition holds, else `no`; both are evaluated."""
    if isinstance(yes, Value):
        no = yes._with(no)
    elif isinstance(no, Value):
        yes = no._with(yes)
    else:
        raise ContractError("select needs at least one value with a dtype")
    if isinstance(condition, ExprValue):
        assert isinstance(yes, ExprValue) and isinstance(no, ExprValue)
        return ExprValue(Select(condition.expr, yes.expr, no.expr))
    assert isinstance(condition, ArrayValue)
    assert isinstance(yes, ArrayValue) and isinstance(no, ArrayValue)
    return noted(np.where, yes.dtype, condition, yes, no)


def intrinsic(name: str, *args: Operand) -> Value:
    """A scalar function of the runtime (`edgec.loop.intrinsics`); bare numbers take its types."""
    known = get_intrinsic(name)
    if len(args) != len(known.args):
        raise ContractError(f"{name} takes {len(known.args)} arguments, {len(args)} were given")
    values = [a for a in args if isinstance(a, Value)]
    for position, (value, dtype) in enumerate(zip(args, known.args, strict=True)):
        if isinstance(value, Value) and value.dtype != dtype:
            raise ContractError(f"argument {position} of {name} is {value.dtype}, not {dtype}")
    if any(isinstance(v, ArrayValue) for v in values):
        arrays = [
            a if isinstance(a, ArrayValue) else ArrayValue(np.asarray(a, dtype=dtype))
            for a, dtype in zip(args, known.args, strict=True)
        ]
        return noted(known.map, known.dtype, *arrays)
    exprs: list[Expr] = []
    for value, dtype in zip(args, known.args, strict=True):
        if isinstance(value, ExprValue):
            exprs.append(value.expr)
        else:
            assert isinstance(value, (int, float))
            exprs.append(Const(float(value) if is_float(dtype) else int(value), dtype))
    return ExprValue(Intrinsic(name, tuple(exprs), known.dtype))


def round_half_even(value: Value, most: float) -> Value:
    """A float32 as the nearest int32, ties to even; fast where its magnitude is known to be small.

    most: that magnitude; infinite where nothing is known. Then results are saturated, a NaN is 0.
    """
    is_bounded = most < MOST_BOUNDED
    return intrinsic("round_half_even_bounded_f32" if is_bounded else "round_half_even_f32", value)


def as_expr(value: Operand, dtype: str) -> Expr:
    """The expression of a value; a bare number becomes a literal of the dtype."""
    if isinstance(value, ExprValue):
        return value.expr
    if isinstance(value, Value):
        raise ContractError("an array was given where an expression is needed")
    if not (is_integer(dtype) or is_float(dtype) or dtype == "bool"):
        raise ContractError(f"dtype {dtype!r} is unknown")
    return Const(float(value) if is_float(dtype) else int(value), dtype)


def as_array(value: Operand, dtype: str) -> ArrayValue:
    """The value, which is an array; a bare number becomes a 0-d array of the dtype."""
    if isinstance(value, ArrayValue):
        return value
    if isinstance(value, Value):
        raise ContractError("an expression was given where an array is needed")
    return ArrayValue(np.asarray(value, dtype=dtype))
