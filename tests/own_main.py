"""Firmware projects of `edgec new`: their main.c changed as a page says, and what they say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from edgec.boards.board import load_board
from edgec.runners.emulator import find_emulator


def blocks(page: Path, language: str) -> list[str]:
    """The fenced code of a language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def edit_main(file: Path, functions: str) -> None:
    """Put functions in the place of the two of `edgec new` that are to be replaced."""
    old = r"/\* Fill the model's input: replace.*?(?=^int main)"
    text, count = re.subn(old, lambda _: functions, file.read_text(), flags=re.M | re.S)
    assert count == 1
    file.write_text(text)


def first_lines(elf: Path, board_name: str, count: int) -> list[bytes]:
    """What firmware says first on an emulated board."""
    board = load_board(board_name)
    assert board.qemu is not None
    ports = ["null"] * board.qemu.serial_index + ["stdio"]
    command = [
        find_emulator(board), "-M", board.qemu.machine, "-nographic", "-monitor", "none",
        "-icount", "shift=0", "-kernel", str(elf),
        *(word for port in ports for word in ("-serial", port)),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE) as emulator:
        try:
            assert emulator.stdout is not None
            return [emulator.stdout.readline() for _ in range(count)]
        finally:
            emulator.kill()
