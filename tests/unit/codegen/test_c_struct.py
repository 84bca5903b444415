"""Sizes that kernels take as a struct: emitted once each, and shared by functions that differ."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_harness import build_shared, int32, loop, run_emitted

import edgec.targets.kernels  # noqa: F401  registers what is called
from edgec.codegen.c_function import emit_function
from edgec.codegen.c_struct import struct_value
from edgec.codegen.c_text import CFunction
from edgec.codegen.generalize import generalize
from edgec.codegen.runtime_source import needed_functions, runtime_functions
from edgec.loop.interpret import interpret
from edgec.loop.ir import Buffer, BufferRef, Call, Expr, IndexValue, PrimFunc, Seq, Stmt
from edgec.loop.microkernel import Microkernel, Struct, all_microkernels
from edgec.loop.window import Window
from edgec.numerics.term import Var, as_term

KERNELS = [kernel for kernel in all_microkernels() if kernel.struct is not None]
X = Buffer("x", (1, 5, 6, 2), "int8", "arena")
#: Of the same depth, inside of x and over its edges.
INSIDE = Window((5, 6, 2), (2, 3), (1, 2), (1, 1), (0, 0), 2, False, 0)
OVER = Window((5, 6, 2), (2, 3), (2, 1), (1, 1), (1, 1), 6, True, -7)


def pixels(*calls: tuple[Window, Expr | None]) -> PrimFunc:
    """Four windows by each call; where one has a top of its own, its sizes are open."""
    i = Var("i", 0, 4)
    out = Buffer("out", (len(calls), 4, 12), "int8", "arena")
    body: list[Stmt] = []
    for number, (window, top) in enumerate(calls):
        to = BufferRef(out, (as_term(number), as_term(i), as_term(0)))
        x = BufferRef(X, (as_term(0),) * 4)
        numbers: dict[str, Expr] = {name: int32(n) for name, n in window.sizes.items()}
        if top is not None:
            numbers["top"] = top
        call = Call("ec_gather_pixel_s8", (to, x, *numbers.values(), IndexValue(as_term(i))))
        body.append(call)
    return PrimFunc("pixels", (out, X), (), loop(i, Seq(tuple(body))))


def inputs() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(2).integers(-128, 128, X.shape).astype(np.int8)}


def test_known_sizes_are_one_constant_for_all_calls_that_take_them(tmp_path: Path) -> None:
    func = pixels((INSIDE, None), (OVER, None), (INSIDE, None))
    text = emit_function(func, "f").text
    assert text.count("static const ec_window_sizes ") == 2
    assert re.findall(r"ec_gather_pixel_s8\(.*, (\w+), i\);", text) == [
        "window_sizes", "window_sizes_2", "window_sizes",
    ]  # fmt: skip
    found = run_emitted(func, inputs(), tmp_path)["out"]
    np.testing.assert_array_equal(found, interpret(func, inputs())["out"])


def test_sizes_known_at_run_time_are_a_local_struct(tmp_path: Path) -> None:
    i = Var("i", 0, 4)
    func = pixels((OVER, IndexValue(as_term(i))))
    text = emit_function(func, "f").text
    assert ".top = i," in text and "static const ec_window_sizes" not in text
    found = run_emitted(func, inputs(), tmp_path)["out"]
    np.testing.assert_array_equal(found, interpret(func, inputs())["out"])


def test_functions_that_differ_in_a_struct_share_code_that_computes_both(tmp_path: Path) -> None:
    funcs = [pixels((window, None)) for window in (INSIDE, OVER, INSIDE)]
    (general,) = generalize([emit_function(f, f"f{n}") for n, f in enumerate(funcs)])
    assert general.function.params[-1] == "const ec_window_sizes *window_sizes"
    assert general.numbers[0] == general.numbers[2] != general.numbers[1]
    assert len(general.constants) == 2
    text = general.function.text
    parts = [
        "#include <stdint.h>\n#include <string.h>",
        *(f.text for f in needed_functions([text])),
        text,
    ]
    parts += general.constants
    for number, (name,) in enumerate(general.numbers):
        head = f"void call{number}(int8_t *out, const int8_t *x)"
        parts.append(f"{head};\n{head} {{ f0(out, x, {name}); }}")
    source = tmp_path / "general.c"
    source.write_text("\n\n".join(parts) + "\n")
    library = build_shared(tmp_path, [source])
    for number, func in enumerate(funcs):
        out, x = np.zeros(func.params[0].shape, np.int8), inputs()["x"]
        getattr(library, f"call{number}")(*(np.ctypeslib.as_ctypes(a) for a in (out, x)))
        np.testing.assert_array_equal(out, interpret(func, inputs())["out"])


def test_where_time_counts_only_structs_that_are_passed_on_are_parameters() -> None:
    call = "    ec_pack_neighbours_4_s8_dsp(out, x, window_sizes, 4);"
    lines = [
        "    static const ec_window_sizes window_sizes[1] = {{.height = %d, .top = 1}};", call,
    ]  # fmt: skip

    def functions(*more: str) -> list[CFunction]:
        params = ("int8_t *out", "const int8_t *x")
        text = "\n".join([*lines, *more])
        return [
            CFunction(f"f{n}", params, tuple(text.replace("%d", str(n)).split("\n")))
            for n in (2, 3)
        ]

    (general,) = generalize(functions("    ec_copy_row_s8(out, x, 12);"), by_structs=True)
    assert general.function.params[-1] == "const ec_window_sizes *window_sizes"
    assert general.function.lines[0] == call
    assert len(generalize(functions("    out[%d] = 0;"), by_structs=True)) == 2
    (shared,) = generalize(functions("    ec_conv_units_f32(out, x, w, window_sizes, 0);"), True)
    assert shared.function.params[-1] == "const ec_window_sizes *window_sizes"
    read = "    ec_pack_windows_4_s8_dsp(out, x, window_sizes, 4);"
    assert len(generalize(functions(read), by_structs=True)) == 2


def test_a_struct_that_does_not_vary_stays_as_it_is() -> None:
    """Beside one that does, its line is whole."""
    same = "    static const ec_conv_sizes conv_sizes[1] = {{.pixels = 4}};"
    other = "    static const ec_window_sizes window_sizes[1] = {{.height = %d}};"
    call = "    ec_pack(to, x, window_sizes, conv_sizes);"
    functions = [CFunction(f"f{n}", ("int8_t *to",), (same, other % n, call)) for n in (1, 2)]
    (general,) = generalize(functions)
    assert general.function.lines == (same, call)


def test_a_struct_that_varies_counts_as_its_numbers_that_do() -> None:
    """A dozen numbers through a pointer are as slow as a dozen parameters."""
    others = [
        Window((6, 7, 3), (4, 1), (2, 1), (2, 2), (1, 1), 6, True, -7),
        Window((7, 8, 4), (3, 1), (3, 4), (5, 6), (2, 3), 7, True, 9),
    ]
    funcs = [pixels((window, None)) for window in (INSIDE, *others)]
    assert len(generalize([emit_function(f, f"f{n}") for n, f in enumerate(funcs)])) == 3


def test_a_size_that_is_known_at_run_time_is_cast_to_a_short_member() -> None:
    struct = Struct("ec_any_sizes", ("rows", "step"), (("rows", "uint8"),))
    assert struct_value(struct, ("2", "3")) == "{{.rows = 2, .step = 3}}"
    bytes_of = replace(struct, times=(("rows", 2),))
    assert struct_value(bytes_of, ("2", "3")) == "{{.rows = 2 * 2, .step = 3}}"
    cast = struct_value(struct, ("n", "m"), is_known=False)
    assert cast == "{{.rows = (uint8_t)(n), .step = m}}"


def test_sizes_that_no_member_holds_are_refused() -> None:
    struct = Struct("ec_any_sizes", ("rows", "step"), (("rows", "uint8"),))
    assert struct.holds({"rows": 255, "step": 1 << 20})
    assert not struct.holds({"rows": 256, "step": 0})
    assert not replace(struct, times=(("rows", 2),)).holds({"rows": 128, "step": 0})
    assert not struct.holds({"rows": -1, "step": 0})


def test_sizes_that_a_kernel_multiplies_are_one_argument() -> None:
    out, x, w = (Buffer(name, (8,), "int16", "arena") for name in ("out", "x", "w"))
    refs = [BufferRef(buffer, (as_term(0),)) for buffer in (out, x, w)]
    call = Call("ec_matrix_1_s16_dsp", (*refs, *map(int32, (3, 5, 4, 8, -7, 9))))
    text = emit_function(PrimFunc("f", (out, x, w), (), call), "f").text
    assert "ec_matrix_1_s16_dsp(out, x, w, 3 * 5 * 4, 8, -7, 9);" in text


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_struct_has_the_kernels_sizes_in_their_order(kernel: Microkernel) -> None:
    assert kernel.struct is not None
    found = runtime_functions()[kernel.struct.name].text
    fields = re.findall(r"^ +(u?int\d+)_t (.*);", found, re.M)
    types = {name: dtype for dtype, names in fields for name in names.split(", ")}
    members = kernel.struct.members
    assert tuple(name for name in types if name in members) == members
    given = dict.fromkeys(members, "int32") | dict(kernel.struct.types)
    assert {name: types[name] for name in given} == given
    assert {*kernel.struct.members, *kernel.struct.unread} <= {*kernel.sizes}
    assert {name for name, _ in kernel.struct.times} <= {*members}
    assert f"const {kernel.struct.name} *" in runtime_functions()[kernel.name].text
