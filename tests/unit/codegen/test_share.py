"""Equal functions are found whatever their names; unequal ones stay apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from c_harness import conv_func, conv_program, int32, load, loop, store

from edgec.codegen.share import canonical, share
from edgec.loop.ir import Binary, Buffer, PrimFunc
from edgec.numerics.term import Var


def renamed(prefix: str, constant: int = 1, extent: int = 8) -> PrimFunc:
    x = Buffer(f"{prefix}x", (extent,), "int32", "arena")
    out = Buffer(f"{prefix}out", (extent,), "int32", "arena")
    i = Var(f"{prefix}i", 0, extent)
    value = Binary("add", load(x, i), int32(constant))
    return PrimFunc(f"{prefix}f", (x, out), (), loop(i, store(out, (i,), value)))


def test_names_do_not_matter() -> None:
    assert canonical(renamed("a_")) == canonical(renamed("zz"))


def test_constants_shapes_and_dtypes_do() -> None:
    assert canonical(renamed("a")) != canonical(renamed("a", constant=2))
    assert canonical(renamed("a")) != canonical(renamed("a", extent=9))
    assert canonical(conv_func()) != canonical(conv_func(unroll=2))
    assert canonical(conv_func()) == canonical(conv_func(name="other"))


def test_nested_loops_may_reuse_a_name() -> None:
    def nest(inner: str) -> PrimFunc:
        x = Buffer("x", (4, 4), "int8", "arena")
        out = Buffer("out", (4, 4), "int8", "arena")
        i, j = Var("i", 0, 4), Var(inner, 0, 4)
        first = loop(j, store(out, (0, j), load(x, 0, j)))
        return PrimFunc("f", (x, out), (), loop(i, first))

    assert canonical(nest("i")) == canonical(nest("j"))


def test_program_shares_across_steps() -> None:
    program = conv_program()
    (shared,) = share(program)
    assert shared.steps == (0, 1)
    assert shared.known["shift"] == (-128, -1)


def test_tables_of_another_sign_need_other_code() -> None:
    program = conv_program()
    constants = {**program.constants, "left": np.array([2] * 8, np.int8)}
    first, second = program.steps
    changed = replace(second, args=(*second.args[:5], "left"))
    program = replace(program, constants=constants, steps=(first, changed))
    assert [item.steps for item in share(program)] == [(0,), (1,)]
