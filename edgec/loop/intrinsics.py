"""Scalar functions of the runtime: their types, their exact meaning in Python, their C names.

The meaning is plain Python on ints and `np.float32`. Where `edgec.numerics` has the same function
on arrays it is named beside it, so that the interpreter is fast; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ContractError
from edgec.loop import signal_intrinsics
from edgec.loop.dtype import wrap
from edgec.numerics import double_math, fixed_point, float_math, narrow_float

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
#: The offset with which `multiply_add_high` rounds half up.
HALF = 0x8000


@dataclass(frozen=True)
class IntrinsicDef:
    """One scalar function.

    `args` and `dtype` are the types taken and given; `meaning` computes one value, `on_arrays`
    many at once (None: `meaning` one by one); `instructions` estimates its cost on a Cortex-M4 for
    the choice between variants. `general` names the function that has the same result and takes
    more arguments.
    """

    name: str
    args: tuple[str, ...]
    dtype: str
    meaning: Callable[..., int | float]
    instructions: int
    on_arrays: Callable[..., npt.NDArray[Any]] | None = None
    general: str = ""

    @property
    def c_name(self) -> str:
        """The C function, in `runtime_c/include/edgec/` or `runtime_c/math/`."""
        return f"ec_{self.name}"

    def map(self, *arrays: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The function of every element, after broadcasting."""
        if self.on_arrays is not None:
            return np.asarray(self.on_arrays(*arrays)).astype(self.dtype, copy=False)
        lists = np.broadcast_arrays(*arrays)
        flat = zip(*(a.reshape(-1).tolist() for a in lists), strict=True)
        result = np.array([self.meaning(*row) for row in flat], dtype=self.dtype)
        return result.reshape(lists[0].shape)


_REGISTRY: dict[str, IntrinsicDef] = {}


def register(definition: IntrinsicDef) -> None:
    """Add a scalar function; a name is given once."""
    if definition.name in _REGISTRY:
        raise ContractError(f"intrinsic {definition.name!r} is registered twice")
    _REGISTRY[definition.name] = definition


def get_intrinsic(name: str) -> IntrinsicDef:
    """The scalar function of this name; ContractError if there is none."""
    if name not in _REGISTRY:
        raise ContractError(f"intrinsic {name!r} is unknown", details=(f"known: {names()}",))
    return _REGISTRY[name]


def is_known(name: str) -> bool:
    """Whether a scalar function of this name is registered."""
    return name in _REGISTRY


def names() -> tuple[str, ...]:
    """The names of all scalar functions, sorted."""
    return tuple(sorted(_REGISTRY))


def rounding_doubling_high_multiply(a: int, b: int) -> int:
    """High 32 bits of 2*a*b, ties away from zero, saturated (gemmlowp's SRDHM)."""
    if a == b == INT32_MIN:
        return INT32_MAX
    product = a * b
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    magnitude = abs(nudged) >> 31  # C's division truncates toward zero
    return magnitude if nudged >= 0 else -magnitude


def rounding_divide_by_power_of_two(x: int, exponent: int) -> int:
    """x / 2**exponent, ties away from zero (gemmlowp's RoundingDivideByPOT)."""
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + (1 if x < 0 else 0)
    return (x >> exponent) + (1 if (x & mask) > threshold else 0)


def f32_from_f16(bits: int) -> float:
    """The finite float16 whose bits these are."""
    return float(np.uint16(bits).view(np.float16))


def requantize_tflm(acc: int, multiplier: int, shift: int) -> int:
    """acc * multiplier * 2**(shift - 31) with gemmlowp's double rounding (TFLite Micro)."""
    shifted = wrap(acc << max(shift, 0), "int32")
    high = rounding_doubling_high_multiply(shifted, multiplier)
    return rounding_divide_by_power_of_two(high, max(-shift, 0))


def count_leading_zeros(x: int) -> int:
    """Leading zero bits of x > 0 as an unsigned 32-bit number."""
    return 32 - x.bit_length()


def requantize_single(acc: int, multiplier: int, shift: int) -> int:
    """acc * multiplier * 2**(shift - 31) rounded once, half up, saturated (TFLite)."""
    total = 31 - shift
    return min(max((acc * multiplier + (1 << (total - 1))) >> total, INT32_MIN), INT32_MAX)


def requantize_tflm16(acc: int, multiplier: int, shift: int) -> int:
    """acc * multiplier * 2**-shift rounded once, half up (TFLite, int64 accumulators)."""
    product = wrap(acc * multiplier + (1 << (shift - 1)), "int64")
    return wrap(product >> shift, "int32")


def requantize_tflm16_high(acc: int, multiplier: int, exponent: int) -> int:
    """`requantize_tflm16` of an int32 with multiplier * 2**15 and shift - 17, at least 1."""
    high = (acc * multiplier) >> 32
    return (high + (1 << (exponent - 1))) >> exponent


def multiply_add_high(acc: int, multiplier: int, offset: int, high: int) -> int:
    """The upper word of acc * multiplier + offset * 2**16 + high * 2**32; offset of 16 bits."""
    return wrap((acc * multiplier + (offset << 16) + (high << 32)) >> 32, "int32")


def rescale_parts(acc: int, multiplier: int, offset: int) -> int:
    """(acc * multiplier + offset * 2**11) / 2**33 rounded half up; offset has 16 bits.

    C does it in three products; it is for numbers with which each of them fits in int32.
    """
    return (acc * multiplier + (offset << 11) + (1 << 32)) >> 33


def round_half_even_f32(value: float) -> int:
    """The nearest int32, ties to even; saturated to the float32 values in range; 0 for a NaN."""
    if value != value:
        return 0
    return int(np.rint(min(max(float(value), -(2.0**31)), 2.0**31 - 128)))


def round_half_even_array(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`round_half_even_f32` of every element."""
    limited = np.minimum(np.maximum(values, -(2.0**31)), 2.0**31 - 128)
    return np.asarray(np.rint(np.where(np.isnan(values), 0, limited)).astype(np.int32))


def requantize_onnx(acc: int, scale: float) -> int:
    """float32(acc) * scale in float32, rounded half to even and saturated to int32."""
    with np.errstate(over="ignore"):
        return round_half_even_f32(float(np.float32(acc) * np.float32(scale)))


def fma(a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """a * b + c of float32, in float64: that is one rounding where the sum is exact there."""
    with np.errstate(all="ignore"):
        return np.asarray((a.astype(np.float64) * b + c).astype(np.float32))


def _on_numbers(
    name: str,
    args: str,
    dtype: str,
    meaning: Callable[..., int | float],
    cost: int,
    on_arrays: Callable[..., np.ndarray] | None = None,
    general: str = "",
) -> IntrinsicDef:
    """A function with a meaning of its own on single numbers. args: dtypes, with spaces between."""
    return IntrinsicDef(name, tuple(args.split()), dtype, meaning, cost, on_arrays, general)


def _on_arrays(
    name: str, args: str, dtype: str, function: Callable[..., np.ndarray], cost: int
) -> IntrinsicDef:
    """A function whose meaning is one on arrays. args: dtypes, with spaces between."""
    kinds = tuple(args.split())

    def meaning(*x: Any) -> int | float:
        arrays = (np.asarray(v, k) for v, k in zip(x, kinds, strict=True))
        found: int | float = function(*arrays).item()
        return found

    return IntrinsicDef(name, kinds, dtype, meaning, cost, function)


def _float_function(name: str, function: Callable[..., np.ndarray], cost: int) -> IntrinsicDef:
    """A function of `edgec.numerics.float_math`."""
    return _on_arrays(f"{name}_f32", "float32", "float32", function, cost)


def _view(dtype: str) -> Callable[..., np.ndarray]:
    return lambda x: np.asarray(x).view(dtype)


for _definition in (
    _on_arrays("widen_f32", "uint32 int32 int32 int32 int32", "float32", narrow_float.widened, 20),
    _on_arrays("narrow_f32", "float32 int32 int32 int32 int32 int32", "uint32",
               narrow_float.narrowed, 30),
    _on_arrays("bits_from_f32", "float32", "uint32", _view("uint32"), 1),
    _on_arrays("f32_from_bits", "uint32", "float32", _view("float32"), 1),
    _on_arrays("bits_from_f64", "float64", "uint64", _view("uint64"), 2),
    _on_arrays("f64_from_bits", "uint64", "float64", _view("float64"), 2),
    _on_arrays("exp_f64", "float64", "float64", double_math.exp, 900),
    _on_arrays("log_f64", "float64", "float64", double_math.log, 1200),
    _on_arrays("fmod_f64", "float64 float64", "float64", double_math.fmod, 1500),
    _on_arrays("pow_f64", "float64 float64", "float64", double_math.pow, 2500),
    _on_arrays("pow_i64", "int64 int64", "int64", double_math.whole_pow, 100),
    _float_function("exp", float_math.exp, 35),
    _float_function("log", float_math.log, 50),
    _float_function("sigmoid", float_math.sigmoid, 60),
    _float_function("tanh", float_math.tanh, 60),
    _float_function("erf", float_math.erf, 60),
    _float_function("sqrt", float_math.sqrt, 15),
    _float_function("rsqrt", float_math.rsqrt, 30),
    _float_function("floor", float_math.floor, 12),
    _float_function("ceil", float_math.ceil, 12),
    _float_function("round", float_math.round, 12),
    _float_function("sin", float_math.sin, 70),
    _float_function("cos", float_math.cos, 70),
    _float_function("atan", float_math.atan, 50),
    _float_function("sinh", float_math.sinh, 80),
    _float_function("cosh", float_math.cosh, 80),
    _on_arrays("fmod_f32", "float32 float32", "float32", float_math.fmod, 120),
    _on_arrays("fma_f32", "float32 float32 float32", "float32", fma, 2),
    _on_numbers("f32_from_f16", "uint32", "float32", f32_from_f16, 6),
    _on_numbers("requantize_tflm", "int32 int32 int32", "int32", requantize_tflm, 14,
                fixed_point.requantize_tflm),
    _on_numbers("requantize_tflm_right", "int32 int32 int32", "int32", requantize_tflm, 11,
                fixed_point.requantize_tflm, "requantize_tflm"),
    _on_numbers("count_leading_zeros", "int32", "int32", count_leading_zeros, 1),
    _on_arrays("one_over_one_plus_x", "int32", "int32", fixed_point.one_over_one_plus_x, 60),
    _on_arrays("reciprocal_root", "int32", "int32", fixed_point.reciprocal_root, 40),
    _on_numbers("requantize_single", "int32 int32 int32", "int32", requantize_single, 9,
                fixed_point.requantize_single),
    _on_numbers("requantize_tflm16", "int64 int32 int32", "int32", requantize_tflm16, 16,
                fixed_point.requantize_tflm16),
    _on_numbers("requantize_tflm16_high", "int32 int32 int32", "int32", requantize_tflm16_high, 5),
    _on_numbers("multiply_add_high", "int32 int32 int32 int32", "int32", multiply_add_high, 4),
    _on_numbers("rescale_parts", "int32 uint32 int32", "int32", rescale_parts, 5),
    _on_numbers("requantize_onnx", "int32 float32", "int32", requantize_onnx, 8,
                fixed_point.requantize_onnx),
    _on_numbers("round_half_even_f32", "float32", "int32", round_half_even_f32, 6,
                round_half_even_array),
    _on_numbers("round_half_even_bounded_f32", "float32", "int32", round_half_even_f32, 3,
                round_half_even_array),
    _on_arrays("round_half_away_f32", "float32", "int32", fixed_point.round_half_away, 9),
    _on_arrays("round_half_away_f64", "float64", "int32", fixed_point.round_half_away, 60),
    _on_numbers("rounding_doubling_high_multiply", "int32 int32", "int32",
                rounding_doubling_high_multiply, 6, fixed_point.rounding_doubling_high_multiply),
    _on_numbers("rounding_divide_by_power_of_two", "int32 int32", "int32",
                rounding_divide_by_power_of_two, 6, fixed_point.rounding_divide_by_power_of_two),
    _on_numbers("bit_length_u32", "uint32", "int32", signal_intrinsics.bit_length, 4),
    _on_numbers("rounded_sqrt_u64", "uint64", "uint32", signal_intrinsics.rounded_sqrt, 350),
):  # fmt: skip
    register(_definition)
