"""Build emitted C on this computer and call it from Python."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, find_toolchain
from edgec.codegen.c_function import emit_function
from edgec.codegen.program import Golden, Port, Program, State, Step, Trace
from edgec.codegen.ranges import Range
from edgec.codegen.runtime_source import needed_functions
from edgec.loop.ir import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Intrinsic,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
)
from edgec.numerics.term import Term, TermLike, Var, as_term, maximum, minimum
from edgec.targets.core import host_core


def load(buffer: Buffer, *indices: TermLike) -> Load:
    return Load(buffer, tuple(as_term(i) for i in indices))


def store(buffer: Buffer, indices: tuple[TermLike, ...], value: Expr) -> Store:
    return Store(buffer, tuple(as_term(i) for i in indices), value)


def loop(
    var: Var,
    body: Stmt,
    kind: str = "serial",
    start: TermLike | None = None,
    stop: TermLike | None = None,
) -> For:
    first = as_term(var.start if start is None else start)
    last = as_term(var.stop if stop is None else stop)
    return For(var, first, last, kind, body)  # type: ignore[arg-type]


def int32(value: int) -> Const:
    return Const(value, "int32")


def conv_func(
    size: int = 6, channels: int = 8, kernel: int = 3, unroll: int = 4, name: str = "conv2d"
) -> PrimFunc:
    """A padded convolution, four output channels in registers, requantized to int8."""
    x = Buffer("x", (size, size, channels), "int8", "arena")
    y = Buffer("out", (size, size, channels), "int8", "arena")
    w = Buffer("w", (channels // 4, kernel, kernel, channels, 4), "int8", "constant")
    bias = Buffer("bias", (channels,), "int32", "constant")
    multiplier = Buffer("multiplier", (channels,), "int32", "constant")
    shift = Buffer("shift", (channels,), "int8", "constant")
    acc = Buffer("acc", (4,), "int32", "register")
    oh, ow, oc = Var("oh", 0, size), Var("ow", 0, size), Var("oc", 0, channels // 4)
    kh, kw, o = Var("kh", 0, kernel), Var("kw", 0, kernel), Var("o", 0, 4)
    outer, inner = Var("ic_o", 0, channels // unroll), Var("ic_i", 0, unroll)
    pad = kernel // 2
    h, wd, c = as_term(oh), as_term(ow), as_term(oc)
    ic = as_term(outer) * unroll + inner
    product = Binary(
        "mul",
        Binary("add", Cast("int32", load(x, h + kh - pad, wd + kw - pad, ic)), int32(128)),
        Cast("int32", load(w, oc, kh, kw, ic, o)),
    )
    sums: Stmt = loop(o, store(acc, (o,), Binary("add", load(acc, o), product)), "unrolled")
    sums = loop(outer, loop(inner, sums, "unrolled"))
    sums = loop(kw, sums, "serial", maximum(0, pad - wd), minimum(kernel, size + pad - wd))
    sums = loop(kh, sums, "serial", maximum(0, pad - h), minimum(kernel, size + pad - h))
    scaled: Expr = Intrinsic(
        "requantize_tflm",
        (load(acc, o), load(multiplier, c * 4 + o), Cast("int32", load(shift, c * 4 + o))),
        "int32",
    )
    scaled = Binary("add", scaled, int32(-128))
    limited = Binary("min", Binary("max", scaled, int32(-128)), int32(127))
    body = Seq(
        (
            loop(o, store(acc, (o,), load(bias, c * 4 + o)), "unrolled"),
            sums,
            loop(o, store(y, (oh, ow, c * 4 + o), Cast("int8", limited)), "unrolled"),
        )
    )
    nest = loop(oh, loop(ow, loop(oc, body)))
    return PrimFunc(name, (x, y, w, bias, multiplier, shift), (acc,), nest)


def conv_constants(func: PrimFunc, seed: int = 1) -> dict[str, np.ndarray]:
    """Random weights and tables for `conv_func`."""
    rng = np.random.default_rng(seed)
    w, bias = func.params[2], func.params[3]
    return {
        "w": rng.integers(-127, 128, w.shape).astype(np.int8),
        "bias": rng.integers(-9999, 9999, bias.shape).astype(np.int32),
        "multiplier": rng.integers(1 << 30, (1 << 31) - 1, bias.shape).astype(np.int32),
        "shift": rng.integers(-10, -7, bias.shape).astype(np.int8),
    }


def conv_program(model: str = "tiny", *, io: str = "arena", seed: int = 1) -> Program:
    """Two equal convolutions one after the other, with traces."""
    func = conv_func()
    constants = conv_constants(func, seed)
    size = 6 * 6 * 8
    tables = ("w", "bias", "multiplier", "shift")

    def step(source: str, target: str, name: str) -> Step:
        trace = Trace(name, target, f"net/{name}", "int8", (1, 6, 6, 8))
        return Step(
            function=func,
            args=(source, target, *tables),
            title=f'conv2d "net/{name}"',
            sources=(f"net/{name}",),
            shapes="[1,6,6,8] -> [1,6,6,8]",
            macs=6 * 6 * 8 * 8 * 9,
            traces=(trace,),
        )

    offsets = {"in": 0, "middle": 304, "out": 0}
    if io == "caller":
        offsets = {"middle": 0}
    return Program(
        model=model,
        source_file=f"{model}.tflite",
        inputs=(Port("image:0", "int8", (1, 6, 6, 8), "in", scale=(0.5,), zero_point=(-3,)),),
        outputs=(Port("Identity", "int8", (1, 6, 6, 8), "out", scale=(0.25,), zero_point=(7,)),),
        steps=(step("in", "middle", "first"), step("middle", "out", "second")),
        constants=constants,
        buffers={"in": size, "middle": size, "out": size},
        offsets=offsets,
        arena_bytes=304 + size if io == "arena" else size,
        io=io,  # type: ignore[arg-type]
    )


def build_shared(folder: Path, sources: list[Path], *, flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Compile with every warning an error and load the library."""
    toolchain = find_toolchain(host_core())
    library = folder / "emitted.so"
    command = [*toolchain.command, *LANGUAGE_FLAGS, *WARNING_FLAGS, "-O2", "-shared", "-fPIC"]
    if toolchain.is_zig:
        command.append("-fno-sanitize=all")
    command += [*flags, "-o", str(library), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def run_emitted(
    func: PrimFunc,
    arrays: Mapping[str, np.ndarray],
    folder: Path,
    *,
    known: Mapping[str, Range] | None = None,
) -> dict[str, np.ndarray]:
    """Emit, compile and call the function; returns every non-constant parameter afterwards."""
    emitted = emit_function(func, "emitted", known=known)
    helpers = [f.text for f in needed_functions([emitted.text])]
    signature = emitted.signature.replace("static ", "")
    text = "\n\n".join(
        (
            "#include <stdint.h>\n#include <string.h>",
            *helpers,
            f"{signature};",
            emitted.text.replace("static void", "void", 1),
        )
    )
    source = folder / "emitted.c"
    source.write_text(text + "\n")
    library = build_shared(folder, [source])
    memory = {
        p.name: np.ascontiguousarray(arrays[p.name]).copy()
        if p.name in arrays
        else np.zeros(p.shape, "uint8" if p.dtype == "bool" else p.dtype)
        for p in func.params
    }
    library.emitted(*(ctypes.c_void_p(memory[p.name].ctypes.data) for p in func.params))
    return {p.name: memory[p.name] for p in func.params if p.scope != "constant"}


__all__ = [
    "Golden",
    "State",
    "Term",
    "build_shared",
    "conv_constants",
    "conv_func",
    "conv_program",
    "int32",
    "load",
    "loop",
    "run_emitted",
    "store",
]
