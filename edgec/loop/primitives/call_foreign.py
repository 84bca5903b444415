"""Primitive: a function of the user's that replaces a whole nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgec.errors import ScheduleError
from edgec.loop.ir import Buffer, BufferRef, Call, Const, Expr, PrimFunc
from edgec.loop.lowering import whole
from edgec.loop.primitives.lookup import find_buffer, fresh
from edgec.loop.values import Array


@dataclass(frozen=True)
class Room:
    """Scratch memory of a call: a number of elements, undefined before it and after it."""

    elements: int
    dtype: str = "int8"


#: The name of an input or output, a constant, room, or a number: int32_t or float.
Argument = str | Array | Room | int | float


def call_foreign(
    func: PrimFunc, symbol: str, arguments: Sequence[Argument]
) -> tuple[PrimFunc, Mapping[str, Array]]:
    """Replace the body of a function by one call.

        for i in 0..16 { out[i] = x[i] * w[i] }     ->     call f(&x[0], &out[0], &given[0], 16)

    Nothing is proven here: whoever calls this compares both. Returns the constants that are new.
    Raises ScheduleError where the function has no such input or output.
    """
    arrays: dict[str, Array] = {}
    own: list[Buffer] = []
    outputs = [b for b in func.params if b.scope == "arena" and b.name.startswith("out")]

    def argument(given: Argument) -> BufferRef | Expr:
        if isinstance(given, str):
            found = find_buffer(func, given)
            if found.scope != "arena":
                raise ScheduleError(f"{given} is not an input or output")
            return whole(found, "writes" if found in outputs else "reads")
        if isinstance(given, int):
            return Const(given, "int32")
        if isinstance(given, float):
            return Const(given, "float32")
        is_room = isinstance(given, Room)
        name = fresh(replace(func, params=(*func.params, *own)), "room" if is_room else "given")
        if isinstance(given, Room):
            own.append(Buffer(name, (given.elements,), given.dtype, "scratch"))
            return whole(own[-1], "updates")
        arrays[name] = given
        own.append(Buffer(name, given.shape, given.dtype.name, "constant"))
        return whole(own[-1], "reads")

    call = Call(symbol, tuple(argument(each) for each in arguments))
    arena = [b for b in func.params if b.scope == "arena"]
    used = {ref.buffer for ref in call.args if isinstance(ref, BufferRef)}
    if not used.issuperset(arena):
        raise ScheduleError(f"{symbol} is not given every input and output")
    params = (*arena, *sorted(own, key=lambda b: b.scope))  # constants before scratch
    return PrimFunc(func.name, params, (), call), arrays
