"""Tensorize: a nest becomes a call of the microkernel that means the same."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgec.errors import ScheduleError
from edgec.loop import microkernel
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.schedule import Schedule, replay
from edgec.loop.values import int32
from edgec.loop.verify import verify_func

#: The primitives that random products try.
TENSORIZING = ("tensorize",)


def dot4(k):
    """acc[i] += w[j][i] * x[j] for j < k and i < 4."""
    b = Definition("dot4")
    acc = b.output("acc", (4,), "int32")
    x = b.input("x", (k,), "int8")
    w = b.constant("w", (k, 4), "int8")
    b.reduce(acc, [("j", 0, k)], init=lambda i: 0,
             update=lambda acc, i, j: acc + int32(x[j]) * int32(w[j, i]))  # fmt: skip
    s = Schedule(b.build())
    s.reorder("acc_j", "acc_i")
    s.decompose_reduction("acc", "acc_j")
    body = s.func.body.stmts[1]
    return microkernel_func(s.func, body)


def microkernel_func(func, body):
    from dataclasses import replace

    return replace(func, body=body)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(microkernel, "_REGISTRY", {})
    microkernel.register(
        microkernel.Microkernel("ec_mk_dot4_s8", dot4, sizes=("k",), header="common/dot4_s8.h")
    )


def dense(rows=3, channels=12, depth=8, start=7):
    b = Definition("dense")
    x = b.input("x", (rows, depth), "int8")
    w = b.constant("w", (channels, depth), "int8")
    out = b.output("out", (rows, channels), "int32")
    acc = b.reduce("acc", [("k", 0, depth)], init=lambda n, c: start,
                   update=lambda acc, n, c, k: acc + int32(w[c, k]) * int32(x[n, k]),
                   shape=(rows, channels), dtype="int32")  # fmt: skip
    b.compute(out, lambda n, c: acc[n, c] * 2)
    return b


def scheduled(definition=None, early=lambda s: None):
    s = Schedule((definition or dense()).build())
    early(s)
    c_o, _ = s.split("out_c", 4)
    s.compute_at("acc", c_o)
    s.reorder("acc_k", "acc_c")
    s.decompose_reduction("acc", "acc_k")
    s.transform_layout("w", "OI -> O/4 I O%4")
    s.simplify()
    return s


@settings(
    max_examples=60, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(
    st.integers(2, 6), st.integers(1, 4), st.integers(2, 9), st.integers(-9, 9),
    st.sampled_from(["", "split", "reorder", "parallel"]), st.integers(1, 3),
)  # fmt: skip
def test_random_products_keep_their_meaning(rows, blocks, depth, start, early, factor):
    definition = dense(rows, 4 * blocks, depth, start)

    def arrange(s):
        if early == "split":
            s.split("out_n", factor)
        elif early == "reorder":
            s.reorder("out_c", "out_n")
            s.reorder("out_n", "out_c")
        elif early == "parallel":
            s.parallel("out_n")

    s = scheduled(definition, arrange)
    s.tensorize("acc_k", "ec_mk_dot4_s8", {"k": depth})
    verify_func(s.func)
    text = print_func(s.func)
    assert text.count("call ec_mk_dot4_s8") == 1 and parse_func(text) == s.func
    rng = np.random.default_rng(depth)
    arrays = {
        "x": rng.integers(-128, 128, (rows, depth)).astype("int8"),
        "w": rng.integers(-128, 128, (4 * blocks, depth)).astype("int8"),
    }
    expected = definition.evaluate(arrays)["out"]
    arrays["w"] = s.repacked["w"](arrays["w"])
    assert np.array_equal(interpret(s.func, arrays)["out"], expected), text
    assert replay(definition.build(), s.trace_json()).func == s.func


def test_matching_nest_becomes_a_call():
    s = scheduled()
    s.tensorize("acc_k", "ec_mk_dot4_s8", {"k": 8})
    text = print_func(s.func)
    assert "call ec_mk_dot4_s8(&acc[0], &x[out_n, 0], &w[out_c_o, 0, 0], 8)" in text
    assert "alloc acc: register int32[4]" in text
    assert parse_func(text) == s.func
    verify_func(s.func)
    rng = np.random.default_rng(2)
    arrays = {
        "x": rng.integers(-128, 128, (3, 8)).astype("int8"),
        "w": rng.integers(-128, 128, (12, 8)).astype("int8"),
    }
    expected = dense().evaluate(arrays)["out"]
    arrays["w"] = s.repacked["w"](arrays["w"])
    assert np.array_equal(interpret(s.func, arrays)["out"], expected)
    assert replay(dense().build(), s.trace_json()).func == s.func


@pytest.mark.parametrize(
    ("loop", "sizes", "why"),
    [
        ("acc_k", {"k": 4}, "has 8 steps"),
        ("acc_k", {}, "needs the sizes k"),
        ("out_c_i", {"k": 4}, "a Store stands where a For is meant"),
    ],
)
def test_other_nests_are_refused(loop, sizes, why):
    s = scheduled()
    with pytest.raises(ScheduleError, match=why):
        s.tensorize(loop, "ec_mk_dot4_s8", sizes)


def test_steps_in_memory_must_agree():
    s = Schedule(dense().build())
    c_o, _ = s.split("out_c", 4)
    s.compute_at("acc", c_o)
    s.reorder("acc_k", "acc_c")
    s.decompose_reduction("acc", "acc_k")
    s.simplify()
    with pytest.raises(ScheduleError, match="does not step like w"):
        s.tensorize("acc_k", "ec_mk_dot4_s8", {"k": 8})


def lookup(count, entries=16):
    """out[i] = table[x[i]] for i < count."""
    b = Definition("lookup")
    out = b.output("out", (count,), "int8")
    x = b.input("x", (count,), "int8")
    table = b.constant("table", (entries,), "int8")
    b.compute(out, lambda i: table[int32(x[i])])
    return b


@pytest.mark.parametrize("entries", [16, 15])
def test_a_table_is_meant_as_a_whole(entries):
    """Any of its elements may be read: another one of another length is refused."""
    microkernel.register(
        microkernel.Microkernel("ec_lookup", lambda count: lookup(count).build(), sizes=("count",))
    )
    definition = lookup(9, entries)
    s = Schedule(definition.build())
    s.simplify()
    if entries != 16:
        with pytest.raises(ScheduleError, match="the table table has another shape"):
            s.tensorize("out_i", "ec_lookup", {"count": 9})
        return
    s.tensorize("out_i", "ec_lookup", {"count": 9})
    assert "call ec_lookup(&out[0], &x[0], &table[0], 9)" in print_func(s.func)
    rng = np.random.default_rng(3)
    arrays = {
        "x": rng.integers(0, entries, 9).astype("int8"),
        "table": rng.integers(-128, 128, entries).astype("int8"),
    }
    expected = definition.evaluate(arrays)["out"]
    assert np.array_equal(interpret(s.func, arrays)["out"], expected)
