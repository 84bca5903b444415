"""Vectorized loops are vectors with the bits of the serial loop; parallel ones are OpenMP's."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_harness import int32, load, loop, run_emitted, store

from edgec.boards.toolchain import available_toolchains
from edgec.codegen.c_function import emit_function
from edgec.errors import ContractError, ScheduleError
from edgec.loop.interpret import interpret
from edgec.loop.ir import (
    Binary,
    Buffer,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    Gather,
    IndexValue,
    Intrinsic,
    PrimFunc,
    Select,
    Seq,
)
from edgec.loop.overlap import overlap_distances
from edgec.loop.schedule import Schedule
from edgec.loop.verify import verify_func
from edgec.numerics.term import Var, as_term, floor_div
from edgec.targets.core import host_core

LANES = 8
EDGES = {
    "int8": [-128, -127, -1, 0, 1, 2, 126, 127],
    "uint8": [0, 1, 2, 127, 128, 254, 255, 3],
    "int16": [-32768, -32767, -1, 0, 1, 7, 32766, 32767],
    "uint16": [0, 1, 2, 32767, 32768, 65534, 65535, 3],
    "int32": [-(2**31), -(2**31) + 1, -1, 0, 1, 3, 2**31 - 2, 2**31 - 1],
    "uint32": [0, 1, 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 3],
    "int64": [-(2**63), -(2**63) + 1, -1, 0, 1, 2**40, 2**63 - 2, 2**63 - 1],
    "float32": [-0.0, 0.0, 1.5, -2.25, 1e-42, 3e38, -3e38, 7.0],
    "float64": [-0.0, 0.0, 1.5, -2.25, 1e-310, 1e308, -1e308, 7.0],
}
COMPILERS = [t for t in available_toolchains(host_core()) if not t.is_zig]


def vector_text(func: PrimFunc) -> str:
    """The part of the emitted C that is for compilers with vectors."""
    return emit_function(func, "emitted").text.split("#if EC_VECTORS")[1].split("#else")[0]


def check(func: PrimFunc, arrays: dict[str, np.ndarray], folder: Path) -> None:
    verify_func(func)
    expected = interpret(func, arrays)
    given = run_emitted(func, arrays, folder)
    for name, array in expected.items():
        assert given[name].tobytes() == array.tobytes(), name


def pointwise(dtype: str, result: str, value: Expr, a: Buffer, b: Buffer) -> PrimFunc:
    """64 elements in vectors of eight; the loops' variables are `o` and `i`."""
    out = Buffer("out", (64,), result, "arena")
    o, i = Var("o", 0, 64 // LANES), Var("i", 0, LANES)
    body = store(out, (as_term(o) * LANES + i,), value)
    return PrimFunc("pointwise", (a, b, out), (), loop(o, loop(i, body, "vectorized")))


def operands(dtype: str) -> tuple[Buffer, Buffer, Expr, Expr]:
    a, b = (Buffer(name, (64,), dtype, "arena") for name in "ab")
    o, i = Var("o", 0, 64 // LANES), Var("i", 0, LANES)
    at = as_term(o) * LANES + i
    return a, b, load(a, at), load(b, at)


def pairs(dtype: str) -> dict[str, np.ndarray]:
    edge = np.array(EDGES[dtype], dtype)
    return {"a": np.repeat(edge, edge.size), "b": np.tile(edge, edge.size)}


@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", EDGES)
def test_arithmetic_has_the_bits_of_the_serial_loop(op: str, dtype: str, tmp_path: Path) -> None:
    a, b, left, right = operands(dtype)
    func = pointwise(dtype, dtype, Binary(op, left, right), a, b)
    with np.errstate(over="ignore"):
        check(func, pairs(dtype), tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "float32"])
def test_conditions_choose_by_masks(dtype: str, tmp_path: Path) -> None:
    a, b, left, right = operands(dtype)
    either = Binary("or", Binary("lt", left, right), Binary("eq", left, right))
    value: Expr = Select(Binary("eq", either, Binary("le", right, left)), right, left)
    check(pointwise(dtype, dtype, value, a, b), pairs(dtype), tmp_path)
    folder = tmp_path / "numbers"
    folder.mkdir()
    counted = Binary("add", Cast("int16", either), Cast("int16", Cast("bool", left)))
    check(pointwise(dtype, "int16", counted, a, b), pairs(dtype), folder)


@pytest.mark.parametrize(("source", "result"), [
    ("int8", "int32"), ("int32", "int8"), ("int32", "float32"), ("uint8", "float32"),
    ("int16", "int64"), ("uint32", "uint8"), ("float32", "float64"),
])  # fmt: skip
def test_conversions_are_those_of_c(source: str, result: str, tmp_path: Path) -> None:
    a, b, left, right = operands(source)
    value = Binary("add", Cast(result, left), Cast(result, right))
    with np.errstate(over="ignore"):
        check(pointwise(source, result, value, a, b), pairs(source), tmp_path)


def test_shifts_steps_tables_and_functions_of_each_lane(tmp_path: Path) -> None:
    a, b, left, right = operands("int32")
    i, o = Var("i", 0, LANES), Var("o", 0, 64 // LANES)
    at = as_term(o) * LANES + i
    small = Binary("and", right, int32(7))
    value: Expr = Intrinsic("requantize_tflm", (left, int32(1 << 30), int32(-3)), "int32")
    value = Binary("add", value, Binary("shr", left, small))
    value = Binary("add", value, Binary("shl", right, int32(3)))
    value = Binary("add", value, Binary("mul", IndexValue(at), load(a, floor_div(at, 2))))
    value = Binary("xor", value, Gather(b, (Binary("and", left, int32(63)),)))
    check(pointwise("int32", "int32", value, a, b), pairs("int32"), tmp_path)


def product(depth: int = 24, channels: int = 16) -> PrimFunc:
    """A float product of four pixels; sums stay in registers, lanes are channels."""
    x = Buffer("x", (4, depth), "float32", "arena")
    w = Buffer("w", (depth, channels), "float32", "constant")
    out = Buffer("out", (4, channels), "float32", "arena")
    acc = Buffer("acc", (4, LANES), "float32", "register")
    p, q, k = Var("p", 0, 4), Var("q", 0, 4), Var("k", 0, depth)
    c, i, j, n = Var("c", 0, channels // LANES), *(Var(v, 0, LANES) for v in "ijn")
    at = as_term(c) * LANES
    zero = store(acc, (p, i), Const(0.0, "float32"))
    term = Binary("mul", load(x, q, k), load(w, k, at + j))
    sums = store(acc, (q, j), Binary("add", load(acc, q, j), term))
    r = Var("r", 0, 4)
    result = store(out, (r, at + n), load(acc, r, n))
    body = Seq((
        loop(p, loop(i, zero, "vectorized"), "unrolled"),
        loop(k, loop(q, loop(j, sums, "vectorized"), "unrolled")),
        loop(r, loop(n, result, "vectorized"), "unrolled"),
    ))  # fmt: skip
    return PrimFunc("product", (x, w, out), (acc,), loop(c, body))


def test_sums_stay_in_registers_with_the_serial_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    func = product()
    arrays = {
        "x": rng.normal(size=(4, 24)).astype(np.float32),
        "w": rng.normal(size=(24, 16)).astype(np.float32),
    }
    check(func, arrays, tmp_path)


def test_a_private_register_is_a_vector(tmp_path: Path) -> None:
    a, b, left, right = operands("int32")
    total = Buffer("total", (1,), "int32", "register")
    k, o, i = Var("k", 0, 5), Var("o", 0, 64 // LANES), Var("i", 0, LANES)
    out = Buffer("out", (64,), "int32", "arena")
    scaled = Binary("mul", right, IndexValue(as_term(k)))
    body = Seq((
        store(total, (0,), left),
        loop(k, store(total, (0,), Binary("add", load(total, 0), scaled))),
        store(out, (as_term(o) * LANES + i,), load(total, 0)),
    ))  # fmt: skip
    func = PrimFunc("summed", (a, b, out), (total,), loop(o, loop(i, body, "vectorized")))
    assert "v8i32 total" in vector_text(func)
    check(func, pairs("int32"), tmp_path)


def compiled(func: PrimFunc, folder: Path, command: list[str], *flags: str) -> str:
    """The disassembly of the function."""
    from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS
    from edgec.codegen.runtime_source import needed_functions

    emitted = emit_function(func, "emitted")
    helpers = [f.text for f in needed_functions([emitted.text])]
    text = "\n\n".join(
        ("#include <stdint.h>", *helpers, emitted.text, "void *const used = (void *)emitted;")
    )
    source, built = folder / "emitted.c", folder / "emitted.o"
    source.write_text(text.replace("(void *)emitted", "(void *)(uintptr_t)emitted") + "\n")
    strict = [*LANGUAGE_FLAGS, *(f for f in WARNING_FLAGS), "-O2", *flags]
    subprocess.run([*command, *strict, "-c", str(source), "-o", str(built)], check=True)
    return subprocess.run(
        ["objdump", "-d", str(built)], check=True, capture_output=True, text=True
    ).stdout  # fmt: skip


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="looks for instructions of x86")
@pytest.mark.parametrize("toolchain", COMPILERS, ids=lambda t: t.name)
def test_the_object_holds_vectors_and_the_serial_form_does_not(toolchain, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    command = list(toolchain.command)
    # Without the compilers' own vectorizers: what is vector code comes from the schedule.
    flags = ("-mavx2", "-fno-tree-vectorize", "-fno-tree-slp-vectorize")
    flags = (
        flags if toolchain.family == "gcc" else ("-mavx2", "-fno-vectorize", "-fno-slp-vectorize")
    )
    text = compiled(product(), tmp_path, command, *flags)
    assert text.count("vmulps") == text.count("vaddps") > 0
    assert "(%rsp" not in text  # sums stay in registers
    serial = compiled(product(), tmp_path, command, *flags, "-DEC_NO_VECTORS")
    assert "vmulps" not in serial and "vmulss" in serial


def refused(kind: str, body: object, var: Var, *buffers: Buffer) -> str:
    func = PrimFunc("f", buffers, (), loop(var, body, kind))  # type: ignore[arg-type]
    with pytest.raises(ContractError) as found:
        verify_func(func)
    with pytest.raises(ContractError):
        emit_function(func, "emitted")
    return str(found.value)


@pytest.mark.parametrize("kind", ["vectorized", "parallel"])
def test_steps_that_depend_on_each_other_are_refused(kind: str) -> None:
    x = Buffer("x", (9,), "int32", "arena")
    i = Var("i", 0, 8)
    assert "share elements of x" in refused(kind, store(x, (as_term(i) + 1,), load(x, i)), i, x)
    assert "share elements of x" in refused(kind, store(x, (0,), load(x, i)), i, x)
    y = Buffer("y", (9,), "int32", "arena")
    table = store(x, (i,), Gather(x, (load(y, i),)))
    assert "share elements of x" in refused(kind, table, i, x, y)


def test_what_is_no_vector_is_refused() -> None:
    x, y = (Buffer(name, (12,), "int32", "arena") for name in "xy")
    i, wide, k = Var("i", 0, 8), Var("i", 0, 12), Var("k", 0, 12)
    assert "not 12" in refused("vectorized", store(x, (wide,), load(y, wide)), wide, x, y)
    early = Seq((store(x, (i,), int32(1)), store(y, (i,), int32(2))))
    assert "before its last statement" in refused("vectorized", early, i, x, y)
    some = loop(k, store(x, (i,), int32(1)), "serial", 0, as_term(i))
    assert "only for some lanes" in refused("vectorized", some, i, x)
    called = Call("f", (BufferRef(x, (as_term(i),)),))
    assert "calls f" in refused("vectorized", called, i, x)


def test_a_schedule_refuses_what_is_no_vector() -> None:
    x = Buffer("x", (9,), "int32", "arena")
    i = Var("i", 0, 8)
    func = PrimFunc("f", (x,), (), loop(i, store(x, (as_term(i) + 1,), load(x, i))))
    for kind in ("vectorize", "parallel"):
        with pytest.raises(ScheduleError, match="share elements of x"):
            getattr(Schedule(func), kind)("i")


def test_a_loop_of_another_kind_is_an_error() -> None:
    x = Buffer("x", (8,), "int32", "arena")
    i = Var("i", 0, 8)
    func = PrimFunc("f", (x,), (), loop(i, store(x, (i,), int32(1)), "blockIdx.x"))
    with pytest.raises(ContractError, match="blockIdx"):
        emit_function(func, "emitted")


def parallel() -> PrimFunc:
    x, out = Buffer("x", (64, 32), "int8", "arena"), Buffer("out", (64, 32), "int8", "arena")
    h, w = Var("h", 0, 64), Var("w", 0, 32)
    return PrimFunc(
        "f", (x, out), (), loop(h, loop(w, store(out, (h, w), load(x, h, w))), "parallel")
    )


def test_a_parallel_loop_is_one_pragma_and_serial_without_openmp(tmp_path: Path) -> None:
    text = emit_function(parallel(), "emitted").text
    assert text.count("#pragma omp parallel for") == 1
    x = np.arange(2048, dtype=np.int64).astype(np.int8).reshape(64, 32)
    check(parallel(), {"x": x}, tmp_path)
    if any(t.family == "gcc" for t in COMPILERS):
        gcc = next(t for t in COMPILERS if t.family == "gcc")
        assert "GOMP_parallel" in subprocess.run(
            ["nm", "-u", "emitted.o"], cwd=_object(tmp_path, list(gcc.command)), check=True,
            capture_output=True, text=True,
        ).stdout  # fmt: skip


def _object(folder: Path, command: list[str]) -> Path:
    compiled(parallel(), folder, command, "-fopenmp", "-DEC_THREADS=2")
    return folder


def test_steps_in_no_order_keep_output_and_input_apart() -> None:
    func = parallel()
    serial = replace(func, body=replace(func.body, kind="serial"))  # type: ignore[type-var]
    x = func.params[0]
    assert overlap_distances(serial)[x] == 0
    assert x not in overlap_distances(func) or overlap_distances(func)[x] >= 63 * 32
