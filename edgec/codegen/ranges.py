"""Which integers an expression can be: interval analysis, to know where int32 cannot overflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgec.codegen.c_types import INT_RANGE, is_integer
from edgec.loop.access import flat_term
from edgec.loop.ir import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Gather,
    If,
    IndexValue,
    Intrinsic,
    Load,
    Select,
    Seq,
    Stmt,
    Store,
)
from edgec.loop.rewrite import subexpressions

Range = tuple[int, int]

#: Intrinsics that mean acc * multiplier * 2**(shift - 31) with gemmlowp's double rounding; the
#: last is made by codegen, where a negative result will be limited to zero anyway.
REQUANTIZE_RELU = "requantize_tflm_relu"
REQUANTIZE_TFLM = ("requantize_tflm", "requantize_tflm_right", REQUANTIZE_RELU)


class Ranges:
    """Interval analysis, with known ranges of the elements of some buffers.

    `elements` has the ranges of single register elements (buffer, flat index).
    """

    def __init__(self, known: Mapping[Buffer, Range] | None = None) -> None:
        self._known = known or {}
        self.elements: dict[tuple[Buffer, int | None], Range] = {}

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
        is not known, or for a float."""
        if not is_integer(expr.dtype):
            return None
        match expr:
            case Const(value, _):
                return int(value), int(value)
            case IndexValue(term, _):
                return term.bounds()
            case Load(buffer, indices):
                if buffer.scope == "register" and self.elements:
                    flat = flat_term(indices, buffer.shape).constant
                    if flat is not None and (buffer, flat) in self.elements:
                        return self.elements[buffer, flat]
                return self._known.get(buffer, INT_RANGE.get(buffer.dtype))
            case Gather(buffer, _):
                return self._known.get(buffer, INT_RANGE.get(buffer.dtype))
            case Cast(dtype, value):
                return INT_RANGE[dtype] if dtype == "bool" else self.of(value)
            case Select(_, yes, no):
                a, b = self.of(yes), self.of(no)
                return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
            case Binary(op, left, right):
                return _binary(op, expr, self.of(left), self.of(right))
            case Intrinsic(name, args, _) if name in REQUANTIZE_TFLM:
                shift = self.of(args[2])
                if shift is not None and shift[1] < 0:
                    # at least one bit is shifted out, and a shift is never below -31
                    bound = 1 << max(31 + shift[1], 0)
                    return -bound, bound
        return INT_RANGE[expr.dtype]


def accumulated_range(
    ranges: Ranges, element: tuple[Buffer, int], first: Store, rest: Sequence[Stmt]
) -> Range | None:
    """The range of a register that `first` sets and the statements after it add to.

    Each `acc = acc + e` counts as often as the loops around it can run at most. None if the
    register is used in another way, or if int32 may not hold it.
    """
    start = ranges.of(first.value)
    if start is None:
        return None
    spread = [0, 0]
    base = [*start]

    def visit(stmt: Stmt, times: int) -> bool:
        if isinstance(stmt, For):
            extent = max((stmt.stop - stmt.start).bounds()[1], 0)
            return visit(stmt.body, times * extent)
        if isinstance(stmt, Seq):
            return all(visit(child, times) for child in stmt.stmts)
        if isinstance(stmt, If):
            otherwise = stmt.otherwise is None or visit(stmt.otherwise, times)
            return visit(stmt.body, times) and otherwise
        if not isinstance(stmt, Store) or stmt.buffer != element[0]:
            return True
        if flat_term(stmt.indices, stmt.buffer.shape).constant != element[1]:
            return True
        own = Load(stmt.buffer, stmt.indices)
        value = stmt.value
        if isinstance(value, Binary) and value.left == own and own not in _parts(value.right):
            change = ranges.of(value.right)
            if change is None:
                return False
            if value.op in ("add", "sub"):
                low, high = change if value.op == "add" else (-change[1], -change[0])
                spread[0] += min(0, low * times)
                spread[1] += max(0, high * times)
                return True
            if value.op in ("min", "max"):
                base[:] = [min(base[0], change[0]), max(base[1], change[1])]
                return True
            return False
        found = ranges.of(value)
        if own in _parts(value) or found is None:
            return False
        base[:] = [min(base[0], found[0]), max(base[1], found[1])]
        return True

    if not all(visit(stmt, 1) for stmt in rest):
        return None
    low, high = base[0] + spread[0], base[1] + spread[1]
    limits = INT_RANGE[element[0].dtype]
    return (low, high) if limits[0] <= low and high <= limits[1] else None


def _parts(expr: Expr) -> tuple[Expr, ...]:
    return tuple(subexpressions(expr))


#: Limits that a table's range is widened to, so that most layers of one shape have the same code.
_STEPS = (1 << 24, 1 << 29)


def range_class(dtype: str, low: int, high: int) -> Range:
    """A coarse range that contains [low, high]; code that depends only on it can be shared."""
    bottom, top = INT_RANGE[dtype]
    new_high = -1 if high < 0 else 0 if high == 0 else _widened(high)
    new_low = 1 if low > 0 else 0 if low == 0 else -_widened(-low)
    return max(new_low, bottom), min(new_high, top)


def _widened(size: int) -> int:
    return next((step for step in _STEPS if size <= step), 1 << 64)


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
