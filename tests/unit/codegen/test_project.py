"""Whole projects: written, compiled with every warning an error, run, compared and linked."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_harness import build_shared, conv_program, load, loop, store

from edgec.boards.board import load_board
from edgec.boards.toolchain import (
    LANGUAGE_FLAGS,
    WARNING_FLAGS,
    available_toolchains,
    zig_program,
)
from edgec.codegen.manifest import Manifest
from edgec.codegen.program import Golden, Port, Program, State, Step
from edgec.codegen.project import write_project
from edgec.errors import ContractError
from edgec.loop.interpret import interpret
from edgec.loop.ir import Binary, Buffer, Cast, PrimFunc, Seq
from edgec.numerics.term import Var
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core, host_core

OK, NULL, SIZE, ALIGNMENT, NOT_INITIALIZED, SELFTEST = 0, -1, -2, -3, -4, -5


class Memory(ctypes.Structure):
    _fields_ = (
        ("arena", ctypes.c_void_p),
        ("arena_bytes", ctypes.c_uint32),
        ("state", ctypes.c_void_p),
        ("state_bytes", ctypes.c_uint32),
    )


class Model:
    """A compiled project, called through ctypes."""

    def __init__(self, folder: Path, program: Program) -> None:
        self.program = program
        self.library = build_shared(folder, sorted(folder.glob("*.c")))
        self.arena = aligned(program.arena_bytes)
        self.state = aligned(program.state_bytes)
        self.memory = Memory(
            self.arena.ctypes.data,
            program.arena_bytes,
            self.state.ctypes.data,
            program.state_bytes,
        )
        self.context = (ctypes.c_uint64 * 8)()

    def call(self, name: str, *args: object) -> int:
        function = getattr(self.library, f"{self.program.model}_{name}")
        return int(function(ctypes.byref(self.context), *args))

    def init(self) -> int:
        return self.call("init", ctypes.byref(self.memory))

    def run(self, *inputs: np.ndarray) -> list[np.ndarray]:
        outputs = [np.zeros(p.shape, p.dtype) for p in self.program.outputs]
        assert self.call("run", pointers(inputs), pointers(outputs)) == OK
        return outputs


def aligned(count: int) -> np.ndarray:
    raw = np.zeros(count + 32, np.uint8)
    start = -raw.ctypes.data % 16
    return raw[start : start + count]


def pointers(arrays: Sequence[np.ndarray]) -> object:
    return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))


def emit(program: Program, folder: Path) -> Manifest:
    folder.mkdir(parents=True, exist_ok=True)
    return write_project(program, folder)


def reference(program: Program, x: np.ndarray) -> np.ndarray:
    """Run the steps through the loop interpreter."""
    values = {"in": x.reshape(6, 6, 8)}
    for step in program.steps:
        arrays = {
            param.name: program.constants.get(arg, values.get(arg))
            for param, arg in zip(step.function.params, step.args, strict=True)
        }
        known = {name: array for name, array in arrays.items() if array is not None}
        values[step.args[1]] = interpret(step.function, known)["out"]
    return values["out"].reshape(x.shape)


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(3).integers(-128, 128, (1, 6, 6, 8)).astype(np.int8)


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_project_runs(io: str, image: np.ndarray, tmp_path: Path) -> None:
    program = conv_program(io=io)
    emit(program, tmp_path)
    model = Model(tmp_path, program)
    assert model.init() == OK
    (out,) = model.run(image)
    np.testing.assert_array_equal(out, reference(program, image))


def test_inputs_and_outputs_lie_in_the_arena(image: np.ndarray, tmp_path: Path) -> None:
    program = conv_program()
    emit(program, tmp_path)
    model = Model(tmp_path, program)
    assert model.init() == OK
    get_input, get_output = model.library.tiny_input, model.library.tiny_output
    get_input.restype = get_output.restype = ctypes.c_void_p
    place = get_input(ctypes.byref(model.context), 0)
    assert place == model.arena.ctypes.data
    assert get_input(ctypes.byref(model.context), 1) is None
    ctypes.memmove(place, image.ctypes.data, image.nbytes)
    assert model.call("run", None, None) == OK
    result = ctypes.string_at(get_output(ctypes.byref(model.context), 0), image.nbytes)
    assert result == reference(program, image).tobytes()


def test_every_wrong_memory_is_refused(tmp_path: Path) -> None:
    program = conv_program()
    emit(program, tmp_path)
    model = Model(tmp_path, program)
    run_before = model.call("run", None, None)
    assert run_before == NOT_INITIALIZED
    assert model.call("init", None) == NULL
    assert model.library.tiny_init(None, ctypes.byref(model.memory)) == NULL
    good = model.memory.arena
    model.memory.arena = None
    assert model.init() == NULL
    model.memory.arena = good + 4
    assert model.init() == ALIGNMENT
    model.memory.arena = good
    model.memory.arena_bytes -= 1
    assert model.init() == SIZE
    assert model.call("run", None, None) == NOT_INITIALIZED
    assert model.call("reset") == NOT_INITIALIZED


def test_caller_io_refuses_null(image: np.ndarray, tmp_path: Path) -> None:
    program = conv_program(io="caller")
    emit(program, tmp_path)
    model = Model(tmp_path, program)
    assert model.init() == OK
    assert model.call("run", None, None) == NULL
    assert model.call("run", pointers([image]), (ctypes.c_void_p * 1)(None)) == NULL


def golden_program() -> Program:
    import zlib

    program = conv_program()
    (image,) = generate_inputs(5, [((1, 6, 6, 8), "int8")])
    crc = zlib.crc32(reference(program, image).tobytes())
    return replace(program, golden=Golden(5, crc))


def test_selftest_compares_with_compile_time(tmp_path: Path) -> None:
    program = golden_program()
    emit(program, tmp_path / "good")
    model = Model(tmp_path / "good", program)
    assert model.call("selftest") == NOT_INITIALIZED
    assert model.init() == OK
    assert model.call("selftest") == OK
    assert program.golden is not None
    wrong = replace(program, golden=Golden(5, program.golden.output_crc ^ 1))
    emit(wrong, tmp_path / "wrong")
    model = Model(tmp_path / "wrong", wrong)
    assert model.init() == OK
    assert model.call("selftest") == SELFTEST


def state_program() -> Program:
    """Adds each input to a running sum that starts from a table."""
    x = Buffer("x", (4,), "int32", "arena")
    total = Buffer("total", (4,), "int32", "arena")
    out = Buffer("out", (4,), "int32", "arena")
    i = Var("i", 0, 4)
    body = Seq(
        (
            store(total, (i,), Binary("add", load(total, i), load(x, i))),
            store(out, (i,), load(total, i)),
        )
    )
    func = PrimFunc("accumulate", (x, total, out), (), loop(i, body))
    return Program(
        model="running",
        source_file="running.onnx",
        inputs=(Port("x", "int32", (4,), "x"),),
        outputs=(Port("sum", "int32", (4,), "sum"),),
        steps=(Step(func, ("x", "memory", "sum"), 'add "sum"'),),
        constants={"start": np.array([1, -1, 2**31 - 1, 0], np.int32)},
        buffers={"x": 16, "sum": 16, "memory": 16, "other": 8},
        offsets={"x": 0, "sum": 16, "memory": 16, "other": 0},
        arena_bytes=32,
        states=(
            State("memory", "int32", (4,), "memory", initial="start"),
            State("other", "int8", (8,), "other", fill=3),
        ),
        state_bytes=32,
    )


def test_state_survives_runs_until_reset(tmp_path: Path) -> None:
    program = state_program()
    emit(program, tmp_path)
    model = Model(tmp_path, program)
    model.memory.state_bytes -= 1
    assert model.init() == SIZE
    model.memory.state_bytes += 1
    assert model.init() == OK
    assert model.state[:8].tolist() == [3] * 8
    one = np.ones(4, np.int32)
    model.run(one)
    (second,) = model.run(one)
    assert second.tolist() == [3, 1, -(2**31) + 1, 2]
    assert model.call("reset") == OK
    (again,) = model.run(one)
    assert again.tolist() == [2, 0, -(2**31), 1]


MAIN = """
#include "alpha.h"
#include "beta.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static ALPHA_ARENA(arena_a);
static BETA_ARENA(arena_b);

static const unsigned char *traced[8];
static unsigned traced_bytes[8];
void ec_trace(const void *context, uint32_t id, const void *data, uint32_t row, uint32_t bytes);
void ec_trace(const void *context, uint32_t id, const void *data, uint32_t row, uint32_t bytes) {
    (void)context;
    printf("trace %u row %u bytes %u\\n", (unsigned)id, (unsigned)row, (unsigned)bytes);
    traced[id] = (const unsigned char *)data;
    traced_bytes[id] = (unsigned)bytes;
}

int main(void) {
    const alpha_memory memory_a = { arena_a, sizeof arena_a };
    const beta_memory memory_b = { arena_b, sizeof arena_b };
    alpha_context a;
    beta_context b;
    if (alpha_init(&a, &memory_a) != EC_OK || beta_init(&b, &memory_b) != EC_OK) {
        return 1;
    }
    memset(alpha_input(&a, 0), 1, ALPHA_INPUT_0_BYTES);
    memset(beta_input(&b, 0), 1, BETA_INPUT_0_BYTES);
    if (alpha_run(&a, NULL, NULL) != EC_OK || beta_run(&b, NULL, NULL) != EC_OK) {
        return 2;
    }
    if (memcmp(alpha_output(&a, 0), beta_output(&b, 0), ALPHA_OUTPUT_0_BYTES) != 0) {
        return 3;
    }
    if (traced_bytes[2] != 288u || traced[3] == NULL) {
        return 4;
    }
    return alpha_output_0_argmax((const int8_t *)alpha_output(&a, 0)) < ALPHA_OUTPUT_0_ELEMENTS &&
                   alpha_input_0_quantize(1.0f) == -1 && alpha_input_0_quantize(1e9f) == 127 &&
                   alpha_input_0_quantize(-1e9f) == -128 && alpha_input_0_quantize(-2.25f) == -8 &&
                   alpha_output_0_dequantize(9) == 0.5f
               ? 0
               : 5;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_two_models_link_and_run_under_sanitizers(compiler: str, tmp_path: Path) -> None:
    """Also proves that the trace hook reports every step and value."""
    toolchains = {t.name: t for t in available_toolchains(host_core())}
    if compiler not in toolchains:
        pytest.skip(f"no {compiler} on this computer")
    toolchain = toolchains[compiler]
    for name in ("alpha", "beta"):
        write_project(conv_program(name), tmp_path)
    (tmp_path / "main.c").write_text(MAIN)
    # The clang of ziglang has no AddressSanitizer runtime; its UBSan traps.
    sanitize = "undefined" if toolchain.is_zig else "undefined,address"
    command = [
        *toolchain.command,
        *LANGUAGE_FLAGS,
        *WARNING_FLAGS,
        "-O1",
        f"-fsanitize={sanitize}",
        "-fno-sanitize-recover=all",
        "-DEC_TRACE_HOOK",
        "-o",
        str(tmp_path / "program"),
        *map(str, sorted(tmp_path.glob("*.c"))),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ids = [int(line.split()[1]) for line in done.stdout.splitlines()]
    assert ids == [0, 2, 1, 3] * 2


def test_header_is_cplusplus(tmp_path: Path) -> None:
    zig, gxx = zig_program(), shutil.which("g++")
    compiler = [gxx] if gxx else [str(zig), "c++"] if zig else None
    if compiler is None:
        pytest.skip("no C++ compiler on this computer")
    emit(golden_program(), tmp_path)
    source = tmp_path / "use.cpp"
    source.write_text(
        '#include "tiny.h"\nstatic TINY_ARENA(arena);\nvoid *use() { return arena; }\n'
    )
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c"]
    flags += ["-o", str(tmp_path / "user.o")]
    done = subprocess.run(
        [*compiler, *flags, str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_embedded_compilers_are_silent(core: str, tmp_path: Path) -> None:
    toolchains = available_toolchains(find_core(core))
    if not toolchains:
        pytest.skip(f"no compiler for {core}")
    emit(state_program(), tmp_path / "running")
    emit(golden_program(), tmp_path / "tiny")
    for toolchain in toolchains:
        for source in sorted(tmp_path.glob("*/*.c")):
            command = toolchain.compile_command(
                source, source.with_suffix(".o"), flags=("-O2", *WARNING_FLAGS)
            )
            done = toolchain.run(command, tmp_path)
            assert done.returncode == 0, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("board", ["", "mps2_an386"])
def test_cmake_builds_the_project(board: str, tmp_path: Path) -> None:
    if shutil.which("cmake") is None or shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("no cmake or no arm-none-eabi-gcc on this computer")
    source = tmp_path / "source"
    source.mkdir()
    write_project(golden_program(), source, load_board(board) if board else None)
    cross = [
        "-DCMAKE_C_COMPILER=arm-none-eabi-gcc",
        "-DCMAKE_SYSTEM_NAME=Generic",
        "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
    ]
    build = tmp_path / "build"
    subprocess.run(
        ["cmake", "-S", source, "-B", build, *(cross if board else [])],
        check=True,
        capture_output=True,
    )
    done = subprocess.run(["cmake", "--build", build], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (build / "libtiny.a").exists()
    assert (build / "tiny_firmware.elf").exists() == bool(board)


def test_same_program_same_bytes(tmp_path: Path) -> None:
    board = load_board("netduinoplus2")
    contents = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_project(golden_program(), tmp_path / name, board)
        files = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
        contents.append([(p.relative_to(tmp_path / name), p.read_bytes()) for p in files])
    assert contents[0] == contents[1]
    names = {str(path) for path, _ in contents[0]}
    assert {"main.c", "link.ld", "tiny.c", "tiny_weights.c", "manifest.json"} <= names


def test_layers_of_one_shape_share_code(tmp_path: Path) -> None:
    manifest = emit(conv_program(), tmp_path)
    assert [step.function for step in manifest.steps] == ["tiny_conv2d", "tiny_conv2d"]
    assert (tmp_path / "tiny.c").read_text().count("static void tiny_conv2d(") == 1


def test_the_models_own_steps_come_first(tmp_path: Path) -> None:
    emit(conv_program(), tmp_path)
    text, runtime = ((tmp_path / name).read_text() for name in ("tiny.c", "tiny_runtime.h"))
    assert " ec_" in text and "EC_HELPER" not in text and "EC_KERNEL" not in text
    assert text.index("\nEC_STEP\n") < 10 * 100, "a page of something else before the first step"
    assert "\nEC_HELPER " in runtime and "tiny_run" not in runtime


def test_header_says_what_run_destroys(tmp_path: Path) -> None:
    emit(conv_program(), tmp_path)
    text = (tmp_path / "tiny.h").read_text()
    assert "run destroys input 0" in text
    assert "output 0 lives until the next run or until input 0 is written" in text
    assert "#define TINY_OUTPUT_0_ZERO_POINT (7)" in text


HOSTILE = [
    "",
    "*/ int evil; /*",
    "??/\nwhile",
    "9 lives",
    "größe/ñ:0",
    "a" * 500,
    'quote"\\back',
    "int",
    "tiny_run",
]


def test_hostile_names_compile(image: np.ndarray, tmp_path: Path) -> None:
    base = conv_program()
    inputs = (replace(base.inputs[0], name=HOSTILE[1]),)
    for index, name in enumerate(HOSTILE):
        renamed = {"w": f"{name}#0", "bias": f"{name}#1", "multiplier": name, "shift": f"{name}!"}
        steps = tuple(
            replace(
                step,
                function=replace(step.function, name=name),
                args=tuple(renamed.get(arg, arg) for arg in step.args),
                title=name,
                sources=(name, name),
                shapes=name,
            )
            for step in base.steps
        )
        program = replace(
            base,
            source_file=name,
            inputs=inputs,
            outputs=(replace(base.outputs[0], name=name),),
            steps=steps,
            constants={renamed[key]: array for key, array in base.constants.items()},
        )
        emit(program, tmp_path / str(index))
        model = Model(tmp_path / str(index), program)
        assert model.init() == OK
        (out,) = model.run(image)
        np.testing.assert_array_equal(out, reference(base, image))


def test_broken_programs_are_refused(tmp_path: Path) -> None:
    good = conv_program()
    broken = [
        replace(good, offsets={**good.offsets, "out": 400}),
        replace(good, offsets={"in": 0, "middle": 304}),
        replace(good, buffers={**good.buffers, "middle": 10}),
        replace(good, constants={**good.constants, "bias": np.zeros(8, np.int16)}),
        replace(good, steps=(replace(good.steps[0], args=good.steps[0].args[:-1]),)),
        replace(good, steps=(replace(good.steps[0], args=("in", "nowhere", "w")),)),
        replace(state_program(), offsets={"x": 0, "sum": 14, "memory": 16, "other": 0}),
    ]
    for program in broken:
        with pytest.raises(ContractError):
            write_project(program, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_float_steps_are_exact(tmp_path: Path) -> None:
    x = Buffer("x", (16,), "float32", "arena")
    w = Buffer("w", (16,), "float32", "constant")
    out = Buffer("out", (16,), "float32", "arena")
    i = Var("i", 0, 16)
    value = Binary("add", Binary("mul", load(x, i), load(w, i)), Cast("float32", load(w, i)))
    func = PrimFunc("scale", (x, w, out), (), loop(i, store(out, (i,), value)))
    weights = np.random.default_rng(1).standard_normal(16).astype(np.float32)
    program = Program(
        model="floats",
        source_file="floats.onnx",
        inputs=(Port("x", "float32", (16,), "x"),),
        outputs=(Port("y", "float32", (16,), "y"),),
        steps=(Step(func, ("x", "w", "y"), 'mul "y"'),),
        constants={"w": weights},
        buffers={"x": 64, "y": 64},
        offsets={"x": 16, "y": 16},
        arena_bytes=80,
        golden=Golden(1, 0),
    )
    emit(program, tmp_path)
    model = Model(tmp_path, program)
    assert model.init() == OK
    array = np.random.default_rng(2).standard_normal(16).astype(np.float32)
    (result,) = model.run(array)
    np.testing.assert_array_equal(result, array * weights + weights)
    assert model.call("selftest") == SELFTEST
