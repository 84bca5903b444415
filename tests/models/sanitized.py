"""Emitted C under the address and undefined-behaviour sanitizers, on inputs at extremes.

A program of its own, so that Python needs no sanitizer: it reads inputs, runs the model on memory
of exactly the size that the model asks for, and writes outputs. The state lives from run to run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_program
from edgec.codegen.manifest import Manifest, PortEntry
from edgec.codegen.project import write_project
from edgec.graph.interpret import Interpretation
from edgec.pipeline import Compiled
from edgec.runners.samples import generate_inputs
from edgec.targets.core import CORES, Core, host_core

Arrays = tuple[np.ndarray, ...]

DRIVER = """
#include "MODEL.h"
#include <stdio.h>
#include <stdlib.h>

static void *take(size_t bytes) {
    void *found = NULL;
    if (posix_memalign(&found, UPPER_ALIGNMENT, bytes != 0u ? bytes : 1u) != 0) {
        exit(3);
    }
    return found;
}

int main(void) {
    static const uint32_t in_bytes[] = { INPUT_BYTES };
    static const uint32_t out_bytes[] = { OUTPUT_BYTES };
    void *inputs[UPPER_INPUT_COUNT];
    void *outputs[UPPER_OUTPUT_COUNT];
    const MODEL_memory memory = { take(UPPER_ARENA_BYTES), UPPER_ARENA_BYTES STATE };
    MODEL_context *const model = take(sizeof *model);
    for (uint32_t i = 0u; i < UPPER_INPUT_COUNT; ++i) {
        inputs[i] = take(in_bytes[i]);
    }
    for (uint32_t i = 0u; i < UPPER_OUTPUT_COUNT; ++i) {
        outputs[i] = take(out_bytes[i]);
    }
    if (MODEL_init(model, &memory) != EC_OK || MODEL_selftest(model) != EC_OK) {
        return 4;
    }
    for (;;) {
        for (uint32_t i = 0u; i < UPPER_INPUT_COUNT; ++i) {
            if (fread(inputs[i], 1u, in_bytes[i], stdin) != in_bytes[i]) {
                return 0;
            }
        }
        if (MODEL_run(model, (const void *const *)inputs, outputs) != EC_OK) {
            return 5;
        }
        for (uint32_t i = 0u; i < UPPER_OUTPUT_COUNT; ++i) {
            if (fwrite(outputs[i], 1u, out_bytes[i], stdout) != out_bytes[i]) {
                return 6;
            }
        }
    }
}
"""


def write_sources(compiled: Compiled, project: Path) -> Manifest:
    """The model's project with the program's main file."""
    project.mkdir()
    manifest = write_project(compiled.program, project)
    state = ", take(UPPER_STATE_BYTES), UPPER_STATE_BYTES" if manifest.state_bytes else ""
    text = DRIVER.replace("STATE }", state + " }")
    for word, ports in (("INPUT_BYTES", manifest.inputs), ("OUTPUT_BYTES", manifest.outputs)):
        text = text.replace(f"{{ {word} }}", "{ " + ", ".join(f"{p.bytes}u" for p in ports) + " }")
    text = text.replace("UPPER", manifest.model.upper()).replace("MODEL", manifest.model)
    (project / "driver.c").write_text(text)
    return manifest


def build_sanitized(project: Path, manifest: Manifest, core: Core | None = None) -> Path:
    """The program of `write_sources`, by gcc with both sanitizers; core: not the oldest."""
    return build_host_program(
        [project / source for source in (*manifest.sources, "driver.c")],
        project / "program",
        toolchain=find_toolchain(core or host_core(), "gcc"), include_dirs=[project],
        defines=["_POSIX_C_SOURCE=200809L"], sanitize=("address", "undefined"),
        flags=["-O1", "-fsanitize=float-cast-overflow", "-fno-sanitize=float-divide-by-zero"],
    )  # fmt: skip


def extremes(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Arrays at the ends of a dtype, and random ones."""
    elements = int(np.prod(shape, dtype=np.int64))
    if dtype == "bool":
        values = [np.zeros(1, bool), np.ones(1, bool), np.array([False, True])]
    elif dtype.startswith("float"):
        most, tiny = np.float32(3.4028235e38), np.float32(1e-45)
        values = [
            np.array(v, np.float32)
            for v in (
                [0.0], [-0.0], [most], [-most], [most, -most], [np.inf], [-np.inf],
                [np.inf, -np.inf], [np.nan], [1.0, np.nan], [tiny, -tiny], [1e-38, -3e-39],
                [1e9, -1e9, 1.0], [0.5, -0.5, 1.5, 2.5],
            )
        ]  # fmt: skip
        bits = rng.integers(0, 1 << 32, elements, dtype=np.uint64).astype(np.uint32)
        values += [bits.view(np.float32)]
        values += [(rng.normal(0, 1, elements) * size).astype(np.float32) for size in (1, 1e3)]
    else:
        info = np.iinfo(dtype)
        ends = ([info.min], [info.max], [info.min, info.max], [info.max, info.min, 0], [0], [-1])
        span = 1 << 8 * np.dtype(dtype).itemsize
        values = [
            np.array([n % span for n in v], f"uint{span.bit_length() - 1}").astype(dtype)
            for v in ends
        ]
        values += [rng.integers(info.min, info.max, elements, dtype, endpoint=True)] * 2
    for value in values:
        with np.errstate(over="ignore", invalid="ignore"):
            yield np.resize(value, elements).reshape(shape).astype(dtype)


def cases(ports: Sequence[PortEntry], seed: int) -> list[Arrays]:
    """Sets of inputs: every extreme of each port while the others go through theirs."""
    rng = np.random.default_rng(seed)
    menus = [list(extremes(port.dtype, tuple(port.shape), rng)) for port in ports]
    longest = max(map(len, menus))
    sets = [
        tuple(menu[(turn + shift * position) % len(menu)] for position, menu in enumerate(menus))
        for shift in range(3 if len(menus) > 1 else 1)
        for turn in range(longest)
    ]
    types = [(tuple(port.shape), port.dtype) for port in ports]
    return [*sets, generate_inputs(seed, types)]


def run_sanitized(
    program: Path, manifest: Manifest, inputs: Sequence[Arrays], emulator: Sequence[str] = ()
) -> list[Arrays]:
    """The outputs of a sequence of runs; AssertionError with what a sanitizer said.

    emulator: the command that runs a program of another computer.
    """
    data = b"".join(np.ascontiguousarray(a).tobytes() for arrays in inputs for a in arrays)
    environment = {
        **os.environ,
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    done = subprocess.run(
        [*emulator, str(program)], input=data, capture_output=True, check=False, timeout=600,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr.decode(errors="replace")[-3000:])
    found, at = [], 0
    for _ in inputs:
        outputs = []
        for port in manifest.outputs:
            raw = done.stdout[at : at + port.bytes]
            outputs.append(np.frombuffer(raw, port.dtype).reshape(port.shape))
            at += port.bytes
        found.append(tuple(outputs))
    assert at == len(done.stdout)
    return found


def same(mine: np.ndarray, reference: np.ndarray) -> bool:
    """Equal in every bit; of a NaN only that it is one, since its bits have no meaning."""
    if mine.dtype.kind == "f":
        nan = np.isnan(reference)
        if not np.array_equal(np.isnan(mine), nan):
            return False
        mine, reference = np.where(nan, 0, mine), np.where(nan, 0, reference)
    return bool(mine.tobytes() == np.ascontiguousarray(reference).tobytes())


def check_sanitized(compiled: Compiled, folder: Path, seeds: Sequence[int] = (1,)) -> int:
    """Assert no finding, and the reference's bits for every case; returns how many there were."""
    manifest = write_sources(compiled, folder / "project")
    core = CORES[compiled.program.target]
    is_native = core.isa == host_core().isa
    program = build_sanitized(folder / "project", manifest, core if is_native else None)
    inputs = [arrays for seed in seeds for arrays in cases(manifest.inputs, seed)]
    assert_reference(compiled, manifest, inputs, run_sanitized(program, manifest, inputs))
    return len(inputs)


def assert_reference(
    compiled: Compiled, manifest: Manifest, inputs: Sequence[Arrays], found: Sequence[Arrays]
) -> None:
    """Assert that the outputs of a sequence of runs have the reference's bits."""
    reference = Interpretation(compiled.module.main)
    for number, (arrays, outputs) in enumerate(zip(inputs, found, strict=True)):
        with np.errstate(all="ignore"):
            wanted = reference.run_whole(arrays)
        for port, mine, theirs in zip(manifest.outputs, outputs, wanted, strict=True):
            assert same(mine, theirs.reshape(mine.shape)), f"{port.name}, case {number}: {arrays}"
