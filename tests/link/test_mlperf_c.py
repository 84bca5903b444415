"""The device's end of the MLPerf Tiny protocol, word by word."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from link_devices import HERE, RUNTIME

from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_program
from edgec.targets.core import find_core

READY = "m-ready"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("mlperf"))


def build(folder: Path, *defines: str) -> Path:
    toolchain = find_toolchain(find_core("host"))
    return build_host_program(
        [RUNTIME / "mlperf" / "ec_mlperf.c", HERE / "fake_mlperf.c", HERE / "port_stdio.c"],
        folder / "device",
        toolchain=toolchain,
        include_dirs=[HERE, RUNTIME / "mlperf", RUNTIME / "ports", RUNTIME / "link"],
        defines=["_POSIX_C_SOURCE=200809L", *defines],
        sanitize=("address", "undefined") if toolchain.family == "gcc" else ("undefined",),
    )


@pytest.fixture
def say(program: Path):
    """Sends text to a new device; returns the lines of each answer, the start's first."""

    def talk(text: str) -> list[list[str]]:
        done = subprocess.run(
            [program], input=text.encode("latin-1"), capture_output=True, timeout=60, check=False
        )
        assert not done.stderr, done.stderr.decode()
        said = done.stdout.decode("ascii")
        assert said.count("\n") == said.count("\r\n")
        answers: list[list[str]] = [[]]
        for line in said.split("\r\n")[:-1]:
            if line == READY:
                answers.append([])
            else:
                answers[-1].append(line)
        assert answers.pop() == []
        return answers

    return talk


def laps(lines: list[str]) -> list[str]:
    """The lines with every time replaced."""
    return ["m-lap-us-N" if line.startswith("m-lap-us-") else line for line in lines]


def test_start_and_words(say) -> None:
    start, name, profile, stamp, helped, empty = say("name%profile%timestamp%help%%")
    assert laps(start) == ["m-timestamp-mode-performance", "m-lap-us-N", "m-init-done"]
    assert name == ["m-name-dut-[edgec]"]
    assert profile == ["m-profile-[ULPMark for tinyML Firmware V0.0.1]", "m-model-[fake01]"]
    assert laps(stamp) == ["m-lap-us-N"]
    assert len(helped) > 5
    assert empty == ["e-[Unknown command: ]"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("nonsense", "e-[Unknown command: nonsense]"),
        ("names x", "e-[Unknown command: names]"),
        ("db load", "e-[Command 'db load' requires the # of bytes]"),
        ("db load 0", "e-[Command 'db load' must be >0 bytes]"),
        ("db load -3", "e-[Command 'db load' must be >0 bytes]"),
        ("db load 65", "e-[Command 'db load' is too large: the buffer has 64 bytes]"),
        ("db load 9999999999999", "e-[Command 'db load' is too large: the buffer has 64 bytes]"),
        ("db load 64", "m-[Expecting 64 bytes]"),
        ("db", "e-[Command 'db' requires 'load', 'print' or hex digits]"),
        ("db 0g", "e-[Invalid hex digit '0g']"),
        ("db 123", "e-[Insufficent number of hex digits]"),
        ("infer 0", "e-[Inference iterations must be >0]"),
        ("infer -1 2", "e-[Inference iterations must be >0]"),
        ("infer 1 -1", "e-[Inference warmup must be >=0]"),
        # Hosts stop at what is no text; a zero byte is a line that is powered up.
        ("na\tme\x80\xff", "e-[Unknown command: na?me??]"),
        ("db 0\xe9", "e-[Invalid hex digit '0?']"),
        ("\0\0name", "m-name-dut-[edgec]"),
        ("x" * 80, "e-[Unknown command: " + "x" * 80 + "]"),
        ("x" * 81, "e-[Command is longer than 80 characters]"),
        ("y" * 500, "e-[Command is longer than 80 characters]"),
    ],
)
def test_one_command(say, command: str, answer: str) -> None:
    # The command after it is understood: nothing is left of a wrong one.
    assert say(f"{command}%name%")[1:] == [[answer], ["m-name-dut-[edgec]"]]


def test_energy_mode_pulses_instead_of_telling_the_time(tmp_path: Path) -> None:
    program = build(tmp_path, "EC_MLPERF_ENERGY")
    done = subprocess.run(
        [program], input=b"infer 1 0%timestamp%", capture_output=True, timeout=60, check=True
    )
    text = done.stdout.decode()
    assert text.startswith("m-timestamp-mode-energy\r\n^m-init-done\r\nm-ready\r\n")
    assert "m-infer-start-1\r\n^^m-infer-done\r\n" in text
    assert text.endswith("m-ready\r\n^m-ready\r\n") and "m-lap" not in text


def test_loading(say) -> None:
    answers = say("db load 10%db 0001020304%db fFfE%\r\ndb 070809aabbcc%db 11%db print%")[1:]
    assert answers == [
        ["m-[Expecting 10 bytes]"],
        [],
        [],
        ["m-load-done"],
        [],
        ["m-buffer-00-01-02-03-04-ff-fe-07", "m-buffer-08-09"],
    ]
    assert say("db aabb%db print%")[1:] == [[], []]  # nothing was announced


def floats(values) -> str:
    data = struct.pack(f"<{len(values)}f", *values).ljust(64, b"\0")
    parts = [data[at : at + 31].hex() for at in range(0, 64, 31)]
    return "db load 64%" + "".join(f"db {part}%" for part in parts)


def test_inference(say) -> None:
    answers = say(floats([0.5, -2.25]) + "infer 3 2%infer%results%")[5:]
    assert laps(answers[0]) == [
        "m-warmup-start-2",
        "m-warmup-done",
        "m-infer-start-3",
        "m-lap-us-N",
        "m-lap-us-N",
        "m-infer-done",
        "m-results-[0.500,-2.250," + "0.000," * 13 + "5.000]",
    ]
    assert laps(answers[1])[:3] == ["m-warmup-start-10", "m-warmup-done", "m-infer-start-1"]
    assert answers[2] == ["m-results-[0.500,-2.250," + "0.000," * 13 + "16.000]"]
    first, second = (int(line.rpartition("-")[2]) for line in answers[0][3:5])
    assert second >= first
    failed = say(floats([99.0]) + "infer 2 0%")[-1]
    assert failed[-1] == "e-[Inference failed: -7]"


def test_numbers_are_those_of_printf(say) -> None:
    random = np.random.default_rng(3)
    values = np.concatenate(
        [
            random.normal(size=200).astype(np.float32),
            np.arange(200, dtype=np.float32) / 16 - 6,  # ties: 0.0625, 0.1875, ...
            random.integers(0, 2**32, 400, dtype=np.uint32).view(np.float32),
            np.array(
                [0.0, -0.0, 1e-45, 0.0005, 0.9995, 999.9995, 2.0**23, 2.0**24 + 2, 2.0**39],
                np.float32,
            ),
        ]
    )
    values = values[np.isfinite(values) & (abs(values) < 2.0**40)]
    text, expected = "", []
    for at in range(0, len(values), 15):
        part = values[at : at + 15].copy()
        part[0] = 0.125 if abs(part[0] - 99) < 1 else part[0]
        text += floats(part) + "infer 1 0%"
        expected.append(",".join(f"{float(x):.3f}" for x in np.resize(part, len(part))))
    found = [lines[-1] for lines in say(text) if lines and lines[-1].startswith("m-results-[")]
    assert len(found) == len(expected)
    for got, want in zip(found, expected, strict=True):
        assert got.removeprefix("m-results-[").startswith(want), (got, want)
    special = say(floats([float("nan"), float("inf"), float("-inf"), 1e30]) + "infer 1 0%")[-1][-1]
    assert special.startswith("m-results-[nan,inf,-inf,inf,")
