"""Symbolic arrays: NumPy's functions of them append ONNX operators to a graph.

    x = WrittenArray(out, "x", (4, 8), "int8")
    y = np.where(x > 3, x.astype(np.int32) << 2, 0)        Greater, Cast, Mul, Where

So a function written for arrays exports itself to ONNX. Integers wrap as NumPy's do. ONNX Runtime
computes in int32, int64, float and double; narrower types are widened and cast back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from edgec.errors import ImportFailed
from edgec.graph.types import Array
from edgec.ops.onnx_graph import OnnxGraph

#: ONNX's numbers of the element types that are computed with.
NUMBERS = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
    "bool": 9, "float64": 11, "uint32": 12, "uint64": 13,
}  # fmt: skip
#: The dtype in which ONNX Runtime computes each dtype that it does not support itself.
_WIDE = {
    "bool": "int32", "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32",
    "uint32": "int64", "uint64": "int64",
}  # fmt: skip
_SAME: dict[Any, str] = {
    np.add: "Add", np.subtract: "Sub", np.multiply: "Mul", np.true_divide: "Div",
    np.minimum: "Min", np.maximum: "Max", np.less: "Less", np.less_equal: "LessOrEqual",
    np.greater: "Greater", np.greater_equal: "GreaterOrEqual", np.equal: "Equal",
    np.negative: "Neg", np.absolute: "Abs", np.sign: "Sign", np.rint: "Round", np.floor: "Floor",
    np.ceil: "Ceil", np.sqrt: "Sqrt", np.bitwise_and: "BitwiseAnd", np.bitwise_or: "BitwiseOr",
    np.bitwise_xor: "BitwiseXor",
}  # fmt: skip
#: Operations whose low bits do not depend on the upper ones: uint64 may use int64's.
_MODULAR = (
    np.add, np.subtract, np.multiply, np.left_shift, np.bitwise_and, np.bitwise_or, np.bitwise_xor,
)  # fmt: skip

#: An array of the graph, a NumPy array or a number: operands of NumPy's functions.
Operand = Any


def shape_of(operand: Operand) -> tuple[int, ...]:
    """The shape of an array of either kind, or of a number."""
    return getattr(operand, "shape", ())


class WrittenArray(NDArrayOperatorsMixin):
    """A tensor of an ONNX graph, by its name, shape and element type."""

    def __init__(self, out: OnnxGraph, name: str, shape: Sequence[int], dtype: str) -> None:
        if dtype not in NUMBERS:
            raise ImportFailed(f"values of {dtype}")
        self.out, self.name, self.shape, self.dtype = out, name, tuple(shape), dtype

    def emit(
        self, kind: str, operands: Sequence[Operand], shape: Sequence[int], dtype: str, **said: Any
    ) -> WrittenArray:
        """Append an ONNX operator; arrays among its operands become initializers."""
        made = self.out.fresh(f"{self.name.split('/')[0]}/{kind}")
        self.out.emit(kind, [self.named(each) for each in operands], made, **said)
        return WrittenArray(self.out, made, shape, dtype)

    def named(self, operand: Operand) -> str:
        """The tensor that holds an operand."""
        if isinstance(operand, WrittenArray):
            return operand.name
        return self.out.initializer(f"{self.name.split('/')[0]}/number", np.asarray(operand))

    def known(self, operand: Operand) -> WrittenArray:
        """An operand as a tensor of the graph that this one is of."""
        if isinstance(operand, WrittenArray):
            return operand
        array = np.asarray(operand)
        return WrittenArray(self.out, self.named(array), array.shape, array.dtype.name)

    def astype(self, dtype: Any, copy: bool = True) -> WrittenArray:
        """C's conversion."""
        wanted = np.dtype(dtype).name
        if wanted == self.dtype:
            return self
        if wanted not in NUMBERS:
            raise ImportFailed(f"values of {wanted}")
        return self.emit("Cast", [self], self.shape, wanted, to=NUMBERS[wanted])

    def reshape(self, *shape: int) -> WrittenArray:
        """The same elements; one extent may be -1."""
        if -1 in shape:
            rest = -prod(shape)
            shape = tuple(prod(self.shape) // rest if e == -1 else e for e in shape)
        if shape == self.shape:
            return self
        return self.emit("Reshape", [self, np.array(shape, np.int64)], shape, self.dtype)

    def broadcast_to(self, shape: Sequence[int]) -> WrittenArray:
        """The elements repeated along axes of extent 1, and along new first axes."""
        if tuple(shape) == self.shape:
            return self
        return self.emit("Expand", [self, np.array(shape, np.int64)], shape, self.dtype)

    def taken(self, indices: WrittenArray | Array) -> WrittenArray:
        """Elements at indices of the flat array."""
        flat = self.reshape(prod(self.shape))
        shape = indices.shape
        if isinstance(indices, np.ndarray):
            if (
                indices.size == prod(self.shape)
                and (indices.ravel() == np.arange(indices.size)).all()
            ):
                return self.reshape(*shape)
            indices = indices.astype(np.int64)
        return self.emit("Gather", [flat, indices], shape, self.dtype, axis=0)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> WrittenArray:
        options.pop("out", None)  # `x += 1` binds x to the result
        if method != "__call__" or set(options) - {"dtype"}:
            raise ImportFailed(f"{ufunc.__name__} of whole arrays")
        dtypes = _dtypes(ufunc, inputs, options.get("dtype"))
        shape = np.broadcast_shapes(*map(shape_of, inputs))
        return _Call(self, shape, *dtypes).of(ufunc, inputs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> WrittenArray:
        if function is np.copy:
            return args[0]  # type: ignore[no-any-return]
        if function is np.where and not kwargs and len(args) == 3:
            condition, *chosen = args
            return where(self, condition, *chosen)
        if function is np.clip and not kwargs and len(args) == 3:
            x, low, high = args
            limited: WrittenArray = np.minimum(np.maximum(x, low), high)
            return limited
        raise ImportFailed(f"{function.__name__} of arrays")


def where(near: WrittenArray, condition: Operand, yes: Operand, no: Operand) -> WrittenArray:
    """The elements of one or the other; `near` is any array of the graph."""
    shape = np.broadcast_shapes(*map(shape_of, (condition, yes, no)))
    _, dtype = _dtypes(np.add, (yes, no), None)  # their common dtype
    call = _Call(near, shape, dtype, dtype)
    truth = _as(condition, "bool")
    made = near.emit("Where", [truth, *map(call.wide, (yes, no))], shape, call.within)
    return made.astype(dtype)


def _as(operand: Operand, dtype: str) -> WrittenArray | Array:
    if isinstance(operand, WrittenArray):
        return operand.astype(dtype)
    return np.asarray(operand).astype(dtype)


def _dtypes(ufunc: np.ufunc, inputs: Sequence[Any], said: Any) -> tuple[str, str]:
    """The common dtype of the operands, and the result's: as NumPy chooses them."""
    ones: list[Any] = [x if isinstance(x, (int, float)) else np.ones(1, x.dtype) for x in inputs]
    words = {} if said is None else {"dtype": said}
    with np.errstate(all="ignore"):
        result = np.asarray(ufunc(*ones, **words)).dtype.name
    if result != "bool":
        return result, result
    return np.result_type(*ones).name, result


class _Call:
    """One call of a NumPy function: operands become `common`, the result is `dtype`."""

    def __init__(self, near: WrittenArray, shape: Sequence[int], common: str, dtype: str) -> None:
        self.near, self.shape, self.common, self.dtype = near, shape, common, dtype
        self.within = _WIDE.get(common, common)

    def wide(self, operand: Operand) -> WrittenArray | Array:
        """An operand in the dtype of the computation."""
        return _as(_as(operand, self.common), self.within)

    def of(self, ufunc: Any, inputs: Sequence[Operand]) -> WrittenArray:
        if self.common == "uint64" and ufunc not in _MODULAR:
            return self._unsigned(ufunc, inputs)
        operands = [self.wide(x) for x in inputs]
        if ufunc in _COMPOSED:
            composed: WrittenArray = _COMPOSED[ufunc](self, *operands)
            return composed.astype(self.dtype)
        kind: str | None = _SAME.get(ufunc)
        if kind is None:
            raise ImportFailed(f"the function {ufunc.__name__}")
        says = self.dtype == "bool" and not kind.startswith("Bitwise")
        made = self._emit(kind, operands, "bool" if says else self.within)
        return made.astype(self.dtype)

    def _emit(
        self, kind: str, operands: Sequence[Operand], dtype: str, **said: Any
    ) -> WrittenArray:
        return self.near.emit(kind, operands, self.shape, dtype, **said)

    def _unsigned(self, ufunc: Any, inputs: Sequence[Operand]) -> WrittenArray:
        """uint64 operands of a comparison in the order of int64: 2**63 is added to each."""
        if ufunc is np.right_shift:
            return self._emit("BitShift", [_as(x, "uint64") for x in inputs], "uint64",
                              direction="RIGHT")  # fmt: skip
        if ufunc not in (np.minimum, np.maximum) and self.dtype != "bool":
            raise ImportFailed(f"{ufunc.__name__} of 64 bits without a sign")
        half = np.int64(np.iinfo(np.int64).min)
        with np.errstate(over="ignore"):
            made: Any = ufunc(*(_as(x, "uint64").astype("int64") + half for x in inputs))
        found: WrittenArray = made if self.dtype == "bool" else (made + half).astype("uint64")
        return found

    def shifted_left(self, x: Operand, by: Operand) -> WrittenArray:
        """A product with a power of two; one of 2**63 is the negative number."""
        return self._emit("Mul", [x, self._power(by)], self.within)

    def shifted_right(self, x: Operand, by: Operand) -> WrittenArray:
        """x less its remainder, divided by a power of two: exact also of negative numbers.

        By 63 of 64 bits the power has no positive number: by 62, then by 1.
        """
        if self.within == "int64" and isinstance(by, np.ndarray) and by.max(initial=0) < 63:
            return self._quotient(x, self._power(by))
        if self.within == "int64":
            most: Any = np.minimum(by, 62)
            return self._quotient(self._quotient(x, self._power(most)), self._power(by - most))
        wide = _Call(self.near, self.shape, "int64", "int64")
        return wide.shifted_right(_as(x, "int64"), _as(by, "int64")).astype(self.within)

    def _quotient(self, x: Operand, power: Operand) -> WrittenArray:
        rest = self._emit("Mod", [x, power], self.within)
        even = self._emit("Sub", [x, rest], self.within)
        return self._emit("Div", [even, power], self.within)

    def _power(self, by: Operand) -> Any:
        """2**by in the dtype of the computation."""
        powers = (np.uint64(1) << np.arange(64, dtype=np.uint64)).astype(np.int64)
        if isinstance(by, WrittenArray):
            table = powers.astype(self.within)
            index = by.astype("int64")
            return by.emit("Gather", [table, index], by.shape, self.within, axis=0)
        return powers[np.asarray(by)].astype(self.within)

    def truncated(self, x: Operand) -> WrittenArray:
        """Towards zero."""
        x = self.near.known(x)
        return where(x, x < 0, np.ceil(x), np.floor(x))

    def unequal(self, x: Operand, y: Operand) -> WrittenArray:
        """Not Equal."""
        return self.near.emit("Not", [self._emit("Equal", [x, y], "bool")], self.shape, "bool")

    def is_nan(self, x: Operand) -> WrittenArray:
        """NaN is not equal to itself."""
        return self.unequal(x, x)


_COMPOSED: dict[np.ufunc, Callable[..., WrittenArray]] = {
    np.left_shift: _Call.shifted_left, np.right_shift: _Call.shifted_right,
    np.trunc: _Call.truncated, np.not_equal: _Call.unequal, np.isnan: _Call.is_nan,
}  # fmt: skip
