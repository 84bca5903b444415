"""`edgec monitor` on a pseudo-terminal."""

from __future__ import annotations

import json
import os
import threading
import tty
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.build.elf import read_elf
from edgec.codegen.manifest import Manifest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX's")


@pytest.fixture
def line():
    """A terminal on which bytes are said a moment after it has been opened."""
    master, slave = os.openpty()
    tty.setraw(slave)
    timers: list[threading.Timer] = []

    def say(data: bytes) -> str:
        timers.append(threading.Timer(0.3, os.write, (master, data)))
        timers[-1].start()
        return os.ttyname(slave)

    yield say
    for timer in timers:
        timer.join()
    os.close(master)
    os.close(slave)


def test_text_and_faults(line: Callable, edgec: Callable, dense_model: Path, work: Path) -> None:
    assert edgec("build", dense_model, "--board", "stm32", "-o", "out").status == 0
    model = Manifest.load(work / "out").model
    symbol = read_elf(work / "out" / "build" / "firmware.elf").symbol(f"{model}_run")
    assert symbol is not None
    fault = f"fault 00000003 pc {symbol.address + 4:08x} lr 00000000"
    port = line(b"hello\r\n" + fault.encode() + b"\r\n")
    ran = edgec("monitor", "out", "--port", port, "--seconds", "1.2")
    assert ran.status == 0 and f"{port} at 115200 baud" in ran.err
    assert ran.out.splitlines() == [
        "hello",
        fault,
        "[the program stopped by a HardFault]",
        f"[pc 0x{symbol.address + 4:08x} is in {model}_run + 4]",
        "[lr 0x00000000]",
    ]


def test_nobody_answers_hello(line: Callable, edgec: Callable) -> None:
    ran = edgec("monitor", "--port", line(b"Zephyr booted\r\n"), "--hello", "--seconds", "0.1",
                "--baud", "9600")  # fmt: skip
    assert "[no answer to hello: another program runs on the device" in ran.out


def test_port_that_is_not_there(refused: Callable, work: Path) -> None:
    assert "cannot open the serial port" in refused("monitor", "--port", work / "none")


def test_numbers_become_curves(line: Callable, edgec: Callable) -> None:
    port = line(b"booted\r\nrms=0.25 peak=4\r\nrms=0.75 peak=5\r\n")
    ran = edgec("monitor", "--port", port, "--plot", "--seconds", "1.2", "--baud", "115200")
    assert ran.status == 0
    first, rms, peak = ran.out.splitlines()
    assert first == "booted"
    assert rms.split() == ["rms", "▁█", "0.25", "0.75", "0.75"]
    assert peak.split() == ["peak", "▁█", "4", "5", "5"]


def test_json_is_a_line_for_each_line(line: Callable, edgec: Callable) -> None:
    port = line(b"booted\r\nrms=0.25 peak=4\r\n")
    ran = edgec("monitor", "--port", port, "--seconds", "1.2", "--json")
    assert ran.status == 0 and ran.err == ""
    first, second = map(json.loads, ran.out.splitlines())
    assert (first["text"], first["numbers"]) == ("booted", {})
    assert second["numbers"] == {"rms": 0.25, "peak": 4.0}
    assert 0 < first["seconds"] <= second["seconds"] < 1.2
    assert edgec("monitor", "--port", port, "--plot", "--json").status == 2
