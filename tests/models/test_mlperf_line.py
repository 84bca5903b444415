"""The MLPerf Tiny firmware as a stranger's host sees it: every byte of the line, through pyserial.

This client shares nothing with `edgec.runners.mlperf_tiny`; it is stricter than a host need be.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import serial
from built_models import MODELS

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.qemu import QemuProcess

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX's")
#: An emulator on a busy computer is slower than a board.
SLOW = 12


class Host:
    def __init__(self, port: str) -> None:
        self.port = serial.Serial(port, 115200, 8, "N", 1, timeout=0.05)
        self.heard = ""

    def lines(self, seconds: float) -> list[str]:
        """Up to "m-ready"; every byte is text, every line ends with CR LF, nothing comes after."""
        end = time.monotonic() + seconds * SLOW
        while not self.heard.endswith("m-ready\r\n"):
            assert time.monotonic() < end, repr(self.heard)
            data = self.port.read(max(1, self.port.in_waiting))
            assert all(32 <= byte < 127 or byte in b"\r\n" for byte in data), data
            self.heard += data.decode("ascii")
        said, self.heard = self.heard, ""
        lines = said.split("\r\n")
        assert lines.pop() == "" and not any("\n" in line or "\r" in line for line in lines)
        assert lines.pop() == "m-ready" and "m-ready" not in said[:-9]
        return lines

    def ask(self, command: str, seconds: float = 5.0) -> list[str]:
        self.port.write(command.encode("latin-1") + b"%")
        return self.lines(seconds)


@pytest.fixture
def host(sample_model: Callable[[str], Path], tmp_path: Path) -> Iterator[Host]:
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    board = load_board("mps2_an386")
    options = Options(io="caller", harness="mlperf-tiny")
    compiled = compile_model(sample_model(MODELS["kws"]), board.core, options, board=board)
    built = deploy(compiled, board, tmp_path / "project")
    assert built.artefact is not None
    with QemuProcess(board, built.artefact, uart="pty") as process:
        assert process.transport is not None
        name = process.transport.name
        process.transport.close()
        found = Host(name)
        # The board started before anybody listened, and may have lost what it was told: come into
        # step by a word of each try's own, whose answer is the last that is due.
        for number in range(20):
            found.port.write(b"step%d%%" % number)
            answer = f"e-[Unknown command: step{number}]\r\nm-ready\r\n"
            end = time.monotonic() + SLOW
            while not found.heard.endswith(answer) and time.monotonic() < end:
                found.heard += found.port.read(4096).decode("ascii")
            if found.heard.endswith(answer):
                break
        found.heard = ""
        yield found
        found.port.close()


def test_words_of_a_benchmark(host: Host, shared_dir: Path) -> None:
    assert host.ask("name") == ["m-name-dut-[edgec]"]
    assert host.ask("profile") == ["m-profile-[ULPMark for tinyML Firmware V0.0.1]",
                                   "m-model-[kws01]"]  # fmt: skip
    (stamp,) = host.ask("timestamp")
    assert re.fullmatch(r"m-lap-us-\d+", stamp)
    assert host.ask("help")
    data = np.load(shared_dir / "data" / "mlperf_kws01_dev500_int8.npz")
    right = 0
    for x, y in zip(data["x"][:5], data["y"][:5], strict=True):
        sent = x.tobytes()
        assert host.ask("db load 490") == ["m-[Expecting 490 bytes]"]
        for at in range(0, 490, 31):
            done = ["m-load-done"] if at + 31 >= 490 else []
            assert host.ask("db " + sent[at : at + 31].hex()) == done
        said = host.ask("infer 1 0", 30.0)
        assert said[:3] == ["m-warmup-start-0", "m-warmup-done", "m-infer-start-1"]
        before, after = (int(re.fullmatch(r"m-lap-us-(\d+)", line)[1]) for line in said[3:5])
        assert 0 < after - before < 1_000_000
        assert said[5] == "m-infer-done" and len(said) == 7
        values = re.fullmatch(r"m-results-\[(\d\.\d{3}(?:,\d\.\d{3}){11})\]", said[6])[1]
        right += int(np.argmax([float(v) for v in values.split(",")])) == y
        assert host.ask("results") == [said[6]]
    assert right >= 4  # of five; of the whole set nine of ten
    printed = host.ask("db print")
    assert len(printed) == 62 and printed[0] == "m-buffer-" + sent[:8].hex("-")
    assert printed[-1] == "m-buffer-" + sent[488:].hex("-")


def test_what_no_host_should_say(host: Host) -> None:
    """Errors are lines of text; the next command is understood."""
    wrong = ["db load", "db load 0", "db load 491", "db load 99999999999", "db load x", "db",
             "db 123", "db xy", "db \xe9\xff", "infer 0", "infer -1 5", "infer 1 -1", "infer x",
             "", " ", "Name", "names", "\tname", "foo\x80\xffbar", "x" * 81, "y" * 999]  # fmt: skip
    for command in wrong:
        (line,) = host.ask(command)
        assert re.fullmatch(r"e-\[.*\]", line), command
        assert host.ask("name") == ["m-name-dut-[edgec]"]
    for command in ("  name", "name ", "\r\nname\r\n", "\0name"):
        assert host.ask(command) == ["m-name-dut-[edgec]"]
