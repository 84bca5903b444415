"""Facts about scalar types of the loop IR; names are NumPy's."""

from __future__ import annotations

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS)


def is_integer(dtype: str) -> bool:
    """Whether the type is an integer (bool is not)."""
    return dtype in INTEGERS


def is_float(dtype: str) -> bool:
    """Whether the type is a floating-point number."""
    return dtype in FLOATS


def bits(dtype: str) -> int:
    """Width in bits; bool counts as 8."""
    return 8 if dtype == "bool" else int(dtype.lstrip("uintfloa"))


def integer_range(dtype: str) -> tuple[int, int]:
    """Smallest and largest value, both inclusive, of an integer type."""
    if dtype.startswith("u"):
        return 0, (1 << bits(dtype)) - 1
    half = 1 << (bits(dtype) - 1)
    return -half, half - 1


def wrap(value: int, dtype: str) -> int:
    """The integer modulo 2**bits, in the range of the type."""
    size = bits(dtype)
    value &= (1 << size) - 1
    if not dtype.startswith("u") and value >> (size - 1):
        value -= 1 << size
    return value
