"""Equal calls of a program run once, unless a store may have changed what the first one made."""

from __future__ import annotations

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.values import int32


def test_equal_calls_run_once() -> None:
    d = Definition("twice")
    x, y, z = d.input("x", (8,), "int8"), d.output("y", (8,), "int32"), d.output("z", (8,), "int32")
    d.compute(y, lambda i: int32(x[7 - i]) * 3 + 1)
    d.compute(z, lambda i: int32(x[7 - i]) * 3 + 2)
    program = d.program(["x"], ["y", "z"], {})
    given = np.arange(8, dtype=np.int8)
    first, second = program.run([given])
    np.testing.assert_array_equal(first, given[::-1].astype(np.int32) * 3 + 1)
    np.testing.assert_array_equal(second, first + 1)
    names = [getattr(function, "__name__", "") for function, *_ in program.calls]
    assert names.count("multiply") == 1 and names.count("add") == 2


def test_what_a_store_changes_is_computed_again() -> None:
    d = Definition("changed")
    x, y, z = d.input("x", (8,), "int8"), d.output("y", (8,), "int32"), d.output("z", (8,), "int32")
    d.compute(y, lambda i: int32(x[i]))
    d.compute(y, lambda i: int32(x[i]) + 100, shape=(2,), name="begin")
    d.compute(z, lambda i: int32(x[i]))
    given = np.arange(8, dtype=np.int8)
    changed, kept = d.program(["x"], ["y", "z"], {}).run([given])
    np.testing.assert_array_equal(changed, [100, 101, 2, 3, 4, 5, 6, 7])
    np.testing.assert_array_equal(kept, given)
