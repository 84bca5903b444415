"""Definitions that are read on arrays: traced once, run for many arrays, equal to their loops."""

import numpy as np
import pytest

from edgec.errors import ContractError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.values import index, int32, maximum, minimum

NUMBERS = np.arange(24, dtype=np.float32).reshape(4, 6)
PLACES = {
    "same": ((4, 6), lambda i, j: (i, j)),
    "transposed": ((6, 4), lambda i, j: (j, i)),
    "backwards": ((4, 6), lambda i, j: (3 - i, 5 - j)),
    "every second": ((2, 3), lambda i, j: (2 * i + 1, 2 * j)),
    "windows": ((3, 4, 2, 3), lambda h, w, a, b: (h + a, w + b)),
    "diagonal": ((4,), lambda i: (i, i)),
    "one row many times": ((5, 6), lambda i, j: (2, j)),
    "reshaped": ((8, 3), lambda i, j: ((3 * i + j) // 6, (3 * i + j) % 6)),
    "nearest": ((7, 9), lambda i, j: (i * 4 // 7, j * 6 // 9)),
    "limited": ((4, 9), lambda i, j: (i, minimum(maximum(j - 1, 0), 5))),
    "one element": ((), lambda: (1, 2)),
}


@pytest.mark.parametrize("name", PLACES)
def test_elements_at_known_places(name):
    shape, place = PLACES[name]
    b = Definition("f")
    x = b.input("x", NUMBERS.shape, "float32")
    b.compute(b.output("out", shape, "float32"), lambda *at: x[place(*at)] * 2)
    for given in (NUMBERS, np.asfortranarray(NUMBERS)):
        found = b.evaluate({"x": given})["out"]
        assert np.array_equal(found, interpret(b.build(), {"x": NUMBERS})["out"])


def test_a_program_runs_many_times_and_keeps_its_inputs():
    b = Definition("f")
    x = b.input("x", (3,), "float32")
    out = b.output("out", (5,), "float32")
    b.compute(out, lambda i: 7, name="sevens")
    b.compute(x, lambda i: x[i] + 1, name="more")
    b.compute(out, lambda i: x[i], shape=(3,), at=lambda i: (i + 2,), name="ends")
    program = b.program(["x"], ["out"], {})
    first, second = np.zeros(3, np.float32), np.ones(3, np.float32)
    results = [program.run([array])[0] for array in (first, second, first)]
    assert [r.tolist() for r in results] == [[7, 7, 1, 1, 1], [7, 7, 2, 2, 2], [7, 7, 1, 1, 1]]
    assert not first.any() and (second == 1).all()


def test_a_copy_is_no_view_of_its_input():
    b = Definition("f")
    x = b.input("x", (3,), "float32")
    b.compute(b.output("out", (3,), "float32"), lambda i: x[i])
    given = np.ones(3, np.float32)
    b.evaluate({"x": given})["out"][:] = 5
    assert (given == 1).all()


def test_results_that_are_constant_are_new_arrays():
    b = Definition("f")
    table, out = b.constant("t", (3,), "int8"), b.output("out", (3,), "int32")
    b.compute(out, lambda i: int32(table[i]))
    program = b.program([], ["out"], {"t": np.array([1, 2, 3], np.int8)})
    program.run([])[0][:] = 9
    assert program.run([])[0].tolist() == [1, 2, 3]


def test_what_constants_decide_is_computed_once():
    b = Definition("f")
    x, table = b.input("x", (3,), "int32"), b.constant("t", (3,), "int8")
    b.compute(b.output("out", (3,), "int32"), lambda i: x[i] + int32(table[2 - i]) * 2)
    program = b.program(["x"], ["out"], {"t": np.array([1, 2, 3], np.int8)})
    ufuncs = [call[0] for call in program.calls if isinstance(call[0], np.ufunc)]
    assert ufuncs == [np.add]
    assert program.run([np.zeros(3, np.int32)])[0].tolist() == [6, 4, 2]


ROWS = [
    [0.0, -0.0, -1.0], [-0.0, 0.0, -1.0], [-0.0, -0.0, -2.0], [np.nan, 1.0, 2.0],
    [1.0, np.nan, -2.0], [1.0, 2.0, np.nan], [np.inf, -np.inf, 0.0], [3.0, -0.0, 0.0],
]  # fmt: skip


@pytest.mark.parametrize("chain", [
    lambda acc, x: maximum(acc, x), lambda acc, x: minimum(acc, x),
    lambda acc, x: maximum(x, acc), lambda acc, x: maximum(maximum(acc, x), -x),
    lambda acc, x: acc + x, lambda acc, x: (acc + x) * 0.5,
])  # fmt: skip
@pytest.mark.parametrize("start", [-np.inf, -0.0, 0.0])
def test_reductions_of_floats_have_the_bits_of_their_loops(chain, start):
    for length in (1, 3, len(ROWS)):  # also without the rows that decide for the others
        b, array = Definition("f"), np.array(ROWS[:length], np.float32)
        x, out = b.input("x", array.shape, "float32"), b.output("out", (length,), "float32")
        reduce_rows(b, x, out, chain, start)
        with np.errstate(all="ignore"):
            wanted = interpret(b.build(), {"x": array})["out"]
        found = b.evaluate({"x": array})["out"]
        is_number = ~np.isnan(wanted)
        assert np.array_equal(is_number, ~np.isnan(found))
        assert np.array_equal(found[is_number].view("int32"), wanted[is_number].view("int32"))


def reduce_rows(definition, x, out, chain, start):
    definition.reduce(
        out, [("k", 0, 3)], init=lambda i: start, update=lambda acc, i, k: chain(acc, x[i, k])
    )


def test_an_input_that_does_not_fit():
    b = Definition("f")
    x = b.input("x", (3,), "float32")
    b.compute(b.output("out", (3,), "float32"), lambda i: x[i])
    with pytest.raises(ContractError, match=r"x is float64\[3\], not float32\[3\]"):
        b.evaluate({"x": np.zeros(3)})


WITH_NANS = np.array([
    [1, np.nan, 0, -0.0, 0], [np.nan, 2, -1, 0, -1], [-3, -0.0, np.nan, -0.0, np.nan],
    [0, np.nan, -2, -1, -0.0], [-0.0, -5, -0.0, -np.inf, -2], [-1, np.nan, -4, 0, -0.0],
    [-0.0, -1, np.nan, -0.0, -4],
], np.float32)  # fmt: skip
CHAINS = {
    "sum": (0, lambda acc, x: acc + x),
    "product": (1, lambda acc, x: acc * x),
    "sum and product": (0, lambda acc, x: (acc + x) * x),
    "maximum": (-np.inf, maximum),
    "minimum": (np.inf, minimum),
    "maximum of two": (-np.inf, lambda acc, x: maximum(maximum(acc, x), x * 0)),
    "maximum, swapped": (-np.inf, lambda acc, x: maximum(x, acc)),
    "minimum, swapped": (np.inf, lambda acc, x: minimum(x, acc)),
    "magnitude": (0, lambda acc, x: maximum(-x, maximum(x, acc))),
}


@pytest.mark.parametrize("most", [1, 4, 8, 10, 1 << 20])
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("sign", [1, -1])
def test_steps_in_parts_have_the_bits_of_steps_in_order(name, sign, most, monkeypatch):
    """NaNs and zeros of both signs, in every row of which another stands last."""
    monkeypatch.setattr("edgec.loop.on_arrays._MOST_AT_ONCE", most)
    start, update = CHAINS[name]
    b = Definition("f")
    x = b.input("x", (7, 5), "float32")
    b.reduce(b.output("out", (5,), "float32"), [("k", 0, 7)],
             init=lambda i: start, update=lambda acc, i, k: update(acc, x[k, i]))  # fmt: skip
    func = b.build()
    for first in range(7):
        given = np.roll(WITH_NANS, first, axis=0) * np.float32(sign)
        found, wanted = b.evaluate({"x": given})["out"], interpret(func, {"x": given})["out"]
        assert np.array_equal(np.isnan(found), np.isnan(wanted))
        kept = ~np.isnan(wanted)
        assert found[kept].tobytes() == wanted[kept].tobytes()


def test_integers_wrap_in_parts(monkeypatch):
    monkeypatch.setattr("edgec.loop.on_arrays._MOST_AT_ONCE", 4)
    b = Definition("f")
    x = b.input("x", (3, 7), "int32")
    b.reduce(b.output("out", (2,), "int32"), [("j", 0, 3), ("k", 0, 7)],
             init=lambda i: 5,
             update=lambda acc, i, j, k: acc + x[j, k] * int32(index(i)))  # fmt: skip
    given = (np.arange(21, dtype=np.int32) * 123456789).reshape(3, 7)
    found = b.evaluate({"x": given})["out"]
    assert np.array_equal(found, interpret(b.build(), {"x": given})["out"])


@pytest.mark.parametrize("update", [
    maximum, lambda acc, x: maximum(-x, maximum(x, acc)), lambda acc, x: acc * x,
], ids=["maximum", "magnitude", "product"])  # fmt: skip
def test_a_large_axis_takes_few_calls(update, monkeypatch):
    """Not one for each element, nor an array of all of them where that is too large."""
    monkeypatch.setattr("edgec.loop.on_arrays._MOST_AT_ONCE", 1000)
    b = Definition("f")
    x = b.input("x", (10000,), "float32")
    b.reduce(b.output("out", (), "float32"), [("k", 0, 10000)],
             init=lambda: 1, update=lambda acc, k: update(acc, x[k]))  # fmt: skip
    program = b.program(["x"], ["out"], {})
    assert len(program.calls) < 40
    ones = np.ones(10000, np.float32)
    assert program.run([ones])[0] == 1
