"""roll on windows over padded rows: same values, every row made once."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.overlap import overlap_distances
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.row_order import touches
from edgec.loop.schedule import Schedule, replay
from edgec.loop.values import index, int8, int32, maximum, minimum, select
from edgec.loop.verify import verify_func

#: The primitives that windows over padded rows try.
ROLLING = ("roll",)
RELAXED = settings(
    max_examples=60, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
COLUMNS = 2


def windows(height, kernel, stride, top, rows):
    """out[h] = a sum over `kernel` rows of x from h * stride - top on, 7 where there are none."""
    b = Definition("windows")
    x = b.input("x", (height, COLUMNS), "int8")
    out = b.output("out", (rows, COLUMNS), "int8")

    def element(h, c):
        inside = (index(h - top) >= 0) & (index(h - top) < height)
        return select(
            inside, x[maximum(0, minimum(h - top, height - 1)), c], int8(index(h) * 0 + 7)
        )

    padded = b.compute(
        "padded", element, shape=((rows - 1) * stride + kernel, COLUMNS), dtype="int8"
    )
    acc = b.reduce(
        "acc",
        [("k", 0, kernel)],
        init=lambda h, c: 3,
        update=lambda acc, h, c, k: acc * 3 + int32(padded[h * stride + k, c]),
        shape=out.shape,
        dtype="int32",
    )
    b.compute(out, lambda h, c: int8(acc[h, c]))
    return b


def by_blocks(definition, block):
    """A schedule that makes the padded rows of `block` rows of the output at a time."""
    s = Schedule(definition.build())
    outer = "out_h"
    if block > 1:
        outer, _ = s.split("out_h", block, tail="exact")
    s.compute_at("acc", "out_c")
    s.compute_at("padded", outer, scope="scratch")
    s.simplify()
    return s, outer


@st.composite
def cases(draw):
    """(height, kernel, stride, top, rows, block)."""
    kernel, stride = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    block = draw(st.integers(1, 3))
    steps = draw(st.integers(2, 4))
    rows = block * steps
    top = draw(st.integers(0, kernel - 1))
    height = (rows - 1) * stride + kernel - top - draw(st.integers(0, kernel - 1))
    return max(height, 1), kernel, stride, top, rows, block


@RELAXED
@given(cases())
def test_windows_keep_their_meaning(case):
    *shape, block = case
    height, kernel, stride, _, _ = shape
    definition = windows(*shape)
    s, outer = by_blocks(definition, block)
    by = block * stride
    if by >= (block - 1) * stride + kernel:
        with pytest.raises(ScheduleError, match="share none"):
            s.roll("padded_h", outer, by)
        return
    before = s.func
    s.roll("padded_h", outer, by)
    verify_func(s.func)
    text = print_func(s.func)
    assert parse_func(text) == s.func, text
    arrays = {"x": np.random.default_rng(1).integers(-9, 9, (height, COLUMNS), dtype=np.int8)}
    assert np.array_equal(interpret(s.func, arrays)["out"], definition.evaluate(arrays)["out"]), (
        text
    )
    assert replay(definition.build(), s.trace_json()).func == s.func
    x = next(p for p in s.func.params if p.name == "x")
    steps = {}
    for touch in touches(s.func.body, {x}):
        for row in range(touch.first, touch.stop):
            steps.setdefault(row, set()).add(touch.at[outer])
    # Rows at the edge stand for those outside, too.
    assert all(len(at) == 1 for row, at in steps.items() if 0 < row < height - 1), text
    assert distance(s.func) <= distance(before)


def distance(func):
    return next(iter(overlap_distances(func).values()), 1 << 20)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda s: s.roll("padded_h", "out_h", 2), "are not those 2 further"),
        (lambda s: s.roll("padded_h", "out_h", 3), "share none of 3 rows"),
        (lambda s: s.roll("padded_c", "out_h", 1), "under nothing else"),
        (lambda s: s.roll("out_c", "out_h", 1), "one row in each step|all rows of a temporary"),
        (lambda s: s.roll("padded_h", "out_c", 1), "under nothing else"),
        (lambda s: (s.parallel("out_h"), s.roll("padded_h", "out_h", 1)), "cannot be parallel"),
    ],
)
def test_what_does_not_apply_says_why(step, why):
    s, _ = by_blocks(windows(8, 3, 1, 1, 8), 1)
    with pytest.raises(ScheduleError, match=why):
        step(s)


def test_rows_of_what_changes_are_not_kept():
    """The second step reads what the first one wrote in the meantime."""
    func = parse_func(
        """func f(x: arena int8[9, 2], out: arena int8[1], t: scratch int8[3, 2]) {
  for i in 0..7 {
    for r in 0..3 {
      for c in 0..2 {
        t[r, c] = x[i + r, c]
      }
    }
    x[8, 0] = t[0, 0]
    out[0] = t[2, 1]
  }
}
"""
    )
    with pytest.raises(ScheduleError, match="writes x, which loop r reads"):
        Schedule(func).roll("r", "i", 1)


def test_rows_that_others_write_are_not_kept():
    func = parse_func(
        """func f(x: arena int8[9, 2], out: arena int8[7], t: scratch int8[3, 2]) {
  for i in 0..7 {
    for r in 0..3 {
      for c in 0..2 {
        t[r, c] = x[i + r, c]
      }
    }
    out[i] = t[2, 1]
    t[1, 0] = out[i]
  }
}
"""
    )
    with pytest.raises(ScheduleError, match="is not made by loop r alone"):
        Schedule(func).roll("r", "i", 1)
