"""Blocks of pixels of kernels at open sizes: also where there are fewer pixels than a block."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop import microkernel
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.simplify import simplify
from edgec.loop.unify import closed_at
from edgec.numerics.term import Var
from edgec.passes.few_pixels import with_few_pixels


def less_first() -> PrimFunc:
    """Three pixels, of each number its pixel's first one is taken off."""
    b = Definition("less_first")
    to, x = b.output("to", (3, 4), "int16"), b.input("x", (3, 4), "int16")
    b.compute(to, lambda p, c: x[p, c] - x[p, 0])
    return b.build()


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Microkernel("ec_test_less_first", less_first)
    monkeypatch.setitem(microkernel._REGISTRY, kernel.name, kernel)


TEXT = """func rows(x: arena int16[{most}, 4], to: arena int16[{most}, 4]) \
at h[{least}..8], w[1..5] sizes x[(h)*(w), 4] sizes to[(h)*(w), 4] {{
  for o in 0..((h)*(w) + 2) // 3 {{
    call ec_test_less_first(&to[{first}, 0], &x[{first}, 0])
  }}
}}
"""


def function(least: int, first: str = "min(o*3, (h)*(w) - 3)") -> PrimFunc:
    return parse_func(TEXT.format(least=least, most=7 * 4, first=first))


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 1), (1, 3), (2, 2), (7, 4)])
def test_every_number_of_pixels_is_computed(height: int, width: int) -> None:
    func = with_few_pixels(function(1))
    assert parse_func(print_func(func)) == func
    assert "if (h)*(w) - 3 < 0" in print_func(func)
    closed = closed_at(func, {Var("h", 1, 8): height, Var("w", 1, 5): width})
    x = np.random.default_rng(3).integers(-99, 99, (height * width, 4)).astype(np.int16)
    np.testing.assert_array_equal(interpret(simplify(closed), {"x": x})["to"], x - x[:, :1])


def test_sizes_that_suffice_need_no_second_way() -> None:
    func = function(3)
    assert with_few_pixels(func) == func


def test_rows_elsewhere_than_in_the_first_index_are_refused() -> None:
    text = print_func(function(1)).replace("- 3), 0])", "- 3), 1])")
    with pytest.raises(ScheduleError, match="first indices"):
        with_few_pixels(parse_func(text))
