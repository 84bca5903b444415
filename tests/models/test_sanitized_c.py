"""The C of every operator family under ASan and UBSan: extreme inputs, the reference's bits."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from measure_models import TABLE, options_of
from measured_table import read_table
from operator_models import MODELS
from sanitized import build_sanitized, cases, check_sanitized, run_sanitized, write_sources

from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import find_core

FAULTS = (
    ("m.h", r"ARENA_BYTES \d+u", "ARENA_BYTES 64u", "heap-buffer-overflow"),
    ("m.c", r"(ec_status m_run\([^{]*\{)", r"\1 volatile int32_t far = INT32_MAX; far = far + 1;",
     "signed integer overflow"),
)  # fmt: skip
WAYS = {"unfused": Options(unfused=True), "ram": Options(optimize="ram")}
#: Samples beyond this take minutes for a case under the sanitizers.
MOST_MACS = 20_000_000
SAMPLES = [
    name for name, entry in read_table(TABLE).items() if entry.get("macs", MOST_MACS) < MOST_MACS
]


def needs_gcc() -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")


@pytest.mark.parametrize("name", MODELS)
def test_operators(name: str, tmp_path: Path) -> None:
    needs_gcc()
    compiled = compile_model(MODELS[name](tmp_path), find_core("host"))
    assert check_sanitized(compiled, tmp_path) >= 8


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", ["network_qdq", "network_int16", "network_dynamic_range"])
def test_networks_compiled_otherwise(name: str, options: Options, tmp_path: Path) -> None:
    needs_gcc()
    check_sanitized(compile_model(MODELS[name](tmp_path), find_core("host"), options), tmp_path)


def test_schedules_of_small_cores(tmp_path: Path) -> None:
    """The loops of a Cortex-M0 and M4, without their instructions, run on the host as well."""
    needs_gcc()
    for core in ("cortex-m0", "cortex-m3"):
        for name in ("network_qdq", "conv2d", "depthwise_conv2d"):
            folder = tmp_path / f"{core}_{name}"
            folder.mkdir()
            check_sanitized(compile_model(MODELS[name](folder), find_core(core)), folder)


def test_a_fault_is_found(tmp_path: Path) -> None:
    """An arena that is smaller than the model needs, and a sum that overflows."""
    needs_gcc()
    compiled = compile_model(MODELS["network_qdq"](tmp_path), find_core("host"))
    for number, (file, before, after, words) in enumerate(FAULTS):
        project = tmp_path / f"project{number}"
        manifest = write_sources(compiled, project)
        path = project / file
        text = path.read_text()
        changed = re.sub(before, after, text)
        assert changed != text
        path.write_text(changed)
        program = build_sanitized(project, manifest)
        with pytest.raises(AssertionError, match=words):
            run_sanitized(program, manifest, cases(manifest.inputs, 1))


@pytest.mark.full
@pytest.mark.parametrize("name", SAMPLES)
def test_sample_models(name: str, sample_model: Callable[[str], Path], tmp_path: Path) -> None:
    needs_gcc()
    compiled = compile_model(sample_model(name), find_core("host"), options_of(name))
    assert check_sanitized(compiled, tmp_path, (1, 2)) > 10
