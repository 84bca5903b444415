"""Which integers an expression can be: interval analysis, to know where int32 cannot overflow."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.codegen.c_types import INT_RANGE, is_integer
from edgec.loop.ir import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Gather,
    IndexValue,
    Intrinsic,
    Load,
    Select,
)

Range = tuple[int, int]


class Ranges:
    """Interval analysis, knowing what range the elements of some buffers have."""

    def __init__(self, known: Mapping[Buffer, Range] | None = None) -> None:
        self._known = known or {}

    def of(self, expr: Expr) -> Range | None:
        """Smallest and largest value (inclusive) of an integer expression, None for a float."""
        if not is_integer(expr.dtype):
            return None
        exact = self.exact(expr)
        low, high = INT_RANGE[expr.dtype]
        if exact is None or exact[0] < low or exact[1] > high:
            return low, high
        return exact

    def exact(self, expr: Expr) -> Range | None:
        """The range before the outermost operator's result is reduced to its dtype; None if that
        is not known."""
        match expr:
            case Const(value, _):
                return int(value), int(value)
            case IndexValue(term, _):
                return term.bounds()
            case Load(buffer, _) | Gather(buffer, _):
                return self._known.get(buffer, INT_RANGE.get(buffer.dtype))
            case Cast(dtype, value):
                return INT_RANGE[dtype] if dtype == "bool" else self.of(value)
            case Select(_, yes, no):
                a, b = self.of(yes), self.of(no)
                return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
            case Binary(op, left, right):
                return _binary(op, expr, self.of(left), self.of(right))
            case Intrinsic("requantize_tflm", args, _):
                shift = self.of(args[2])
                if shift is not None and shift[1] < 0:
                    # at least one bit is shifted out, and a shift is never below -31
                    bound = 1 << max(31 + shift[1], 0)
                    return -bound, bound
        return INT_RANGE[expr.dtype]


def sign_class(low: int, high: int) -> Range:
    """A coarse int32 range that contains [low, high] and tells only signs and "not zero".

    Code that depends on no more than this can be shared by tables with other values.
    """
    top, bottom = INT_RANGE["int32"][1], INT_RANGE["int32"][0]
    new_low = 1 if low > 0 else 0 if low == 0 else bottom
    new_high = -1 if high < 0 else 0 if high == 0 else top
    return new_low, new_high


def _binary(op: str, expr: Binary, a: Range | None, b: Range | None) -> Range | None:
    if a is None or b is None:
        return INT_RANGE[expr.dtype]
    if op == "add":
        return a[0] + b[0], a[1] + b[1]
    if op == "sub":
        return a[0] - b[1], a[1] - b[0]
    if op == "mul":
        corners = [x * y for x in a for y in b]
        return min(corners), max(corners)
    if op == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if op == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    if op in ("shl", "shr"):
        if not isinstance(expr.right, Const) or not 0 <= int(expr.right.value) < 64:
            return None if op == "shl" else INT_RANGE[expr.dtype]
        n = int(expr.right.value)
        return (a[0] << n, a[1] << n) if op == "shl" else (a[0] >> n, a[1] >> n)
    if op == "div":
        bound = max(abs(a[0]), abs(a[1]))
        return (0 if a[0] >= 0 and b[0] > 0 else -bound), bound
    if op == "and" and a[0] >= 0 and b[0] >= 0:
        return 0, min(a[1], b[1])
    return INT_RANGE[expr.dtype]
