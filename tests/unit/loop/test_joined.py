"""Functions that store or read through another one, compared with both one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.joined import element_map, read_through, store_through
from edgec.loop.overlap import overlap_distances
from edgec.loop.parser import parse_func
from edgec.loop.rewrite import buffers_of

#: Sums of rows and a constant for each column, by threads.
SUMS = """
func sums(x: arena int32[4, 6, 3], out: arena int32[4, 6], bias: constant int32[6]) {
  alloc acc: register int32[1]
  block_x for m in 0..4 {
    thread_x for c in 0..6 {
      acc[0] = bias[c]
      for k in 0..3 { acc[0] = acc[0] + x[m, c, k] }
      out[m, c] = acc[0]
    }
  }
}
"""
MAPS = {
    "transpose": "out2[i, j, k] = y[0, k, i, j]",
    "twice": "out2[i, j, k] = y[0, k, i, j] * y[0, k, i, j]",
    "sum": "out2[i, j, k] = y[0, k, i, j] + z[i, j, k]",
    "broadcast": "out2[i, j, k] = z[0, j, 0] - y[0, k, i, j]",
    "once": "out2[i, j, k] = y[0, k, i, j] * (z[0, 0, 0] * z[1, 2, 3])",
}
#: What is more than a map of all elements.
OTHERS = {
    "one row": "out2[i, j, k] = y[0, 0, i, j]",
    "backwards": "out2[i, j, k] = y[0, 3 - k, i, j]",
    "two places": "out2[i, j, k] = y[0, k, i, j] + y[0, 0, i, j]",
}


def after(text: str) -> PrimFunc:
    loops = f"for i in 0..2 {{ for j in 0..3 {{ for k in 0..4 {{ {text} }} }} }}"
    return parse_func(
        "func after(y: arena int32[1, 4, 2, 3], z: arena int32[2, 3, 4], "
        f"out2: arena int32[2, 3, 4]) {{ {loops} }}"
    )


def given(func: PrimFunc) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(len(func.params))
    return {b.name: rng.integers(-9, 9, b.shape).astype(b.dtype) for b in func.params}


@pytest.mark.parametrize("name", MAPS)
def test_stores_go_through_a_map(name: str) -> None:
    sums, moved = parse_func(SUMS), after(MAPS[name])
    elements = element_map(moved)
    assert elements is not None
    both = store_through(sums, buffers_of(sums)["out"], elements, buffers_of(moved)["y"])
    assert [b.name for b in both.params] == ["x", "z", "out2", "bias"]
    arrays = given(both)
    made = interpret(sums, {**given(sums), "x": arrays["x"], "bias": arrays["bias"]})["out"]
    viewed = {**arrays, "y": made.reshape(1, 4, 2, 3)}
    expected = interpret(moved, {p.name: viewed[p.name] for p in moved.params})["out2"]
    assert np.array_equal(interpret(both, arrays)["out2"], expected)


def test_what_is_computed_once_is_read_beside_stores_of_others() -> None:
    """Blocks do not start together: nothing may be stored over what each reads at its start."""
    sums, moved = parse_func(SUMS), after(MAPS["once"])
    elements = element_map(moved)
    assert elements is not None
    both = store_through(sums, buffers_of(sums)["out"], elements, buffers_of(moved)["y"])
    assert any(buffer.name == "once0" for buffer in both.allocs)
    assert buffers_of(both)["z"] not in overlap_distances(both)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_map_stays_alone(name: str) -> None:
    sums, moved = parse_func(SUMS), after(OTHERS[name])
    elements = element_map(moved)
    assert elements is not None
    with pytest.raises(ScheduleError, match="read"):
        store_through(sums, buffers_of(sums)["out"], elements, buffers_of(moved)["y"])


def test_what_reads_its_own_output_stays_alone() -> None:
    text = "func own(x: arena int32[4], out: arena int32[4]) { for i in 0..4 { out[i] = x[i] } }"
    assert element_map(parse_func(text)) is not None
    assert element_map(parse_func(text.replace("= x[i]", "= out[i] + x[i]"))) is None
    assert element_map(parse_func(text.replace("out[i]", "out[3 - i]"))) is None
    sums = parse_func(SUMS.replace("acc[0] = bias[c]", "acc[0] = bias[c] out[m, c] = 0").replace(
        "out[m, c] = acc[0]", "out[m, c] = out[m, c] + acc[0]"))  # fmt: skip
    moved = after(MAPS["transpose"])
    elements = element_map(moved)
    assert elements is not None
    with pytest.raises(ScheduleError, match="more than stored"):
        store_through(sums, buffers_of(sums)["out"], elements, buffers_of(moved)["y"])


def test_reads_go_through_a_map() -> None:
    sums = parse_func(SUMS)
    moved = parse_func(
        "func before(t: arena int32[3, 24], s: arena int32[24], y: arena int32[24, 3]) {"
        " for i in 0..24 { for j in 0..3 { y[i, j] = t[j, i] * s[i] } } }"
    )
    elements = element_map(moved)
    assert elements is not None
    both = read_through(sums, buffers_of(sums)["x"], elements)
    assert [b.name for b in both.params] == ["t", "s", "out", "bias"]
    arrays = given(both)
    made = interpret(moved, {**given(moved), "t": arrays["t"], "s": arrays["s"]})["y"]
    x = made.reshape(4, 6, 3)
    expected = interpret(sums, {**given(sums), "x": x, "bias": arrays["bias"]})["out"]
    assert np.array_equal(interpret(both, arrays)["out"], expected)
