"""Programs for 64-bit Arm: under qemu-aarch64 on other computers, their instructions counted."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgec.targets.core import CORES, is_this_computer

#: Where Debian's cross compiler has the libraries of that Linux.
SYSROOT = "/usr/aarch64-linux-gnu"
COUNTER = Path(__file__).parent / "count_instructions.c"


def emulator() -> list[str]:
    """The command that runs programs for 64-bit Arm with all its features; none on such a computer.

    Skips the test where the cross compiler or the emulator is not installed.
    """
    if is_this_computer(CORES["aarch64"]):
        return []
    if shutil.which("aarch64-linux-gnu-gcc") is None:
        pytest.skip("aarch64-linux-gnu-gcc is not installed (Debian package gcc-aarch64-linux-gnu)")
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed (Debian package qemu-user)")
    return ["qemu-aarch64", "-cpu", "max", "-L", SYSROOT]


def build_counter(folder: Path) -> Path:
    """QEMU's plugin that counts instructions; skips the test where QEMU takes none."""
    if not emulator():
        pytest.skip("instructions are counted by QEMU")
    plugin = folder / "count.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(COUNTER), "-o", str(plugin)], check=True)
    return plugin


def count_instructions(plugin: Path, program: Path, data: bytes) -> int:
    """All instructions of a run of a program on this input."""
    command: Sequence[str] = [*emulator(), "-plugin", str(plugin), str(program)]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    found = re.search(rb"instructions (\d+)", done.stderr)
    if found is None:
        pytest.skip("this QEMU counts no instructions")
    return int(found[1])
