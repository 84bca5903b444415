"""Each level of x86 gives the reference's bits on whole models, on the kernels of its vectors."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from built_models import DIGITS, MODELS

from edgec.boards.board import load_board
from edgec.boards.toolchain import find_toolchain
from edgec.deploy.project import deploy, deploy_library
from edgec.loop.microkernel import kernels_of
from edgec.options import Options
from edgec.oracle.verify import verify_model
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.targets.core import CORES, host_core, is_this_computer, native_core

LEVELS = [c for c in CORES.values() if c.has("avx2") and is_this_computer(c)]
NAMES = (
    "digits", "kws", "ic", *(pytest.param(name, marks=pytest.mark.full) for name in ("sww", "ad")),
)  # fmt: skip


@pytest.mark.parametrize("core", LEVELS, ids=lambda core: core.name)
@pytest.mark.parametrize("name", NAMES)
def test_whole_models_have_the_bits_of_their_framework(name, core, sample_model, tmp_path):
    path = DIGITS if name == "digits" else sample_model(MODELS[name])
    board = replace(load_board("host"), core=core)
    compiled = compile_model(path, core, board=board)
    called = {k for variant in compiled.chosen for k in kernels_of(variant.function)}
    suffix = "vnni" if core.has("vnni") else "avx2"
    assert any(k.startswith("ec_conv") and k.endswith(suffix) for k in called)
    types = [(v.type.shape, v.type.dtype) for v in compiled.imported.main.inputs]
    cases = [generate_inputs(seed, types) for seed in (1, 2)]
    result = verify_model(path, board, Options(), "host", cases, tmp_path)
    assert result.to_dict()["elements"] > 0
    assert result.mismatches == 0, result.to_dict()["first_difference"]


@pytest.mark.skipif(not LEVELS, reason="this computer has no AVX2")
def test_digits_by_onnx_rounding_and_no_illegal_instruction(tmp_path):
    """An old processor is told that it is too old, before any of its instructions is missing."""
    core = CORES["x86-64-v3"]
    compiled = compile_model(DIGITS, core)
    built = deploy_library(compiled, tmp_path / "out")
    model = built.manifest.model
    text = f"""
#include "{model}.h"
int main(void) {{
    static _Alignas(16) unsigned char arena[{compiled.program.arena_bytes + 1}];
    {model}_context context;
    const {model}_memory memory = {{.arena = arena, .arena_bytes = sizeof arena}};
    return -(int){model}_init(&context, &memory);
}}
"""
    (tmp_path / "main.c").write_text(text)
    tool = find_toolchain(core)
    sources = [*map(str, sorted(built.project.glob("*.c"))), str(tmp_path / "main.c")]
    program = tmp_path / "program"
    flags = [*tool.core_flags, "-std=c11", "-O3", "-I", str(built.project)]
    subprocess.run([*tool.command, *flags, *sources, "-o", str(program)], check=True)
    assert subprocess.run([str(program)], check=False).returncode == 0
    emulator = shutil.which("qemu-x86_64")
    if emulator is not None:
        old = subprocess.run([emulator, "-cpu", "Nehalem", str(program)], check=False)
        assert old.returncode == 8  # EC_ERR_CPU


@pytest.mark.parametrize("core", LEVELS[:1], ids=lambda core: core.name)
def test_single_rounding_is_on_vectors(core, sample_model, tmp_path):
    path = sample_model(MODELS["kws"])
    board = replace(load_board("host"), core=core)
    compiled = compile_model(path, core, Options(match="litert"), board=board)
    called = {k for variant in compiled.chosen for k in kernels_of(variant.function)}
    assert any(k.startswith("ec_conv_single_s8_") for k in called)
    types = [(v.type.shape, v.type.dtype) for v in compiled.imported.main.inputs]
    cases = [generate_inputs(seed, types) for seed in (1, 2)]
    result = verify_model(path, board, Options(match="litert"), "host", cases, tmp_path)
    assert result.mismatches == 0, result.to_dict()["first_difference"]


def test_host_is_this_computer_with_all_that_it_has():
    assert load_board("host").core == load_board("native").core == native_core()
    assert native_core().isa == host_core().isa and is_this_computer(native_core())


#: Convolutions of floats, depthwise ones, and of int8 whose sums become floats.
PLAIN_SUMS = ("mlperf_ic_resnet8_f32", "mlperf_vww_mbv1_f32", "mlperf_kws_dscnn_f32")


@pytest.mark.parametrize("core", LEVELS, ids=lambda core: core.name)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.full] * ("vww" in n)) for n in PLAIN_SUMS]
)
def test_sums_on_vectors_have_the_bits_of_plain_loops(name, core, sample_model, tmp_path):
    path, outputs = sample_model(f"{name}.tflite"), []
    for number, level in enumerate((host_core(), core)):
        board = replace(load_board("host"), core=level)
        compiled = compile_model(path, level, Options(float_sums="ordered"), board=board)
        built = deploy(compiled, board, tmp_path / str(number))
        text = (built.project / f"{built.manifest.model}.c").read_text()
        assert (re.search(r"typedef float v\d", text) is not None) == (level is core)
        types = [(p.shape, p.dtype) for p in built.manifest.inputs]
        with open_session("host", built) as session:
            outputs.append(session.run(generate_inputs(1, types)).outputs[0])
    assert outputs[0].tobytes() == outputs[1].tobytes()
