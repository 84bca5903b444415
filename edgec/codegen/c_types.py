"""How dtypes and literals are spelled in C."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgec.errors import ContractError

# bool is stored as a byte: C99's _Bool has no guaranteed size.
C_TYPE: Mapping[str, str] = {
    "bool": "uint8_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "float32": "float",
    "float64": "double",
}

INT_RANGE: Mapping[str, tuple[int, int]] = {
    "bool": (0, 1),
    **{f"int{b}": (-(1 << (b - 1)), (1 << (b - 1)) - 1) for b in (8, 16, 32, 64)},
    **{f"uint{b}": (0, (1 << b) - 1) for b in (8, 16, 32, 64)},
}

# C computes with at least int: narrower operands are promoted before any operator.
PROMOTED: Mapping[str, str] = {
    **{name: name for name in C_TYPE},
    "bool": "int32",
    "int8": "int32",
    "uint8": "int32",
    "int16": "int32",
    "uint16": "int32",
}


def is_integer(dtype: str) -> bool:
    return dtype in INT_RANGE


def literal(value: int | float, dtype: str) -> str:
    """A C constant of exactly this value; its C type is the promoted dtype.

    Raises ContractError for a value that the dtype does not have.
    """
    if dtype in ("float32", "float64"):
        return _float_literal(float(value), dtype)
    number = int(value)
    if dtype not in INT_RANGE:
        raise ContractError(f"no C literal for dtype {dtype!r}")
    low, high = INT_RANGE[dtype]
    if not low <= number <= high:
        raise ContractError(f"{number} is out of {dtype}")
    if dtype == "uint32":
        return f"{number}u"
    if dtype == "uint64":
        return f"UINT64_C({number})"
    # The most negative value has no literal: -2147483648 is minus a number that is too large.
    if dtype == "int64":
        return "INT64_MIN" if number == low else f"INT64_C({number})"
    if dtype == "int32" and number == low:
        return "INT32_MIN"
    return str(number)


def _float_literal(value: float, dtype: str) -> str:
    suffix, digits = ("f", str(np.float32(value))) if dtype == "float32" else ("", repr(value))
    # Infinities and NaNs have no literal, and math.h may be absent; a constant quotient is both.
    if np.isnan(value):
        return f"(0.0{suffix} / 0.0{suffix})"
    if np.isinf(float(digits)):
        return f"({'-' if value < 0 else ''}1.0{suffix} / 0.0{suffix})"
    if "." not in digits and "e" not in digits:
        digits += ".0"
    return digits + suffix
