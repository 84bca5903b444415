"""floor_sum: a sum of two int8 from the upper words of products."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgec.errors import ScheduleError
from edgec.loop.ir import Binary, Buffer, Cast, Expr, Load, PrimFunc, Store
from edgec.loop.primitives.lookup import find_block, with_changes
from edgec.loop.rewrite import subexpressions, with_constant, with_constants
from edgec.loop.values import ExprValue, clamp, int32, int64
from edgec.numerics.linear_sum import UNSIGNED, FlooredSum, LinearSum, find_same_floored


@dataclass(frozen=True)
class SumOfTwo:
    """clamp((left * first + constant + right * second) >> shift, minimum, maximum).

    left, right: int32 of an element each. All of it in int32.
    """

    left: Expr
    right: Expr
    linear: LinearSum
    minimum: int
    maximum: int

    @property
    def is_of_bytes(self) -> bool:
        """Whether both are int8 that were widened."""
        both = (self.left, self.right)
        return all(isinstance(x, Cast) and x.value.dtype == "int8" for x in both)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers of both operands."""
        parts = (*subexpressions(self.left), *subexpressions(self.right))
        return tuple(part.buffer for part in parts if isinstance(part, Load))


def find_sum(value: Expr) -> SumOfTwo | None:
    """The sum that an expression is; None for all others."""
    rest = value.value if isinstance(value, Cast) else value
    found = with_constants(rest, "min", "max", "shr")
    return _of_products(found[0], *found[1]) if found else None


def _of_products(total: Expr, maximum: int, minimum: int, shift: int) -> SumOfTwo | None:
    if not isinstance(total, Binary) or total.op != "add":
        return None
    moved, second = with_constant(total.left, "add"), with_constant(total.right, "mul")
    first = moved and with_constant(moved[0], "mul")
    if not moved or not first or not second:
        return None
    linear = LinearSum(first[1], second[1], moved[1], shift)
    return SumOfTwo(first[0], second[0], linear, minimum, maximum)


def floor_sum(func: PrimFunc, block: str) -> tuple[PrimFunc, FlooredSum]:
    """Add two int8, times a number each, by products without their lower bytes.

        block out(i) {                                    block out(i) {
          out[i] = clamp((int32(a[i]) * 5033164             out[i] = clamp((
            + 4194304 + int32(b[i]) * 3355443) >> 23)  ->     (int32(int64(a[i]) * 10066329 >> 8)
        }                                                       + 32768 + ...) >> 16) - 128)
                                                          }

    Cores that multiply a word by a half-word and keep the upper part do each product in one
    instruction. Requires: numbers with equal results for all 65,536 pairs of operands; they are
    searched for, see `edgec.numerics.linear_sum`. Returns them.
    """
    found, _ = find_block(func, block)
    store = found.body
    total = find_sum(store.value) if isinstance(store, Store) else None
    if not isinstance(store, Store) or total is None or not total.is_of_bytes:
        raise ScheduleError(f"floor_sum: {block} is not a sum of two int8")
    numbers = find_same_floored(total.linear, total.minimum, total.maximum)
    if numbers is None:
        raise ScheduleError(f"floor_sum: no numbers have the same results as {block}")
    factors = (total.left, numbers.first), (total.right, numbers.second)
    left, right = (int32((int64(ExprValue(x)) * factor) >> 8) for x, factor in factors)
    upper = (left + numbers.constant + right) >> 16
    value = clamp(upper - UNSIGNED, total.minimum, total.maximum)
    assert isinstance(value, ExprValue)
    made = replace(store, value=Cast(store.buffer.dtype, value.expr))
    return with_changes(func, [(found, replace(found, body=made))]), numbers
