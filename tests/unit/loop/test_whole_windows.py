"""Windows made whole, gathered, their offsets folded: every result keeps its bits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from edgec.errors import ScheduleError
from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.rewrite import blocks_of, buffers_of, loops_of
from edgec.loop.schedule import Schedule, replay
from edgec.loop.simplify import simplify
from edgec.loop.values import int32
from edgec.loop.verify import verify_func
from edgec.loop.window import clipped

#: Primitives tried here.
WINDOWING = (
    "pad_reads", "pad_copy", "gather", "fold_offset", "spread", "flatten", "fuse_axes",
    "pad_steps", "split_steps", "pad_tiles",
)  # fmt: skip


def windows(choose: random.Random) -> PrimFunc:
    """Sums over windows of [H, W, C] inputs, with padding or without, some of single channels."""
    stride, dilation = choose.randint(1, 2), choose.randint(1, 2)
    kernel, top, below = choose.randint(1, 3), choose.randint(0, 2), choose.randint(0, 2)
    reach = (kernel - 1) * dilation + 1
    top, below = min(top, reach - 1), min(below, reach - 1)
    extent = choose.randint(max(reach - top - below, dilation), reach + 3)
    outs = (extent + top + below - reach) // stride + 1
    channels, outputs = choose.randint(1, 3), choose.randint(1, 3)
    by_channel = choose.random() < 0.4
    outputs = channels if by_channel else outputs
    offset = choose.choice([0, 0, 5, -7, 128])
    b = Definition("f")
    x = b.input("x", (extent, 4, channels), "int8")
    shape = (kernel, outputs) if by_channel else (outputs, kernel, channels)
    w, bias = b.constant("w", shape, "int8"), b.constant("bias", (outputs,), "int32")
    m = b.constant("m", (1,), "int32")
    first, last = clipped(extent, kernel, stride, dilation, top)
    rows = ("k", lambda h, v, c: first(h), lambda h, v, c: last(h))

    def at(h: object, k: object) -> object:
        return h * stride + k * dilation - top  # type: ignore[operator]

    def wide(value: object) -> object:
        return int32(value) + offset if offset else int32(value)  # type: ignore[arg-type]

    if by_channel:
        acc = b.reduce(
            "acc", [rows], shape=(outs, 4, outputs), dtype="int32", init=lambda h, v, c: bias[c],
            update=lambda acc, h, v, c, k: acc + wide(x[at(h, k), v, c]) * int32(w[k, c]),
        )  # fmt: skip
    else:
        acc = b.reduce(
            "acc", [rows, ("i", 0, channels)], shape=(outs, 4, outputs), dtype="int32",
            init=lambda h, v, c: bias[c],
            update=lambda acc, h, v, c, k, i: acc + wide(x[at(h, k), v, i]) * int32(w[c, k, i]),
        )  # fmt: skip
    out = b.output("out", (outs, 4, outputs), "int32")
    b.compute(out, lambda h, v, c: acc[h, v, c] * m[0])
    return b.build()


def one(s: Schedule, choose: random.Random) -> str:
    """Try a primitive."""
    sources = [n for n in ("x", "padded", "col", "tiles") if n in buffers_of(s.func)]
    source = choose.choice(sources)
    axes = choose.choice([[0], [0, 1], [1]])
    fused = choose.choice([("acc", "hv"), ("acc", "ki"), ("out", "hvc"), ("acc", "k")])
    step, parts = choose.choice("kim"), choose.choice([{"q": 2, "s": 1}, {"s": 1, "q": 2}])
    places = [a.var.name for a in blocks_of(s.func.body)["acc"].axes]
    order = choose.choice([[], choose.sample(places, len(places)), places, ["h", "v", "i", "k"]])
    tries: dict[str, Callable[[], object]] = {
        "pad_reads": lambda: s.pad_reads("acc", source, axes),
        "pad_copy": lambda: s.pad_copy("acc", source, "padded", choose.sample(range(3), 3), axes),
        "pad_tiles": lambda: s.pad_tiles(
            "acc",
            source,
            "tiles",
            choose.sample(range(-2, 3), 5),
            axes,
            [0, choose.randint(1, 3), choose.randint(1, 3)],
            choose.choice(["", "int16"]),
        ),
        "gather": lambda: s.gather("acc", source, "col", order, choose.choice(["", "int16"])),
        "fold_offset": lambda: s.fold_offset("acc", source),
        "spread": lambda: s.spread("m", "out"),
        "flatten": lambda: s.flatten(
            choose.choice([*sources[1:], "w", "acc"]), *sorted(choose.sample(range(3), 2))
        ),
        "fuse_axes": lambda: s.fuse_axes(*fused, "m"),
        "pad_steps": lambda: s.pad_steps("acc", source, step, choose.randint(2, 4)),
        "split_steps": lambda: s.split_steps("acc", source, step, parts),
        "split": lambda: s.split(choose.choice(sorted(loops_of(s.func.body))), 2),
    }
    name = choose.choice(sorted(tries))
    before = s.func
    try:
        tries[name]()
    except ScheduleError:
        assert s.func is before
        return ""
    return name


def check(seed: int, applied: Counter[str]) -> None:
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    func = windows(choose)
    arrays = {
        p.name: rng.integers(-100, 100, p.shape).astype(p.dtype)
        for p in func.params
        if p.name != "out" and p.scope != "scratch"
    }
    expected = interpret(func, arrays)["out"]
    s = Schedule(func)
    for _ in range(7):
        applied[one(s, choose)] += 1
    now = {name: s.table(name, arrays) if name != "x" else arrays["x"] for name in arrays}
    for version in (s.func, simplify(s.func)):
        verify_func(version)
        assert parse_func(print_func(version)) == version
        assert np.array_equal(interpret(version, now)["out"], expected), print_func(version)
    assert replay(func, s.trace_json()).func == s.func


def test_random_schedules_keep_the_meaning() -> None:
    applied: Counter[str] = Counter()
    for seed in range(125):
        check(seed, applied)
    assert set(WINDOWING) <= set(applied), applied


@pytest.mark.parametrize(("padding", "kept"), [((1, 0), 2), ((0, 1), 2)])
@pytest.mark.parametrize("copy", [False, True])
def test_a_row_whose_window_is_always_clipped(
    padding: tuple[int, int], kept: int, copy: bool
) -> None:
    b = Definition("f")
    x, w = b.input("x", (kept,), "int8"), b.constant("w", (3, 2), "int8")
    bias, out = b.constant("bias", (2,), "int32"), b.output("out", (1, 2), "int32")
    first, last = clipped(kept, 3, 1, 1, padding[0])
    rows = ("k", lambda h, c: first(h), lambda h, c: last(h))
    b.reduce(
        out, [rows], name="acc", init=lambda h, c: bias[c],
        update=lambda acc, h, c, k: acc + (int32(x[h + k - padding[0]]) + 9) * int32(w[k, c]),
    )  # fmt: skip
    s, source = Schedule(b.build()), "x"
    arrays = {
        "x": np.arange(3, 3 + kept, dtype=np.int8), "bias": np.array([100, 7], np.int32),
        "w": np.array([[2, -5], [11, 4], [-3, 1]], np.int8),
    }  # fmt: skip
    expected = interpret(s.func, arrays)["out"]
    with pytest.raises(ScheduleError, match="all products"):
        s.fold_offset("acc", "x")
    if copy:
        source = s.pad_copy("acc", "x", "padded", [0], [0])
    else:
        s.pad_reads("acc", "x", [0])
    s.fold_offset("acc", source)
    verify_func(s.func)
    now = {name: s.table(name, arrays) if name != "x" else arrays["x"] for name in arrays}
    assert np.array_equal(interpret(s.func, now)["out"], expected), print_func(s.func)


def test_parts_of_a_copy_know_what_is_inside() -> None:
    b = Definition("f")
    x, w = b.input("x", (6, 2), "int8"), b.constant("w", (3, 2), "int8")
    out = b.output("out", (6, 2), "int32")
    first, last = clipped(6, 3, 1, 1, 1)
    b.reduce(
        out, [("k", lambda h, c: first(h), lambda h, c: last(h))], name="acc", init=lambda h, c: 0,
        update=lambda acc, h, c, k: acc + int32(x[h + k - 1, c]) * int32(w[k, c]),
    )  # fmt: skip
    s, rng = Schedule(b.build()), np.random.default_rng(5)
    arrays = {
        p.name: rng.integers(-9, 9, p.shape, "int8") for p in s.func.params if p.name != "out"
    }
    expected = interpret(s.func, arrays)["out"]
    s.pad_copy("acc", "x", "padded", [0, 1], [0])
    s.reorder("padded_b", "padded_a")
    assert "select" in print_func(s.func)
    s.cut("padded_a", 7, [], "_after")
    s.cut("padded_a", 1, [], "_in")
    verify_func(s.func)
    assert "select" not in print_func(s.func)
    assert np.array_equal(interpret(s.func, arrays)["out"], expected)


def test_the_offset_of_equal_functions_is_folded_once() -> None:
    # Models repeat layers: what follows is then made once, too.
    b = Definition("f")
    x, w = b.input("x", (3,), "int8"), b.constant("w", (3, 2), "int8")
    bias, out = b.constant("bias", (2,), "int32"), b.output("out", (2,), "int32")
    b.reduce(
        out, [("k", 0, 3)], name="acc", init=lambda c: bias[c],
        update=lambda acc, c, k: acc + (int32(x[k]) + 9) * int32(w[k, c]),
    )  # fmt: skip
    func = b.build()
    first, second = Schedule(func), Schedule(func)
    for schedule in (first, second):
        schedule.fold_offset("acc", "x")
    assert first.func is second.func is not func
    assert first.folded.keys() == second.folded.keys() == {"bias"}


def half(clips: bool) -> PrimFunc:
    """Sums over windows of three whose loop leaves out one that is inside, or none."""
    b = Definition("f")
    x, w = b.input("x", (8,), "int8"), b.constant("w", (3,), "int8")
    bias = b.constant("bias", (6,), "int32")
    rows = ("k", (lambda h: h % 2) if clips else 0, 3)
    out = b.output("out", (6,), "int32")
    b.reduce(out, [rows], name="acc", init=lambda h: bias[h],
             update=lambda acc, h, k: acc + int32(x[h + k]) * int32(w[k]))  # fmt: skip
    return b.build()


@pytest.mark.parametrize(
    ("clips", "step", "why"),
    [
        (True, lambda s: s.pad_reads("acc", "x", [0]), "skips elements inside"),
        (False, lambda s: s.pad_reads("acc", "x", [0]), "all windows of acc are whole"),
        (False, lambda s: s.pad_copy("acc", "x", "p", [0], [0]), "all windows of acc are whole"),
        (False, lambda s: s.pad_tiles("acc", "x", "t", [0, -1, -2], [0], [0, 4, 1]), "divide"),
        (False, lambda s: s.pad_tiles("acc", "x", "t", [0, -1], [0], [0, 3, 1]), "not an order"),
        (False, lambda s: s.gather("acc", "w", "col"), "not read of w"),
        (False, lambda s: s.fold_offset("acc", "x"), "do not belong to an output"),
        (False, lambda s: s.spread("bias", "acc"), "not a constant of one element"),
        (True, lambda s: s.fuse_axes("acc", ["k"], "m"), "open bounds"),
        (False, lambda s: s.fuse_axes("acc", ["h", "k"], "m"), "not loops of one kind"),
        (False, lambda s: s.fuse_axes("acc", ["k", "h"], "m"), "not directly nested"),
        (False, lambda s: s.fuse_axes("acc", ["k"], "h"), "an axis h already"),
        (False, lambda s: s.pad_steps("acc", "x", "k", 3), "cannot be 3"),
        (False, lambda s: s.pad_steps("acc", "x", "h", 4), "does not sum over h"),
        (False, lambda s: s.split_steps("acc", "x", "k", {"q": 2, "s": 1}), "have no parts"),
        (False, lambda s: s.split_steps("acc", "x", "k", {"h": 3, "s": 1}), "a loop 'acc_h'"),
        (False, lambda s: s.gather("acc", "x", "col", ["k"]), "not the axes"),
        (False, lambda s: s.gather("acc", "x", "col", (), "uint8"), "does not hold"),
        (False, lambda s: s.flatten("x", 0, 1), "no dimensions 0 to 1"),
        (True, lambda s: s.gather("nope", "x", "col"), "no block 'nope'"),
    ],
)
def test_what_does_not_fit_is_said(clips: bool, step: Callable[[Schedule], None], why: str) -> None:
    s = Schedule(half(clips))
    with pytest.raises(ScheduleError, match=why):
        step(s)
    assert s.trace == []


def test_a_constant_that_was_repacked_is_not_folded_into() -> None:
    choose = random.Random(2)
    while True:
        func = windows(choose)
        s = Schedule(func)
        with suppress(ScheduleError):
            s.fold_offset("acc", "x")
            break
    s = Schedule(func)
    rank = len(buffers_of(func)["w"].shape)
    s.transform_layout("w", "AB -> B A" if rank == 2 else "ABC -> C B A")
    with pytest.raises(ScheduleError, match="w was repacked before"):
        s.fold_offset("acc", "x")


@pytest.mark.parametrize("step", ["pad_reads", "pad_copy"])
def test_padding_of_floats_adds_nothing(step: str) -> None:
    """Padding is zeros: sums with it have the same bits as sums without."""
    b = Definition("f")
    x = b.input("x", (6,), "float32")
    w, bias = b.constant("w", (3,), "float32"), b.constant("bias", (1,), "float32")
    first, last = clipped(6, 3, 1, 1, 1)
    acc = b.reduce(
        "acc", [("k", first, last)], shape=(6,), dtype="float32", init=lambda h: bias[0],
        update=lambda acc, h, k: acc + x[h + k - 1] * w[k],
    )  # fmt: skip
    out = b.output("out", (6,), "float32")
    b.compute(out, lambda h: acc[h])
    plain = b.build()
    s = Schedule(plain)
    if step == "pad_reads":
        s.pad_reads("acc", "x", [0])
    else:
        s.pad_copy("acc", "x", "padded", [0], [0])
    verify_func(s.func)
    rng = np.random.default_rng(3)
    arrays = {name: rng.normal(0, 1, n).astype(np.float32) for name, n in (("x", 6), ("w", 3))}
    arrays["bias"] = np.float32([-0.5])
    found, wanted = (interpret(func, arrays)["out"] for func in (s.func, plain))
    assert found.tobytes() == wanted.tobytes()
