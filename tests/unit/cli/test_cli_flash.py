"""`edgec flash` from a project folder to a chip, without hardware."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "runners" / "flash"))
from simulated_stm32 import SimulatedStm32, on_pty

from edgec.build.elf import read_elf

SECTORS = [16384] * 4 + [65536] + [131072] * 7


@pytest.fixture
def project(edgec: Callable, dense_model: Path, work: Path) -> Path:
    assert edgec("build", dense_model, "--board", "stm32", "-o", "out").status == 0
    return work / "out"


@pytest.fixture
def board_file(work: Path, repo_root: Path) -> Path:
    """The shipped board, but for a serial adapter without parity: a pseudo-terminal has none."""
    path = work / "netduinoplus2.toml"
    text = (repo_root / "boards" / "netduinoplus2.toml").read_text()
    path.write_text(text.replace('product_id = "0x413"', 'product_id = "0x413"\nparity = "none"'))
    return path


def test_flash_over_the_stm32_boot_loader(
    project: Path, board_file: Path, edgec: Callable, refused: Callable
) -> None:
    chip = SimulatedStm32(SECTORS)
    with on_pty(chip) as port:
        ran = edgec("flash", project, "--port", port, "--board", board_file, "--json")
    report = ran.json
    assert (report["runner"], report["verified"]) == ("stm32-uart", "read back and compared")
    vectors = read_elf(project / "build" / "firmware.elf").section(".vectors")
    assert vectors is not None
    assert chip.flash[: vectors.length] == vectors.content
    assert chip.started == 0x0800_0000
    assert report["bytes"] <= len(bytes(chip.flash).rstrip(b"\xff"))

    other = SimulatedStm32(SECTORS, product_id=0x421)
    with on_pty(other) as port:
        said = refused("flash", project, "--port", port, "--board", board_file)
    assert "has product ID 0x421, but netduinoplus2 has 0x413" in said
    assert set(other.flash) == {0xFF}


def test_adapter_without_parity_is_named(project: Path, refused: Callable) -> None:
    chip = SimulatedStm32(SECTORS)
    with on_pty(chip) as port:
        said = refused("flash", project, "--port", port, "--runner", "stm32-uart")
    assert "refuses 115200 baud or its parity" in said and 'parity = "none"' in said
    assert set(chip.flash) == {0xFF}


def test_port_that_goes_in_the_middle_is_named(
    project: Path, board_file: Path, refused: Callable
) -> None:
    """Pulled out after 20 writes: found blank at its start, so it was never half a program."""
    chip = SimulatedStm32(SECTORS)
    with on_pty(chip) as port:
        chip.unplug_after_writes = 20
        said = refused("flash", project, "--port", port, "--board", board_file)
    assert f"the serial port {port} is gone" in said and "was the board unplugged?" in said
    assert set(chip.flash[:256]) == {0xFF} and set(chip.flash[256:512]) != {0xFF}


def test_dry_run_shows_the_command_line(project: Path, edgec: Callable) -> None:
    if shutil.which("openocd") is None:
        pytest.skip("openocd is not installed (Debian package openocd)")
    said = edgec("flash", project, "--dry-run").out
    assert said == (
        "openocd -f board/stm32f4discovery.cfg "
        f"-c 'program {{{project}/build/firmware.elf}} verify reset exit'\n"
    )
    assert "no other program" in edgec("flash", project, "--port", "x", "--dry-run").out


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_stopped_flash_ends_what_its_tool_started(project: Path, work: Path) -> None:
    """A tool is often a script around the program that writes; that one went on."""
    folder, temporary = work.parent / "bin", work.parent / "tmp"
    folder.mkdir()
    script = f"#!/bin/sh\ntrap 'echo asked > {folder}/asked' TERM\nsleep 60 &\n"
    script += f"echo $! > {folder}/new; mv {folder}/new {folder}/its\nwait\n"
    (folder / "openocd").write_text(script)
    (folder / "openocd").chmod(0o755)
    paths = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(temporary)}
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    process = subprocess.Popen(
        [sys.executable, "-c", f"import signal; signal.signal({signal.SIGINT.value}, "
         "signal.default_int_handler); from edgec.cli.main import main; main()",
         "flash", str(project), "--runner", "openocd"],
        env={**os.environ, **paths}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while not (folder / "its").exists() and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, errors.strip()) == (128 + signal.SIGINT, "stopped")
    assert (folder / "asked").exists() and _goes((folder / "its").read_text().strip())
    assert not list(temporary.iterdir())
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def _goes(process: str) -> bool:
    """Whether a process ends soon: one that was killed takes a moment on a busy computer."""
    for _ in range(100):
        found = subprocess.run(
            ["ps", "-o", "stat=", "-p", process], capture_output=True, text=True, check=False
        )
        if found.stdout.strip()[:1] in ("", "Z"):
            return True
        time.sleep(0.1)
    return False


def test_flash_on_qemu(project: Path, edgec: Callable) -> None:
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    ran = edgec("flash", project, "--runner", "qemu")
    assert ran.status == 0 and "its self-test passed" in ran.out


def test_what_cannot_be_flashed(
    project: Path, dense_model: Path, edgec: Callable, refused: Callable, work: Path
) -> None:
    assert "is not flashed with esptool" in refused("flash", project, "--runner", "esptool")
    assert "there is no flashing tool 'x'" in refused("flash", project, "--runner", "x")
    absent = ("--port", work / "none", "--runner", "stm32-uart")
    assert "cannot open the serial port" in refused("flash", project, *absent)
    assert edgec("build", dense_model, "--board", "host", "-o", "here").status == 0
    assert "there is nothing to flash" in refused("flash", "here")
