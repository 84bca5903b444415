"""inline_constant: write the numbers of a small constant into the code that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.ir import Binary, Buffer, Const, Expr, IndexValue, Load, PrimFunc, Select
from edgec.loop.primitives.lookup import find_buffer
from edgec.loop.rewrite import Rewriter

#: Largest number of elements of a constant: choosing one of them is code, too.
MOST = 8


def inline_constant(
    func: PrimFunc, buffer: str, values: Sequence[int | float]
) -> tuple[PrimFunc, None]:
    """Read the numbers of a constant of one dimension from the code; the parameter goes.

        m: constant int32[2]
        unrolled for g in 0..2 {          unrolled for g in 0..2 {
          .. = f(acc[g], m[g])      ->      .. = f(acc[g], g == 0 ? 1518500250 : 1073741824)
        }                                 }

    Where the loop of the index is unrolled, one number is left of the choice. That `values` are
    the constant's is the caller's to know.
    """
    constant = find_buffer(func, buffer)
    if constant.scope != "constant" or constant.shape != (len(values),) or len(values) > MOST:
        raise ScheduleError(
            f"inline_constant: {buffer} is {constant.scope} {list(constant.shape)}, "
            f"no constant of {len(values)} numbers, at most {MOST}"
        )
    if any(a.indices is None for a in accesses(func.body, of=(constant,))):
        raise ScheduleError(f"inline_constant: {buffer} is read by a gather or a call")
    body = _Inline(constant, values).stmt(func.body)
    return replace(func, params=tuple(p for p in func.params if p != constant), body=body), None


class _Inline(Rewriter):
    def __init__(self, constant: Buffer, values: Sequence[int | float]) -> None:
        self.constant = constant
        self.numbers = [Const(value, constant.dtype) for value in values]

    def load(self, load: Load) -> Expr:
        if load.buffer != self.constant:
            return load
        (index,) = load.indices
        if index.constant is not None:
            return self.numbers[index.constant]
        *first, chosen = self.numbers
        found: Expr = chosen
        for i, number in reversed(list(enumerate(first))):
            found = Select(Binary("eq", IndexValue(index), Const(i, "int32")), number, found)
        return found
