"""The Raspberry Pis: C for 64-bit Arm gives the reference's bits, under qemu-aarch64.

Instructions of one inference stay within `budgets.toml`.
"""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from built_models import DIGITS
from built_models import MODELS as REAL
from emulated import build_counter, count_instructions, emulator
from onnx_builder import OnnxBuilder
from operator_models import MODELS
from sanitized import assert_reference, cases, run_sanitized, write_sources

from edgec.boards.board import load_board
from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_program
from edgec.codegen.manifest import Manifest
from edgec.deploy.project import deploy
from edgec.errors import RunFailed
from edgec.loop.microkernel import kernels_of
from edgec.options import Options
from edgec.pipeline import Compiled, compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.targets.core import CORES, Core, is_this_computer

BOARD = load_board("raspberry_pi")
BUDGETS = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text(encoding="utf-8"))
NAMES = (
    "network_qdq", "network_float", "network_int16", "network_dynamic_range", "lstm", "lstm_float",
    "svdf", "softmax_float", "log_softmax_float", "exp", "signal_rfft", "signal_noise",
)  # fmt: skip


def build(
    model: Path, core: Core, project: Path, match: str | None = None, threads: int = 1
) -> tuple[Compiled, Manifest, Path]:
    """A model, and the program that runs it on what it reads."""
    emulator()
    options = Options(match=match, float_sums="ordered", threads=threads)  # type: ignore[arg-type]
    compiled = compile_model(model, core, options)
    manifest = write_sources(compiled, project)
    program = build_host_program(
        [project / source for source in (*manifest.sources, "driver.c")], project / "program",
        toolchain=find_toolchain(core, "gcc"), include_dirs=[project],
        defines=["_POSIX_C_SOURCE=200809L"], flags=["-O3"],
    )  # fmt: skip
    return compiled, manifest, program


@pytest.mark.parametrize("name", NAMES)
def test_same_bits(name: str, tmp_path: Path) -> None:
    compiled, manifest, program = build(MODELS[name](tmp_path), BOARD.core, tmp_path / "project")
    inputs = cases(manifest.inputs, 1)
    found = run_sanitized(program, manifest, inputs, emulator())
    assert_reference(compiled, manifest, inputs, found)


@pytest.mark.parametrize("match", [pytest.param("litert", marks=pytest.mark.full), "onnx"])
def test_other_roundings(match: str, sample_model: Callable[[str], Path], tmp_path: Path) -> None:
    model = DIGITS if match == "onnx" else sample_model(REAL["kws"])
    core = CORES["aarch64+i8mm"]
    compiled, manifest, program = build(model, core, tmp_path / "project", match)
    called = {k for variant in compiled.chosen for k in kernels_of(variant.function)}
    word = {"litert": "_single", "onnx": "_onnx"}[match]
    assert f"ec_conv{word}_s8_i8mm" in called
    inputs = cases(manifest.inputs, 1)[:4]
    found = run_sanitized(program, manifest, inputs, emulator())
    assert_reference(compiled, manifest, inputs, found)


def two_windows(path: Path) -> Path:
    """Windows of 3 x 3 of a padded image, limited, and of one without padding."""
    b = OnnxBuilder(3, (1, 16, 8, 12))
    weights, bias, _ = b.weights((16, 16, 3, 3), 0.03)
    y = b.add("Conv", [b.qdq("x", 0.03, -7), weights, bias], pads=[1, 1, 1, 1])
    y = b.qdq(b.add("Relu", [y]), 0.2, -128)
    weights, bias, _ = b.weights((32, 16, 3, 3), 0.2)
    return b.save(b.qdq(b.add("Conv", [y, weights, bias]), 1.5, 9), path)


@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_of_windows(threads: int, tmp_path: Path) -> None:
    """A core without dot products takes fewer products, for the same bits."""
    model = two_windows(tmp_path / "m.onnx")
    compiled, manifest, program = build(
        model, CORES["aarch64"], tmp_path / "project", threads=threads
    )
    called = [k for variant in compiled.chosen for k in kernels_of(variant.function)]
    assert called.count("ec_winograd_onnx_s8_neon") == 2
    inputs = cases(manifest.inputs, 1)
    found = run_sanitized(program, manifest, inputs, emulator())
    assert_reference(compiled, manifest, inputs, found)


def test_a_minimum_above_the_zero_point(tmp_path: Path) -> None:
    """Kernels for limits at zero do not know of another one."""
    b = OnnxBuilder(3, (1, 16, 4, 4))
    weights, bias, _ = b.weights((8, 16, 1, 1), 0.03)
    y = b.add("Conv", [b.qdq("x", 0.03, -7), weights, bias])
    limits = [b.constant(np.float32(limit), "limit") for limit in (2.0, 100.0)]
    model = b.save(b.qdq(b.add("Clip", [y, *limits]), 0.1, -128), tmp_path / "m.onnx")
    compiled, manifest, program = build(model, CORES["aarch64"], tmp_path / "project", "tflm")
    inputs = cases(manifest.inputs, 1)
    found = run_sanitized(program, manifest, inputs, emulator())
    assert_reference(compiled, manifest, inputs, found)


@pytest.mark.parametrize(
    ("name", "core"),
    [
        pytest.param(name, core, marks=[] if "dotprod" in core else [pytest.mark.full])
        for name, cores in BUDGETS["emulated"].items()
        for core in cores
    ],
)
def test_instructions(
    name: str, core: str, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    plugin = build_counter(tmp_path)
    model = sample_model(REAL[name])
    compiled, manifest, program = build(model, CORES[core], tmp_path / "project")
    types = [(port.shape, port.dtype) for port in manifest.inputs]
    inputs = [generate_inputs(seed, types) for seed in (1, 2)]
    found = run_sanitized(program, manifest, inputs, emulator())
    assert_reference(compiled, manifest, inputs, found)
    once, twice = (
        count_instructions(plugin, program, b"".join(a.tobytes() for a in inputs[0]) * times)
        for times in (1, 2)
    )
    assert twice - once <= BUDGETS["emulated"][name][core], f"{twice - once:,}"


def test_an_older_processor_is_told_so(tmp_path: Path) -> None:
    """Before any of its instructions is missing."""
    if is_this_computer(BOARD.core):
        pytest.skip("only an emulator can be an older processor")
    _, _, program = build(DIGITS, CORES["aarch64+dotprod"], tmp_path / "project")
    command = ["cortex-a53" if word == "max" else word for word in emulator()]
    done = subprocess.run([*command, str(program)], input=b"", check=False)
    assert done.returncode == 4  # of the driver, where init or the self-test fails
    assert subprocess.run([*emulator(), str(program)], input=b"", check=False).returncode == 0


def test_a_project_is_built_and_says_where_it_runs(tmp_path: Path) -> None:
    emulator()
    compiled = compile_model(DIGITS, BOARD.core, Options(), board_name=BOARD.name)
    built = deploy(compiled, BOARD, tmp_path / "digits")
    assert built.artefact is not None
    assert built.artefact.read_bytes()[18] == 183  # the ELF's machine is AArch64
    if not is_this_computer(BOARD.core):
        with pytest.raises(RunFailed, match="runs on a computer with 64-bit Arm"):
            open_session("host", built)
