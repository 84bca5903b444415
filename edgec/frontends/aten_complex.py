"""Complex numbers of ATen as pairs of real values: a graph has real numbers alone.

Fourier transforms are `edgec/ops/dft.py`. Operators that move elements or are linear do the same
with each part; the others are written here. Models' own inputs, outputs and states are real.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.aten import Call, Import, Operand, Result, aten, find_aten, ints
from edgec.graph.ir import Value

#: Of a complex dtype the dtype of its parts.
PARTS = {"complex64": "float32", "complex128": "float64"}
#: Operators that act on each part as on real numbers.
_BY_PARTS = frozenset(
    f"aten.{name}" for name in (
        "view.default", "_unsafe_view.default", "reshape.default", "unsqueeze.default",
        "squeeze.dim", "squeeze.dims", "squeeze.default", "view_copy.default", "clone.default",
        "alias.default", "detach.default", "lift_fresh_copy.default", "contiguous.default",
        "permute.default", "t.default", "transpose.int", "expand.default", "repeat.default",
        "cat.default", "stack.default", "slice.Tensor", "slice_copy.Tensor", "select.int",
        "select_copy.int", "split_with_sizes.default", "split_with_sizes_copy.default",
        "flip.default", "roll.default", "index_select.default", "gather.default", "index.Tensor",
        "_unsafe_index.Tensor", "embedding.default", "unfold.default", "as_strided.default",
        "diagonal.default", "slice_scatter.default", "select_scatter.default", "index_put.default",
        "scatter.src", "copy.default", "where.self", "neg.default", "sum.dim_IntList",
        "sum.default", "mean.dim", "mean.default", "cumsum.default", "resolve_conj.default",
        "resolve_neg.default",
    )
)  # fmt: skip
_TABLE: dict[str, Import] = {}


@dataclass(frozen=True)
class Complex:
    """The parts of complex numbers, of one shape; either may be a number."""

    real: Operand
    imag: Operand


def holds_complex(value: Any) -> bool:
    """Whether arguments hold complex numbers."""
    if isinstance(value, (list, tuple)):
        return any(holds_complex(entry) for entry in value)
    if isinstance(value, dict):
        return any(holds_complex(entry) for entry in value.values())
    return isinstance(value, (Complex, complex))


def find_complex(name: str) -> Import | None:
    """The function for an operator that takes or makes complex numbers, or None."""
    own, plain = _TABLE.get(name), find_aten(name)
    return _by_parts(plain) if own is None and plain and name in _BY_PARTS else own


def _by_parts(function: Import) -> Import:
    def both(call: Call, *arguments: Any, **options: Any) -> Any:
        parts: list[Any] = [
            function(replace(call, name=f"{call.name}.{part}"),
                     *[_part(call, entry, part) for entry in arguments], **options)
            for part in ("real", "imag")
        ]  # fmt: skip
        real, imag = parts
        if isinstance(real, tuple):
            return tuple(Complex(*pair) for pair in zip(real, imag, strict=True))
        return Complex(real, imag)

    return both


def _part(call: Call, value: Any, part: str) -> Any:
    """An argument of one part: real numbers are complex ones without an imaginary part."""
    if isinstance(value, (list, tuple)):
        return [_part(call, entry, part) for entry in value]
    if isinstance(value, (Complex, complex)):
        return getattr(value, part)
    if part == "imag" and isinstance(value, Value) and value.type.is_float:
        return call.value(np.zeros(value.type.shape, call.dtype))
    return value


def complex_aten(*names: str) -> Callable[[Import], Import]:
    """Register a function for operators that take or make complex numbers."""

    def add(function: Import) -> Import:
        _TABLE.update({f"aten.{name}": function for name in names})
        return function

    return add


def _parts(call: Call, value: Any) -> tuple[Operand, Operand]:
    """Both parts of a value or number."""
    if not isinstance(value, (Complex, complex)):
        value = Complex(value, 0.0)
    real, imag = (
        call.cast(each, call.dtype) if isinstance(each, Value) else call.like(each, call.dtype)
        for each in (value.real, value.imag)
    )
    return real, imag


def _is_real(value: Any) -> bool:
    return not isinstance(value, (Complex, complex))


def _scaled(call: Call, z: tuple[Operand, Operand], kind: str, factor: Operand) -> Any:
    return Complex(*(call.onnx(kind, part, factor) for part in z))


def _magnitude(call: Call, z: tuple[Operand, Operand]) -> Value:
    """real^2 + imag^2."""
    real, imag = (call.onnx("Mul", part, part) for part in z)
    return call.onnx("Add", real, imag)


def _angle(call: Call, z: tuple[Operand, Operand]) -> Any:
    function: Any = find_aten("aten.atan2.default")
    return function(call, call.value(z[1]), call.value(z[0]))


@aten("real.default", "imag.default")
def part_of_real(call: Call, x: Value) -> Result:
    """Real numbers have no other part; `imag` of them torch refuses."""
    return x


@complex_aten("real.default")
def real(call: Call, z: Complex) -> Any:
    """The real part."""
    return z.real


@complex_aten("imag.default")
def imag(call: Call, z: Complex) -> Any:
    """The imaginary part."""
    return z.imag


@complex_aten("complex.default")
def of_parts(call: Call, real: Value, imag: Value) -> Any:
    """real + i imag, broadcast."""
    return Complex(*(call.onnx("Expand", part, ints(call.shape)) for part in (real, imag)))


@complex_aten("polar.default")
def polar(call: Call, size: Value, angle: Value) -> Any:
    """size (cos angle + i sin angle)."""
    return Complex(*(call.onnx("Mul", size, call.onnx(kind, angle)) for kind in ("Cos", "Sin")))


@complex_aten("view_as_real.default", "view_as_real_copy.default")
def view_as_real(call: Call, z: Complex) -> Any:
    """Both parts along an axis more."""
    return _packed(call, *_parts(call, z))


@complex_aten("view_as_complex.default", "view_as_complex_copy.default")
def view_as_complex(call: Call, x: Value) -> Any:
    """Numbers of the parts along the last axis."""
    return _unpacked(call, x)


@complex_aten("_to_copy.default", "to.dtype")
def to_copy(call: Call, x: Any, *_: object, **__: object) -> Any:
    """Numbers of another dtype."""
    real, imag = _parts(call, x)
    zeros = call.value(np.zeros(call.shape, call.dtype))
    return Complex(real, zeros if _is_real(x) else imag)


@complex_aten("full.default", "full_like.default", "scalar_tensor.default", "fill.Scalar")
def full(call: Call, *arguments: Any, **_: object) -> Any:
    """The same number everywhere."""
    number = complex([a for a in arguments if isinstance(a, (int, float, complex))][-1])
    return Complex(*(call.value(np.full(call.shape, part, call.dtype))
                     for part in (number.real, number.imag)))  # fmt: skip


for _number, _names in ((0, ("zeros.default", "zeros_like.default", "empty.memory_format")),
                        (1, ("ones.default", "ones_like.default"))):  # fmt: skip
    complex_aten(*_names)(lambda call, *_, number=_number, **__: full(call, number))


@complex_aten("constant_pad_nd.default")
def pad(call: Call, z: Complex, widths: Sequence[int], value: complex = 0) -> Any:
    """A constant around numbers."""
    function: Any = find_aten("aten.constant_pad_nd.default")
    parts = zip(_parts(call, z), (complex(value).real, complex(value).imag), strict=True)
    return Complex(*(function(call, call.value(part), widths, fill) for part, fill in parts))


@complex_aten("_conj.default", "_conj_physical.default")
def conjugate(call: Call, z: Complex) -> Any:
    """real - i imag."""
    return Complex(z.real, call.onnx("Neg", z.imag))


@complex_aten("abs.default")
def size(call: Call, z: Complex) -> Any:
    """The distance from zero."""
    return call.onnx("Sqrt", _magnitude(call, _parts(call, z)))


@complex_aten("angle.default")
def angle(call: Call, z: Complex) -> Any:
    """The angle from the real axis, -pi to pi."""
    return _angle(call, _parts(call, z))


def _product(call: Call, a: Any, b: Any, kind: str = "Mul") -> Any:
    """(a + bi)(c + di), or any other product of two operands."""
    if _is_real(a) or _is_real(b):
        plain, other = (a, b) if _is_real(a) else (b, a)
        plain, _ = _parts(call, plain)
        pairs = [(plain, part) if _is_real(a) else (part, plain) for part in _parts(call, other)]
        return Complex(*(call.onnx(kind, *pair) for pair in pairs))
    (a, b), (c, d) = _parts(call, a), _parts(call, b)
    return Complex(
        call.onnx("Sub", call.onnx(kind, a, c), call.onnx(kind, b, d)),
        call.onnx("Add", call.onnx(kind, a, d), call.onnx(kind, b, c)),
    )


def _sum(call: Call, a: Any, b: Any, alpha: Any = 1, *, kind: str) -> Any:
    """a + alpha b, or a - alpha b."""
    b = b if alpha == 1 else _product(call, b, alpha)
    pairs = zip(_parts(call, a), _parts(call, b), strict=True)
    return Complex(*(call.onnx("Expand", call.onnx(kind, *pair), ints(call.shape))
                     for pair in pairs))  # fmt: skip


complex_aten("add.Tensor", "add.Scalar")(partial(_sum, kind="Add"))
complex_aten("sub.Tensor", "sub.Scalar")(partial(_sum, kind="Sub"))


@complex_aten("rsub.Tensor", "rsub.Scalar")
def subtract_reversed(call: Call, a: Any, b: Any, alpha: Any = 1) -> Any:
    """b - alpha a."""
    return _sum(call, b, a, alpha, kind="Sub")


@complex_aten("mul.Tensor", "mul.Scalar")
def multiply(call: Call, a: Any, b: Any) -> Any:
    """a b."""
    return _product(call, a, b)


@complex_aten("mm.default", "bmm.default", "mv.default", "dot.default", "matmul.default")
def matrix_product(call: Call, a: Any, b: Any) -> Any:
    """a @ b."""
    return _product(call, a, b, "MatMul")


@complex_aten("div.Tensor", "div.Scalar")
def divide(call: Call, a: Any, b: Any) -> Any:
    """a / b."""
    if _is_real(b):
        return _scaled(call, _parts(call, a), "Div", _parts(call, b)[0])
    real, imag = _parts(call, b)
    flipped = Complex(real, call.onnx("Neg", imag))
    product = _product(call, a, flipped)
    return _scaled(call, (product.real, product.imag), "Div", _magnitude(call, (real, imag)))


@complex_aten("reciprocal.default")
def reciprocal(call: Call, z: Complex) -> Any:
    """1 / z."""
    return divide(call, 1.0, z)


@complex_aten("exp.default")
def exponential(call: Call, z: Complex) -> Any:
    """e^real (cos imag + i sin imag)."""
    real, imag = _parts(call, z)
    return polar(call, call.onnx("Exp", real), call.value(imag))


@complex_aten("log.default")
def logarithm(call: Call, z: Complex) -> Any:
    """log |z| + i angle."""
    pair = _parts(call, z)
    half = call.onnx("Mul", call.onnx("Log", _magnitude(call, pair)), call.like(0.5, call.dtype))
    return Complex(half, _angle(call, pair))


@complex_aten("pow.Tensor_Scalar")
def power(call: Call, z: Complex, exponent: Any) -> Any:
    """z z for 2, else |z|^exponent at exponent times the angle."""
    if exponent == 2:
        return _product(call, z, z)
    if not isinstance(exponent, (int, float)):
        raise ImportFailed(f"complex numbers to the power {exponent}")
    pair = _parts(call, z)
    sizes = call.onnx("Pow", _magnitude(call, pair), call.like(exponent / 2, call.dtype))
    turns = call.onnx("Mul", _angle(call, pair), call.like(float(exponent), call.dtype))
    return polar(call, sizes, turns)


@complex_aten("sqrt.default")
def square_root(call: Call, z: Complex) -> Any:
    """The root with a real part that is not negative."""
    return power(call, z, 0.5)


@complex_aten("sgn.default")
def direction(call: Call, z: Complex) -> Any:
    """z / |z|, 0 of 0."""
    pair = _parts(call, z)
    sizes = call.onnx("Sqrt", _magnitude(call, pair))
    is_zero = call.onnx("Equal", sizes, call.like(0.0, call.dtype))
    return _scaled(call, pair, "Div",
                   call.onnx("Where", is_zero, call.like(1.0, call.dtype), sizes))  # fmt: skip


def _packed(call: Call, *parts: Operand) -> Value:
    """Parts along an axis more, as `DFT` takes them: one or both."""
    values = [call.value(part) for part in parts]
    wide = [call.shaped(value, (*value.type.shape, 1)) for value in values if value is not None]
    return wide[0] if len(wide) == 1 else call.onnx("Concat", *wide, axis=-1)


def _unpacked(call: Call, x: Value) -> Complex:
    rank = len(x.type.shape) - 1
    cuts = (call.onnx("Slice", x, ints([at]), ints([at + 1]), ints([rank])) for at in (0, 1))
    return Complex(*(call.shaped(part, x.type.shape[:-1]) for part in cuts))


@dataclass(frozen=True)
class _Turns:
    """Transforms of some axes: `DFT` itself divides by the length where it is the inverse."""

    call: Call
    axes: Sequence[int]
    normalization: int
    is_inverse: bool

    def along(self, x: Value, axis: int, **options: Any) -> Value:
        """x [..., parts], transformed along an axis."""
        length = options.pop("length", None)
        given = None if length is None else np.asarray(length, np.int64)
        axis %= len(x.type.shape) - 1
        return self.call.onnx("DFT", x, given, np.asarray(axis, np.int64),
                              inverse=int(self.is_inverse), **options)  # fmt: skip

    def scaled(self, x: Value, lengths: Sequence[int]) -> Value:
        """Apply torch's normalization: none, by the lengths' product, or by its root."""
        total = math.prod(lengths)
        wanted = (1, 1 / math.sqrt(total), 1 / total)[self.normalization]
        factor = wanted * (total if self.is_inverse else 1)
        like = self.call.like(factor, x.type.dtype)
        return x if math.isclose(factor, 1) else self.call.onnx("Mul", x, like)


@complex_aten("_fft_r2c.default")
def transform_of_real(call: Call, x: Value, axes: Sequence[int], normalization: int,
                      onesided: bool) -> Any:  # fmt: skip
    """The transform of real numbers, of the last axis one half."""
    turns = _Turns(call, axes, normalization, False)
    made = turns.along(_packed(call, x), axes[-1], onesided=int(onesided))
    for axis in axes[:-1]:
        made = turns.along(made, axis)
    return _unpacked(call, turns.scaled(made, [x.type.shape[axis] for axis in axes]))


@complex_aten("_fft_c2c.default")
def transform(call: Call, z: Complex, axes: Sequence[int], normalization: int,
              forward: bool) -> Any:  # fmt: skip
    """The transform of complex numbers, or the inverse."""
    turns = _Turns(call, axes, normalization, not forward)
    made = _packed(call, *_parts(call, z))
    for axis in axes:
        made = turns.along(made, axis)
    return _unpacked(call, turns.scaled(made, [call.shape[axis] for axis in axes]))


@complex_aten("_fft_c2r.default")
def transform_to_real(call: Call, z: Complex, axes: Sequence[int], normalization: int,
                      length: int) -> Any:  # fmt: skip
    """The inverse of `_fft_r2c`, of the last axis this many numbers."""
    turns = _Turns(call, axes, normalization, True)
    made = _packed(call, *_parts(call, z))
    for axis in axes[:-1]:
        made = turns.along(made, axis)
    made = turns.along(made, axes[-1], onesided=1, length=length)
    return turns.scaled(call.shaped(made, call.shape), [call.shape[axis] for axis in axes])
