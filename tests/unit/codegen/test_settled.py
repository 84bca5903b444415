"""Loops that are left once nothing changes: what becomes one, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgec.codegen.settled import LeaveSettled
from edgec.loop.ir import Binary, Buffer, Const, For, IndexValue, Load, Select, Seq, Store, While
from edgec.numerics.term import Var, as_term

AT, TABLE = Buffer("at", (4,), "int32", "scratch"), Buffer("t", (9,), "int32", "constant")
LEVEL, ROW = Var("level", 0, 9), Var("row", 0, 4)
OWN = Load(AT, (as_term(ROW),))
ENDED = Binary("lt", OWN, Const(0, "int32"))
NEXT = Load(TABLE, (as_term(2),))
STORE = Store(AT, (as_term(ROW),), Select(ENDED, OWN, NEXT))


def walk(store: Store, stop: object = 9) -> For:
    return For(LEVEL, as_term(0), as_term(stop), "serial", store)


def test_a_walk_ends() -> None:
    made = LeaveSettled().stmt(For(ROW, as_term(0), as_term(4), "serial", walk(STORE)))
    going = Binary("le", Const(0, "int32"), OWN)
    assert made.body == While(Seq(()), going, replace(STORE, value=NEXT), 9)


def test_floats_may_be_nans() -> None:
    floats = Buffer("at", (4,), "float32", "scratch")
    own = Load(floats, (as_term(ROW),))
    ended = Binary("lt", own, Const(0.0, "float32"))
    store = Store(floats, own.indices, Select(ended, own, Const(1.0, "float32")))
    assert LeaveSettled().stmt(walk(store)).condition == Binary("eq", ended, Const(0, "bool"))


@pytest.mark.parametrize(
    "loop",
    [
        walk(replace(STORE, value=Select(ENDED, NEXT, OWN))),  # the other branch is kept
        walk(replace(STORE, value=Select(ENDED, OWN, IndexValue(as_term(LEVEL))))),  # counts
        walk(replace(STORE, value=Select(Binary("lt", NEXT, OWN), OWN, NEXT))),  # another element
        walk(replace(STORE, indices=(as_term(0),))),  # keeps another one
        walk(STORE, as_term(ROW)),  # as many steps as data have
        replace(walk(STORE), kind="vectorized"),
    ],
)
def test_what_stays(loop: For) -> None:
    assert LeaveSettled().stmt(loop) == loop
