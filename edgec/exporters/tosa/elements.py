"""Expressions of the loop IR as element-wise operations of TOSA, for all indices of a grid at once.

NumPy computes all values that do not depend on inputs; they become constants, and so do tables read
at indices known before the run. Arithmetic of int8 and int16 is done in int32. Integers are exact.
Some float functions differ from edgec's in the last bits: `is_exact` is false if one was used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Union

import numpy as np

from edgec.exporters.tosa.text import CannotSay, Tensor, TosaText
from edgec.exporters.tosa.values import (
    binary,
    can_rescale,
    cast,
    full,
    gathered,
    limited,
    product,
    rescaled,
    reshaped,
)
from edgec.graph.types import Array
from edgec.loop.dtype import integer_range
from edgec.loop.intrinsics import get_intrinsic
from edgec.loop.ir import Binary, Cast, Const, Expr, Gather, IndexValue, Intrinsic, Load, Select
from edgec.loop.values import function_of
from edgec.numerics.term import FloorDiv, FloorMod, Min, Term, Var

#: A value that is known before the run, or one of the text; of the grid's rank.
Either = Union[Array, Tensor]
Leaf = Union[Load, IndexValue]

#: Largest constant with indices of elements to read.
MOST_INDICES = 1 << 20
#: Of shifts to the right.
NO_ROUNDING = {"round": "false"}
_ARITHMETIC = {"add": "add", "sub": "sub", "mul": "mul", "min": "minimum", "max": "maximum"}
_COMPARISONS = {"lt": "greater", "le": "greater_equal", "eq": "equal"}  # of swapped operands
_SHIFTS: dict[str, tuple[str, dict[str, str]]] = {
    "shl": ("logical_left_shift", {}),
    "shr": ("arithmetic_right_shift", NO_ROUNDING),
}
_BITS = {"and": ("logical_and", "bitwise_and"), "or": ("logical_or", "bitwise_or"),
         "xor": ("logical_xor", "bitwise_xor")}  # fmt: skip
#: Functions of floats whose results may differ in the last bits.
_NEAR = {f"{name}_f32": name for name in (
    "exp", "log", "erf", "tanh", "sigmoid", "sin", "cos", "rsqrt",
)}  # fmt: skip
_EXACT = {"floor_f32": "floor", "ceil_f32": "ceil", "count_leading_zeros": "clz"}


def on_grids(term: Term, grids: Mapping[Var, Array]) -> Array:
    """An index term for all indices at once."""
    total = np.asarray(term.offset)
    for atom, factor in term.parts:
        if isinstance(atom, Var):
            value = grids[atom]
        elif isinstance(atom, FloorDiv):
            value = on_grids(atom.dividend, grids) // atom.divisor
        elif isinstance(atom, FloorMod):
            value = on_grids(atom.dividend, grids) % atom.divisor
        else:
            least = np.minimum if isinstance(atom, Min) else np.maximum
            value = least(on_grids(atom.left, grids), on_grids(atom.right, grids))
        total = total + factor * value
    return total


def children(expr: Expr) -> Sequence[Expr]:
    """The expressions that an expression is made of."""
    if isinstance(expr, Gather):
        return expr.indices
    if isinstance(expr, Binary):
        return expr.left, expr.right
    if isinstance(expr, Cast):
        return (expr.value,)
    if isinstance(expr, Select):
        return expr.condition, expr.yes, expr.no
    return expr.args if isinstance(expr, Intrinsic) else ()


def walk(*roots: Expr) -> list[Expr]:
    """Every subexpression, once, before the expressions that contain it."""
    found: dict[int, Expr] = {}
    waiting = list(roots)
    while waiting:
        expr = waiting.pop()
        if id(expr) not in found:
            found[id(expr)] = expr
            waiting += children(expr)
    return list(found.values())


class Elements:
    """Computes expressions over a grid.

    buffers: the contents of each buffer, in its shape. grids: for each axis its indices, along that
    axis. assumed: values that replace loads and indices.
    """

    def __init__(
        self,
        out: TosaText,
        buffers: Mapping[str, Either],
        grids: Mapping[Var, Array],
        rank: int,
        assumed: Mapping[Leaf, Array] | None = None,
    ) -> None:
        self.out, self.buffers, self.grids, self.rank = out, buffers, grids, rank
        self.assumed = assumed or {}
        self.is_exact = True
        self._known: dict[int, tuple[Expr, Either]] = {}

    def of(self, expr: Expr) -> Either:
        """The value. Raises CannotSay."""
        if id(expr) not in self._known:
            self._known[id(expr)] = expr, self._computed(expr)
        return self._known[id(expr)][1]

    def tensor(self, value: Either) -> Tensor:
        """A value of the text."""
        return value if isinstance(value, Tensor) else self.out.constant(value)

    def _computed(self, expr: Expr) -> Either:
        if isinstance(expr, (Load, IndexValue, Const)):
            return self._leaf(expr)
        parts = [self.of(child) for child in children(expr)]
        if isinstance(expr, Gather):
            return self._gather(expr, parts)
        known = [part for part in parts if isinstance(part, np.ndarray)]
        if len(known) < len(parts):
            return self._written(expr, parts)
        with np.errstate(all="ignore"):
            return _known(expr, known)

    def _leaf(self, leaf: Load | IndexValue | Const) -> Either:
        if isinstance(leaf, Const):
            return np.full((1,) * self.rank, leaf.value, leaf.dtype)
        if leaf in self.assumed:
            return self.assumed[leaf]
        if isinstance(leaf, IndexValue):
            return self._of_rank(on_grids(leaf.term, self.grids)).astype(leaf.dtype)
        return self._load(leaf)

    def _of_rank(self, array: Array) -> Array:
        return array.reshape((1,) * (self.rank - array.ndim) + array.shape)

    def _load(self, load: Load) -> Either:
        at = [
            np.clip(self._of_rank(on_grids(term, self.grids)), 0, extent - 1)
            for term, extent in zip(load.indices, load.buffer.shape, strict=True)
        ]
        source = self.buffers[load.buffer.name]
        if isinstance(source, np.ndarray):
            return self._of_rank(source[tuple(at)] if at else source)
        strides = _strides(load.buffer.shape)
        indices = self._of_rank(
            sum((index * step for index, step in zip(at, strides, strict=True)), np.asarray(0))
        )
        if indices.size == prod(source.shape) and np.array_equal(
            indices.reshape(-1), np.arange(indices.size)
        ):
            return reshaped(self.out, source, indices.shape)
        if indices.size > MOST_INDICES:
            raise CannotSay(f"{indices.size} elements at indices of their own")
        return gathered(self.out, source, self.out.constant(indices.astype(np.int32)))

    def _gather(self, expr: Gather, parts: Sequence[Either]) -> Either:
        """Elements at computed indices; the indices of unused elements may be anything."""
        source = self.buffers[expr.buffer.name]
        known = [part for part in parts if isinstance(part, np.ndarray)]
        limits = [extent - 1 for extent in expr.buffer.shape]
        if isinstance(source, np.ndarray) and len(known) == len(parts):
            clipped = [np.clip(p, 0, most) for p, most in zip(known, limits, strict=True)]
            return self._of_rank(source[tuple(clipped)])
        total: Tensor | None = None
        for part, most, step in zip(parts, limits, _strides(expr.buffer.shape), strict=True):
            index = limited(self.out, cast(self.out, self.tensor(part), "int32"), 0, most)
            if step != 1:
                index = binary(self.out, "mul", index, full(self.out, step, self.rank, "int32"))
            total = index if total is None else binary(self.out, "add", total, index)
        assert total is not None
        return gathered(self.out, self.tensor(source), total)

    def _written(self, expr: Expr, parts: Sequence[Either]) -> Tensor:
        tensors = [self.tensor(part) for part in parts]
        if isinstance(expr, Binary):
            return self._binary(expr, parts, *tensors)
        if isinstance(expr, Cast):
            return self._cast(tensors[0], expr.dtype)
        if isinstance(expr, Select):
            shape = np.broadcast_shapes(*(each.shape for each in tensors))
            return self.out.op("select", tensors, shape, tensors[1].dtype)
        assert isinstance(expr, Intrinsic)
        if expr.name in _EXACT or expr.name in _NEAR:
            self.is_exact &= expr.name in _EXACT
            kind = _EXACT.get(expr.name) or _NEAR[expr.name]
            return self.out.op(kind, tensors[:1], tensors[0].shape, tensors[0].dtype)
        if expr.name not in _COMPOSED:
            raise CannotSay(f"the function {expr.name}")
        self.is_exact &= expr.name != "sqrt_f32"
        return _COMPOSED[expr.name](self, parts)

    def _cast(self, x: Tensor, dtype: str) -> Tensor:
        """C's conversion: floats to integers truncate."""
        if x.dtype == "float32" and dtype != "float32":
            zero = full(self.out, 0.0, self.rank, "float32")
            is_below = binary(self.out, "greater", zero, x, "bool")
            up, down = (self.out.op(kind, [x], x.shape, x.dtype) for kind in ("ceil", "floor"))
            x = self.out.op("select", [is_below, up, down], x.shape, x.dtype)
        if (x.dtype, dtype) == ("float32", "bool"):
            raise CannotSay("floats as truths")
        return cast(self.out, x, dtype)

    def _binary(self, expr: Binary, parts: Sequence[Either], a: Tensor, b: Tensor) -> Tensor:
        op, dtype, out = expr.op, a.dtype, self.out
        if op in _BITS:
            return binary(out, _BITS[op][dtype != "bool"], a, b)
        if dtype == "bool":
            return self._truths(op, a, b)
        a, b = self._wide(a), self._wide(b)
        if op in _COMPARISONS:
            return binary(out, _COMPARISONS[op], b, a, "bool")
        if op in _SHIFTS:
            kind, said = _SHIFTS[op]
            return cast(out, binary(out, kind, a, b, **said), dtype)
        is_ratio = op not in _ARITHMETIC
        made = self._quotient(parts[1], a, b) if is_ratio else binary(out, _ARITHMETIC[op], a, b)
        return cast(out, made, dtype)

    def _truths(self, op: str, a: Tensor, b: Tensor) -> Tensor:
        if op not in _COMPARISONS or _COMPARISONS[op] != "equal":
            raise CannotSay(f"{op} of truths")
        unequal = binary(self.out, "logical_xor", a, b)
        return self.out.op("logical_not", [unequal], unequal.shape, "bool")

    def _wide(self, x: Tensor) -> Tensor:
        """Return x in a dtype that has arithmetic."""
        if x.dtype in ("int8", "int16"):
            return cast(self.out, x, "int32")
        if x.dtype not in ("int32", "float32"):
            raise CannotSay(f"arithmetic of {x.dtype}")
        return x

    def _quotient(self, divisor: Either, a: Tensor, b: Tensor) -> Tensor:
        """Divide integers towards zero; divide floats by a reciprocal, exact for 2**n only."""
        if a.dtype == "int32":
            return binary(self.out, "intdiv", a, b)
        if isinstance(divisor, np.ndarray):
            with np.errstate(all="ignore"):
                inverse = (np.float32(1) / divisor).astype(np.float32)
            self.is_exact &= bool((np.frexp(divisor)[0] == 0.5).all())
            return binary(self.out, "mul", a, self.out.constant(inverse))
        self.is_exact = False
        return binary(self.out, "mul", a, self.out.op("reciprocal", [b], b.shape, b.dtype))


def _strides(shape: Sequence[int]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _known(expr: Expr, parts: Sequence[Array]) -> Array:
    """The value of an expression whose operands are known."""
    if isinstance(expr, Binary):
        return np.asarray(function_of(expr.op, parts[0].dtype.name)(*parts))
    if isinstance(expr, Cast):
        return parts[0].astype(expr.dtype)
    if isinstance(expr, Select):
        return np.where(*parts)
    assert isinstance(expr, Intrinsic)
    return get_intrinsic(expr.name).map(*parts)


def _rescale(twice: bool) -> Callable[[Elements, Sequence[Either]], Tensor]:
    def write(self: Elements, parts: Sequence[Either]) -> Tensor:
        acc, multiplier, shift = parts
        if not isinstance(multiplier, np.ndarray) or not isinstance(shift, np.ndarray):
            raise CannotSay("a factor that is computed")
        multiplier, shift = np.broadcast_arrays(multiplier, shift)
        if multiplier.size not in (1, multiplier.shape[-1]) or not can_rescale(multiplier, shift):
            raise CannotSay("factors that its rescale cannot represent")
        return rescaled(self.out, self.tensor(acc), (multiplier, shift), twice=twice)

    return write


def _rescale_by_float(self: Elements, parts: Sequence[Either]) -> Tensor:
    """float32(acc) * scale, rounded half to even; the cast saturates."""
    acc = cast(self.out, self.tensor(parts[0]), "float32")
    return cast(self.out, binary(self.out, "mul", acc, self.tensor(parts[1])), "int32")


def _to_int32(self: Elements, parts: Sequence[Either]) -> Tensor:
    return cast(self.out, self.tensor(parts[0]), "int32")


def _high_product(self: Elements, parts: Sequence[Either]) -> Tensor:
    """gemmlowp's; INT32_MIN times itself, which it saturates, does not come up."""
    return product(self.out, self.tensor(parts[0]), self.tensor(parts[1]), 31)


def _divide_by_power(self: Elements, parts: Sequence[Either]) -> Tensor:
    """x / 2**exponent, ties away from zero, as gemmlowp computes it."""
    out, x, exponent = self.out, self.tensor(parts[0]), self.tensor(parts[1])
    one, zero = (full(out, number, self.rank, "int32") for number in (1, 0))
    mask = binary(out, "sub", binary(out, "logical_left_shift", one, exponent), one)
    half = binary(out, "arithmetic_right_shift", mask, one, **NO_ROUNDING)
    below = cast(out, binary(out, "greater", zero, x, "bool"), "int32")
    rest = binary(out, "bitwise_and", x, mask)
    up = binary(out, "greater", rest, binary(out, "add", half, below), "bool")
    down = binary(out, "arithmetic_right_shift", x, exponent, **NO_ROUNDING)
    return binary(out, "add", down, cast(out, up, "int32"))


def _one_over_one_plus_x(self: Elements, parts: Sequence[Either]) -> Tensor:
    """gemmlowp's, by three steps of Newton and Raphson: `edgec.numerics.fixed_point`."""
    out, x = self.out, self.tensor(parts[0])

    def number(value: int) -> Tensor:
        return full(out, value, self.rank, "int32")

    def raised(value: Tensor, by: int) -> Tensor:
        """Shifted left, saturated."""
        low, high = integer_range("int32")
        bounded = limited(out, value, -(-low >> by), high >> by)
        up = binary(out, "logical_left_shift", bounded, number(by))
        is_high = binary(out, "greater", value, number(high >> by), "bool")
        return out.op("select", [is_high, number(high), up], x.shape, "int32")

    # (x + 2**31) >> 1 without leaving int32: x is not negative.
    half = binary(out, "add", binary(out, "arithmetic_right_shift", x, number(1), **NO_ROUNDING),
                  number(1 << 30))  # fmt: skip
    estimate = binary(out, "add", number(1515870810), product(out, half, number(-1010580540), 31))
    for _ in range(3):
        error = binary(out, "sub", number(1 << 29), product(out, half, estimate, 31))
        estimate = binary(out, "add", estimate, raised(product(out, estimate, error, 31), 2))
    return raised(estimate, 1)


def _root(self: Elements, parts: Sequence[Either]) -> Tensor:
    out, x = self.out, self.tensor(parts[0])
    inverse = out.op("rsqrt", [x], x.shape, x.dtype)
    return out.op("reciprocal", [inverse], x.shape, x.dtype)


def _round(self: Elements, parts: Sequence[Either]) -> Tensor:
    """Half to even; from 2**23 on every float is whole."""
    out, x = self.out, self.tensor(parts[0])
    whole = cast(out, cast(out, x, "int32"), "float32")
    size = out.op("abs", [x], x.shape, x.dtype)
    is_small = binary(out, "greater", full(out, 2.0**23, self.rank, "float32"), size, "bool")
    return out.op("select", [is_small, whole, x], x.shape, x.dtype)


_COMPOSED: dict[str, Callable[[Elements, Sequence[Either]], Tensor]] = {
    "requantize_tflm": _rescale(True),
    "requantize_tflm_right": _rescale(True),
    "requantize_single": _rescale(False),
    "requantize_onnx": _rescale_by_float,
    "round_half_even_f32": _to_int32,
    "round_half_even_bounded_f32": _to_int32,
    "rounding_doubling_high_multiply": _high_product,
    "rounding_divide_by_power_of_two": _divide_by_power,
    "one_over_one_plus_x": _one_over_one_plus_x,
    "sqrt_f32": _root,
    "round_f32": _round,
}
