"""`edgec new`: a main program of one's own, which builds use and never touch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from own_main import first_lines


@pytest.fixture
def project(edgec: Callable[..., Any], dense_model: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "my sensor"
    ran = edgec("new", folder, "--model", dense_model, "--board", "stm32", "--json")
    assert ran.status == 0, ran.err
    assert {path.name for path in folder.iterdir()} == set(ran.json["files"])
    return folder


def test_builds_use_it_and_leave_it_alone(edgec: Callable[..., Any], project: Path) -> None:
    """Edited, it is built again; its copy in the build is no file of the user's."""
    model, source = project / "dense.tflite", project / "main.c"
    first = source.read_bytes()
    assert edgec("build", model).status == 0
    elf = project / "build" / "build" / "firmware.elf"
    before = elf.read_bytes()
    source.write_bytes(first.replace(b'say("class=");', b'say("gesture ");'))
    assert edgec("build", model).status == 0
    assert elf.read_bytes() != before and b"gesture " in elf.read_bytes()
    assert source.read_bytes() == first.replace(b'say("class=");', b'say("gesture ");')
    names = {path.name for path in project.iterdir()}
    assert names == {"main.c", "README.md", "edgec.toml", ".gitignore", "dense.tflite", "build"}


def test_it_runs_on_the_simulated_core_and_serves_no_link(
    edgec: Callable[..., Any], project: Path
) -> None:
    assert edgec("build", project / "dense.tflite").status == 0
    ran = edgec("run", project / "build", "--engine", "core", "--json")
    assert ran.status == 0 and ran.json["instructions"] > 0
    if shutil.which("qemu-system-arm") is not None:
        ran = edgec("run", project / "build", "--engine", "qemu")
        assert ran.status == 1 and "is your own, and serves no link" in ran.err


@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="QEMU is not installed")
def test_it_speaks_on_the_emulated_board(edgec: Callable[..., Any], project: Path) -> None:
    assert edgec("build", project / "dense.tflite").status == 0
    lines = first_lines(project / "build" / "build" / "firmware.elf", "stm32", 2)
    assert all(line.startswith(b"class=") and b" ticks=" in line for line in lines)


def test_what_it_refuses(
    edgec: Callable[..., Any], project: Path, dense_model: Path, tmp_path: Path
) -> None:
    again = edgec("new", project, "--model", dense_model, "--board", "stm32")
    assert again.status == 1 and "exists already" in again.err
    host = edgec("new", tmp_path / "pc", "--model", dense_model, "--board", "host")
    assert host.status == 1 and "a board with a microcontroller" in host.err
    assert not (tmp_path / "pc").exists()


def test_a_main_program_that_cannot_be_built(
    edgec: Callable[..., Any], project: Path, tmp_path: Path
) -> None:
    model = project / "dense.tflite"
    (project / "main.c").write_text("int main(void) { return nothing; }\n")
    ran = edgec("build", model)
    assert ran.status == 1 and "nothing" in ran.err and not (project / "build").exists()
    (project / "main.c").unlink()
    ran = edgec("build", model)
    assert ran.status == 1 and "cannot read the main program" in ran.err
    ran = edgec("build", model, "--main", "other.c", "--target", "cortex-m4", "-o", tmp_path / "o")
    assert ran.status == 2 and "--main needs --board" in ran.err


def test_the_only_model_of_the_folder_needs_no_name(
    edgec: Callable[..., Any], dense_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    none = edgec("new", "sensor", "--board", "stm32")
    assert none.status == 1 and "this folder has none" in none.err and "--model" in none.err
    shutil.copy(dense_model, "one.tflite")
    assert edgec("new", "sensor", "--board", "stm32").status == 0
    assert Path("sensor", "one.tflite").read_bytes() == dense_model.read_bytes()
    shutil.copy(dense_model, "two.tflite")
    several = edgec("new", "other", "--board", "stm32")
    assert several.status == 1 and "one.tflite" in several.err and "two.tflite" in several.err
    assert not Path("other").exists()
