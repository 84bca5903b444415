"""Every primitive keeps the meaning: random nests and steps, interpreted before and after."""

import random
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.rewrite import blocks_of, buffers_of, loops_of
from edgec.loop.schedule import Schedule, replay
from edgec.loop.simplify import simplify
from edgec.loop.values import int8, int32, maximum, minimum
from edgec.loop.verify import verify_func


def window(b, x, w, height, kernel, stride, channels, *, empty):
    """A reduction over a clipped window; with `empty`, some windows hold nothing."""
    before = kernel + 1 if empty else kernel // 2
    rows = (height + 2 * before - kernel) // stride + 1
    return b.reduce(
        "acc",
        [
            (
                "k",
                lambda h, c: maximum(0, before - h * stride),
                lambda h, c: minimum(kernel, height + before - h * stride),
            ),
            ("i", 0, x.shape[1]),
        ],
        init=lambda h, c: 5,
        update=lambda acc, h, c, k, i: (
            acc + int32(x[h * stride + k - before, i]) * int32(w[c, k, i])
        ),
        shape=(rows, channels),
        dtype="int32",
    )


@st.composite
def definitions(draw):
    b = Definition("f")
    height, inner = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    channels, kernel = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    x = b.input("x", (height, inner), "int8")
    w = b.constant("w", (channels, kernel, inner), "int8")
    small = b.constant("small", (channels,), "int8")
    source = x
    if draw(st.booleans()):
        source = b.compute("pre", lambda h, i: int8(int32(x[h, i]) * 3 + 1),
                           shape=x.shape, dtype="int8")  # fmt: skip
    acc = window(b, source, w, height, kernel, draw(st.integers(1, 2)), channels,
                 empty=draw(st.booleans()))  # fmt: skip
    value = acc
    if draw(st.booleans()):
        value = b.compute("mid", lambda h, c: acc[h, c] * 7 - int32(small[c]),
                          shape=acc.shape, dtype="int32")  # fmt: skip
    out = b.output("out", acc.shape, "int32")
    if draw(st.booleans()):
        flip = acc.shape[0] - 1
        b.compute(out, lambda h, c: value[flip - h, c] + value[h, c])
    else:
        b.compute(out, lambda h, c: value[h, c] + int32(small[c]))
    return b


def small_numbers(count):
    """What the constant `small` has, which `inline_constant` must be told."""
    return np.arange(-3, count - 3, dtype=np.int8)


def arrays_of(definition, seed=1):
    rng = np.random.default_rng(seed)
    return {
        name: small_numbers(*t.shape)
        if name == "small"
        else rng.integers(*((-8, 8) if name == "w" else (-128, 128)), t.shape).astype(t.dtype)
        for name, t in definition.tensors.items()
        if t.buffer.scope == "constant" or name == "x"
    }


PRIMITIVES = (
    "split", "cut", "fuse", "reorder", "set_kind", "compute_at", "reverse_compute_at",
    "compute_inline", "cache_read", "cache_write", "decompose_reduction", "transform_layout",
    "pack_int4", "complement", "inline_constant", "storage_align", "simplify",
    "sample_perfect_tile", "sample_categorical",
)  # fmt: skip


def small_values(s):
    """The arguments that inline the constant `small` as it is stored by now."""
    count = getattr(s, "small_count", 0)
    if not count or "small" not in buffers_of(s.func):
        return []
    stored = s.repacked.get("small", lambda array: array)(small_numbers(count))
    return [("small", stored.tolist())]


def arguments(s, primitive, rng):
    """All argument lists worth trying, in random order."""
    loops, blocks = loops_of(s.func.body), list(blocks_of(s.func.body))
    pairs = [(b, loop) for b in blocks for loop in loops]
    factor = rng.randint(1, 4)
    orders = []
    for name, loop in loops.items():
        chain, body = [name], loop.body
        while hasattr(body, "kind") or hasattr(body, "right"):
            if hasattr(body, "kind"):
                chain.append(body.var.name)
            body = body.body
        orders.append(rng.sample(chain, rng.randint(1, len(chain))))
    found = {
        "split": [(x, factor, tail) for x in loops for tail in ("guard", "exact", "shift")],
        "cut": [
            (loop, at, chosen)
            for loop in loops
            for at in (1, factor)
            for chosen in ([], blocks[:1], blocks[1:2], blocks[:-1])
        ],
        "fuse": [(a, b) for a in loops for b in loops],
        "reorder": [tuple(order) for order in orders],
        "set_kind": [(x, k) for x in loops for k in ("unrolled", "vectorized", "parallel")],
        "compute_at": pairs,
        "reverse_compute_at": pairs,
        "compute_inline": [(b,) for b in blocks],
        "cache_read": [(b, loop) for b in buffers_of(s.func) for loop in loops],
        "cache_write": [(b, loop) for b in buffers_of(s.func) for loop in loops],
        "storage_align": [(b, d, factor) for b in buffers_of(s.func) for d in (-1, 0)],
        "decompose_reduction": [*((b,) for b in blocks), *pairs],
        "transform_layout": [
            ("w", f"CKI -> C/{factor} K I C%{factor}"),
            ("w", "CKI -> K C I"),
            ("w", f"CKI -> C K I/{factor} I%{factor}"),
        ],
        "pack_int4": [(b,) for b in buffers_of(s.func)],
        "simplify": [()],
        "sample_perfect_tile": [(loop, rng.randint(1, 3)) for loop in loops],
        "sample_categorical": [([1, 2, 3], [0.5, 0.25, 0.25])],
        "complement": [(b,) for b in buffers_of(s.func)],
        "inline_constant": [("w", [0] * 9), *small_values(s)],  # nine are refused
    }[primitive]
    rng.shuffle(found)
    return found


def apply_one(s, rng):
    """One random primitive with the first arguments to which it applies, if there are any."""
    primitive = rng.choice(PRIMITIVES)
    for args in arguments(s, primitive, rng):
        before = s.func
        try:
            result = getattr(s, primitive)(*args)
        except ScheduleError:
            assert s.func is before
            continue
        if primitive.startswith("sample_"):  # what is sampled is for a split
            loop = args[0] if isinstance(args[0], str) else rng.choice(list(loops_of(s.func.body)))
            with suppress(ScheduleError):
                s.split(loop, result if isinstance(result, int) else result[-1])
        return


def check_random_schedule(definition, seed, applied):
    func = definition.build()
    arrays = arrays_of(definition)
    expected = definition.evaluate(arrays)["out"]
    assert np.array_equal(interpret(func, arrays)["out"], expected)
    s = Schedule(func)
    s.small_count = len(arrays["small"])
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 10)):
        apply_one(s, rng)
    applied.update(step.primitive for step in s.trace)
    left = {p.name for p in s.func.params}
    given_arrays = {
        k: s.repacked[k](v) if k in s.repacked else v for k, v in arrays.items() if k in left
    }
    lowered = simplify(s.func)
    for version in (s.func, lowered):
        verify_func(version)
        text = print_func(version)
        assert parse_func(text) == version, text
        assert np.array_equal(interpret(version, given_arrays)["out"], expected), text
    assert replay(func, s.trace_json()).func == s.func


def test_random_schedules_keep_the_meaning():
    applied = Counter()

    @settings(
        max_examples=80,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(definitions(), st.integers(0, 1 << 30))
    def check(definition, seed):
        check_random_schedule(definition, seed, applied)

    check()
    assert set(applied) == set(PRIMITIVES), applied


def dense():
    b = Definition("dense")
    x = b.input("x", (8,), "int8")
    w = b.constant("w", (6, 8), "int8")
    out = b.output("out", (6,), "int32")
    b.reduce(out, [("k", 0, 8)], init=lambda c: 0,
             update=lambda acc, c, k: acc + int32(x[k]) * int32(w[c, k]))  # fmt: skip
    return b


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda s: s.split("nope", 2), "no loop 'nope'"),
        (lambda s: s.split("out_k", 0), "not positive"),
        (lambda s: s.split("out_c", 4, tail="exact"), "4 does not divide the extent 6"),
        (lambda s: s.cut("out_c", 6, []), "6 is not inside of loop out_c"),
        (lambda s: s.cut("out_k", 2, ["out"]), "stands inside"),
        (lambda s: s.cut("out_c", 2, ["out"]), "not a temporary"),
        (lambda s: s.fuse("out_k", "out_c"), "not directly inside"),
        (lambda s: s.fuse("out_c", "out_k"), "reduces in block out"),
        (lambda s: s.reorder("out_c", "out_c"), "named twice"),
        (lambda s: s.parallel("out_k"), "block out reduces over it"),
        (lambda s: s.compute_at("out", "out_c"), "not a temporary"),
        (lambda s: s.compute_inline("out"), "not one store"),
        (lambda s: s.cache_read("out", "out_c"), "writes out"),
        (lambda s: s.cache_write("x", "out_c"), "does not write x"),
        (lambda s: s.cache_write("out", "out_k"), "block out accumulates in out over"),
        (lambda s: s.transform_layout("x", "K -> K"), "is arena, not constant"),
        (lambda s: s.transform_layout("w", "CK -> C/2 K"), "every part of every dimension"),
        (lambda s: s.decompose_reduction("nope"), "no block 'nope'"),
        (lambda s: s.storage_align("x", -1, 4), "not a temporary"),
        (lambda s: s.sample_perfect_tile("out_c", 2, decision=[4, 2]), "does not tile"),
    ],
)
def test_what_does_not_apply_says_why(step, why):
    s = Schedule(dense().build())
    with pytest.raises(ScheduleError, match=why):
        step(s)
    assert s.trace == []


def test_sampling_is_repeatable_and_can_be_changed():
    def policy(s):
        outer, inner = s.sample_perfect_tile("out_c", 2)
        s.split("out_c", inner)
        s.unroll("out_c_i")
        return outer, inner

    first, second = Schedule(dense().build(), seed=3), Schedule(dense().build(), seed=3)
    assert policy(first) == policy(second)
    changed = replay(dense().build(), first.trace_json(), decisions={0: [1, 6]})
    assert loops_of(changed.func.body)["out_c_i"].stop.constant == 6
    assert replay(dense().build(), first.trace_json()).func == first.func


def test_categorical_choice_is_recorded():
    s = Schedule(dense().build())
    factor = s.sample_categorical([2, 3], [0.5, 0.5], decision=[1])
    s.split("out_c", factor)
    assert factor == 3
    again = replay(dense().build(), s.trace_json(), decisions={0: [0]})
    assert loops_of(again.func.body)["out_c_i"].stop.constant == 2


def test_a_nest_that_also_runs_something_else_is_not_moved():
    b = Definition("f")
    x = b.input("x", (4, 3), "int8")
    out = b.output("out", (4,), "int32")
    acc = b.reduce("acc", [("k", 0, 3)], init=lambda h: 0,
                   update=lambda acc, h, k: acc + int32(x[h, k]),
                   shape=(4,), dtype="int32")  # fmt: skip
    b.compute(out, lambda h: acc[h] * 2)
    s = Schedule(b.build())
    s.cache_read("x", "acc_h")
    with pytest.raises(ScheduleError, match="loop acc_h of block acc also runs something else"):
        s.compute_at("acc", "out_h")


def test_cached_accumulator_outside_its_reduction_is_refused():
    s = Schedule(dense().build())
    s.reorder("out_k", "out_c")
    with pytest.raises(ScheduleError, match="accumulates in out over several steps"):
        s.cache_write("out", "out_c")


def test_a_step_may_go_on_with_sums_of_earlier_steps():
    """The copy begins with the sums so far, where their init stands outside."""
    definition = dense()
    arrays = arrays_of(definition)
    s = Schedule(definition.build())
    s.decompose_reduction("out", "out_c")
    part, step = s.split("out_k", 4)
    s.reorder(part, "out_c", step)
    assert s.cache_write("out", "out_c") == "out_cache"
    for version in (s.func, simplify(s.func)):
        verify_func(version)
        assert "out_cache[0] = out[" in print_func(simplify(version))
        assert np.array_equal(interpret(version, arrays)["out"], definition.evaluate(arrays)["out"])


def clipped_windows():
    """Sums over windows of a padded input, the first and the last of which hold nothing."""
    b = Definition("f")
    x, w = b.input("x", (2, 1), "int8"), b.constant("w", (1, 2, 1), "int8")
    acc = window(b, x, w, 2, 2, 1, 1, empty=True)
    b.compute(b.output("out", acc.shape, "int32"), lambda h, c: acc[h, c] + 1)
    return b


def test_parts_of_a_sum_are_not_moved():
    s = Schedule(clipped_windows().build())
    s.cut("acc_h", 4, [])
    with pytest.raises(ScheduleError, match="several blocks accumulate in acc"):
        s.compute_at("acc", "out_h")


@pytest.mark.parametrize("at", [1, 2])
def test_windows_that_hold_nothing_may_stand_alone(at):
    definition = clipped_windows()
    arrays = arrays_of(definition)
    expected = definition.evaluate(arrays)["out"]
    s = Schedule(definition.build())
    s.cut("acc_h", at, [])  # all windows of the first part read in front of the input
    for version in (s.func, simplify(s.func)):
        verify_func(version)
        assert np.array_equal(interpret(version, arrays)["out"], expected)


def test_rows_that_only_align_a_buffer_are_not_computed():
    b = Definition("f")
    x, w = b.input("x", (2, 1), "int8"), b.constant("w", (1, 1, 1), "int8")
    pre = b.compute("pre", lambda h, i: int8(int32(x[h, i]) * 3 + 1), shape=x.shape, dtype="int8")
    acc = window(b, pre, w, 2, 1, 1, 1, empty=True)
    b.compute(b.output("out", acc.shape, "int32"), lambda h, c: acc[h, c] + 1)
    arrays = arrays_of(b)
    expected = b.evaluate(arrays)["out"]
    s = Schedule(b.build())
    s.cache_read("pre", "acc_c")
    s.storage_align("pre", 0, 4)
    s.compute_at("pre", "acc_h")
    for version in (s.func, simplify(s.func)):
        verify_func(version)
        assert np.array_equal(interpret(version, arrays)["out"], expected)


def test_what_a_condition_writes_is_not_cached():
    b = Definition("f")
    x = b.input("x", (5, 3), "int8")
    out = b.output("out", (3,), "int32")
    b.reduce(out, [("k", 0, 5)], init=lambda c: 0, update=lambda acc, c, k: acc + int32(x[k, c]))
    s = Schedule(b.build())
    s.reorder("out_k", "out_c")
    s.simplify()  # the first step of the sum becomes a condition
    with pytest.raises(ScheduleError, match="writes out under a condition"):
        s.cache_write("out", "out_c")
