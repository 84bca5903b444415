"""One function stands for several only if it is the text of each with its integers put back."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest
from c_harness import build_shared, conv_constants, conv_func, run_emitted

from edgec.codegen.c_function import emit_function
from edgec.codegen.c_text import CFunction
from edgec.codegen.generalize import General, generalize
from edgec.codegen.runtime_source import needed_functions


def function(name: str, *lines: str) -> CFunction:
    return CFunction(name, ("int8_t *out", "const int8_t *x"), lines)


def put_back(general: General, numbers: tuple[int, ...]) -> tuple[str, ...]:
    """The lines of the common function with one member's integers in place of its parameters."""
    names = [p.split()[-1] for p in general.function.params][-len(numbers) :] if numbers else []
    values = dict(zip(names, map(str, numbers), strict=True))
    return tuple(
        re.sub(r"\w+", lambda word: values.get(word[0], word[0]), line)
        for line in general.function.lines
    )


def test_integers_that_differ_alike_are_one_parameter() -> None:
    first = function("f", "    for (int32_t i = 0; i < 8; ++i) {", "        out[i * 8 + 1] = x[i];")
    second = function(
        "g", "    for (int32_t i = 0; i < 5; ++i) {", "        out[i * 5 + 1] = x[i];"
    )
    (general,) = generalize([first, second])
    assert general.function.name == "f"
    assert general.function.params[-1] == "int32_t n0" and len(general.function.params) == 3
    assert general.numbers == ((8,), (5,))
    assert put_back(general, (8,)) == first.lines
    assert put_back(general, (5,)) == second.lines


def test_names_in_use_are_not_taken() -> None:
    (general,) = generalize([function("f", "n0 = x[3];"), function("g", "n0 = x[4];")])
    assert general.function.lines == ("n0 = x[n1];",)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int8_t cache[4];", "int8_t cache[5];"),  # would be of variable length
        ("out[0] = -128;", "out[0] = -127;"),  # int8_t from int32_t is a narrowing
        ("value = 3u;", "value = 4u;"),
        ("ec_trace(3);", "ec_trace(4);"),  # of no known type
        ("value = ec_requantize_tflm(acc, m, 0x10);", "value = ec_requantize_tflm(acc, m, 0x11);"),
        ("value = x8[0];", "value = x9[0];"),
        ("value = 1.5f * a;", "value = 2.5f * a;"),
    ],
)
def test_what_int32_cannot_stand_for_keeps_functions_apart(one: str, other: str) -> None:
    found = generalize([function("f", one), function("g", other)])
    assert [general.members for general in found] == [(0,), (1,)]
    assert [general.function.lines for general in found] == [(one,), (other,)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("out[i] = ec_saturate_s8(acc - 3);", "out[i] = ec_saturate_s8(acc - 4);"),
        ("acc += (x[i] + 128) * w[i];", "acc += (x[i] + 83) * w[i];"),
        ("acc = ec_min_s32(3, 24 - a * 2);", "acc = ec_min_s32(5, 12 - a * 2);"),
        ("if (a * 2 < 7) {", "if (a * 2 < 9) {"),
    ],
)
def test_what_it_can_stand_for_becomes_a_parameter(one: str, other: str) -> None:
    (general,) = generalize([function("f", one), function("g", other)])
    assert general.members == (0, 1)
    assert [put_back(general, n) for n in general.numbers] == [(one,), (other,)]


def test_too_many_parameters_are_not_worth_it() -> None:
    def long(first: int) -> CFunction:
        return function("f", *(f"out[{first + k * k}] = 0;" for k in range(20)))

    assert len(generalize([long(1), long(1000)])) == 2
    assert len(generalize([long(1), long(1)])) == 1


def test_what_comments_say_is_no_parameter() -> None:
    """A comment on the numbers of one function goes where it is shared, and stays where not."""

    def one(size: int) -> CFunction:
        return function("f", f"/* w[{size}],", f" * b[{size}] */", f"out[{3 * size}] = 0;")

    (general,) = generalize([one(4), one(7)])
    assert general.function.lines == ("out[n0] = 0;",)
    assert general.function.params[-1:] == ("int32_t n0",)
    (alone,) = generalize([one(4)])
    assert alone.function == one(4)


def test_convolutions_of_two_sizes_share_code_that_computes_both(tmp_path: Path) -> None:
    shapes = [{"size": 6, "channels": 8}, {"size": 9, "channels": 12}]
    funcs = [conv_func(**shape) for shape in shapes]
    emitted = [emit_function(func, f"conv{i}") for i, func in enumerate(funcs)]
    (general,) = generalize(emitted)
    for own, numbers in zip(emitted, general.numbers, strict=True):
        assert put_back(general, numbers) == own.lines
    text = general.function.text
    source = tmp_path / "general.c"
    helpers = [f.text for f in needed_functions([text])]
    declared = general.function.signature.replace("static ", "")
    body = text.replace("static void", "void", 1)
    source.write_text("\n\n".join(("#include <stdint.h>", *helpers, f"{declared};", body)) + "\n")
    library = build_shared(tmp_path, [source])
    rng = np.random.default_rng(1)
    for func, shape, numbers in zip(funcs, shapes, general.numbers, strict=True):
        arrays = conv_constants(func)
        arrays["x"] = rng.integers(-128, 128, func.params[0].shape).astype(np.int8)
        folder = tmp_path / str(shape["size"])
        folder.mkdir()
        want = run_emitted(func, arrays, folder)["out"]
        memory = [
            np.ascontiguousarray(arrays[p.name]) if p.name in arrays else np.zeros(p.shape, p.dtype)
            for p in func.params
        ]
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in memory]
        library.conv0(*pointers, *(ctypes.c_int32(number) for number in numbers))
        (out,) = (m for p, m in zip(func.params, memory, strict=True) if p.name == "out")
        np.testing.assert_array_equal(out, want)
