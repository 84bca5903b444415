"""Sums of a nest rescaled by lines: every result keeps its bits."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.printer import print_func
from edgec.loop.rescale_lines import HIGH, PARTS, Accumulators, by_line
from edgec.loop.values import clamp, int8, int32, intrinsic
from edgec.loop.verify import verify_func

CHANNELS, DEPTH = 3, 6
USED = {HIGH: "multiply_add_high", PARTS: "rescale_parts"}


def sums(factors: int, function: str = "requantize_single", more: bool = False) -> PrimFunc:
    b = Definition("f")
    x, out = b.input("x", (8, DEPTH), "int8"), b.output("out", (8, CHANNELS), "int8")
    w = b.constant("w", (CHANNELS, DEPTH), "int8")
    m, s = b.constant("multiplier", (factors,), "int32"), b.constant("shift", (factors,), "int8")
    acc = b.reduce("acc", [("k", 0, DEPTH)], shape=(8, CHANNELS), dtype="int32",
                   init=lambda n, c: 0,
                   update=lambda acc, n, c, k: acc + int32(x[n, k]) * int32(w[c, k]))  # fmt: skip

    def value(n: object, c: object) -> object:
        at = 0 if factors == 1 else c
        rounded = intrinsic(function, acc[n, c], m[at], int32(s[at])) + -3
        return int8(clamp(rounded + int32(s[at]) if more else rounded, -128, 127))

    b.compute(out, value)
    return b.build()


def tables(factors: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(factors)
    return {
        "w": rng.integers(-127, 128, (CHANNELS, DEPTH)).astype(np.int8),
        "multiplier": rng.integers(1 << 30, 1 << 31, factors).astype(np.int32),
        "shift": np.array([-9, -8, -9][:factors], np.int8),
    }


def limits(weights: np.ndarray) -> Accumulators:
    ends = np.sort([weights.astype(np.int64) * end for end in (-128, 127)], axis=0).sum(axis=-1)
    return Accumulators("acc", lambda: (ends[0], ends[1]))


@pytest.mark.parametrize("way", USED)
@pytest.mark.parametrize("factors", [1, CHANNELS])
def test_lines_keep_every_bit(way: str, factors: int) -> None:
    func, given = sums(factors), tables(factors)
    made, changed = by_line(func, given, limits(given["w"]), way)
    verify_func(made)
    assert USED[way] in print_func(made) and "shift" not in changed
    assert [p.name for p in made.params if p.scope == "constant"] == ["w", "multiplier", "offset"]
    for seed in range(5):
        x = np.random.default_rng(seed).integers(-128, 128, (8, DEPTH)).astype(np.int8)
        x[0], x[1] = np.where(given["w"][0] > 0, 127, -128), np.where(given["w"][0] > 0, -128, 127)
        expected = interpret(func, {"x": x, **given})["out"]
        assert np.array_equal(interpret(made, {"x": x, **changed})["out"], expected)


def test_what_has_no_line_stays() -> None:
    func, given = sums(1), tables(1)
    known = limits(given["w"])
    unknown = Accumulators("acc", lambda: None)
    for nest, found, way in (
        (func, None, HIGH), (func, unknown, HIGH), (func, Accumulators("x", known.interval), HIGH),
        (func, known, ""), (sums(1, more=True), known, HIGH),
        (sums(1, "requantize_tflm16_high"), known, HIGH),
    ):  # fmt: skip
        assert by_line(nest, given, found, way) == (nest, given)
    steep = {**given, "shift": np.array([0], np.int8)}  # a factor of a half and more
    assert by_line(func, steep, known, HIGH)[0] == func
