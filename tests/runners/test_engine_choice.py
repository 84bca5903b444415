"""Choosing engines, and what all of them share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.boards.board import load_board
from edgec.deploy.project import Built
from edgec.errors import RunFailed, ToolMissing
from edgec.runners import emulator
from edgec.runners.engine import (
    STATUS_NAMES,
    Traced,
    collect_traces,
    default_engine,
    open_session,
    require_engine,
)

REPO = Path(__file__).resolve().parents[2]


def test_status_names_are_those_of_the_header() -> None:
    text = (REPO / "runtime_c/include/edgec/ec_status.h").read_text()
    found = {int(value): name for name, value in re.findall(r"(EC_\w+) = (-?\d+)", text)}
    assert found == dict(STATUS_NAMES)


def test_default_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated, real = load_board("stm32"), load_board("nucleo_f446re")
    monkeypatch.setattr(emulator.shutil, "which", lambda program: f"/bin/{program}")
    assert default_engine(load_board("host")) == "host"
    assert default_engine(None) == "host"
    assert default_engine(emulated) == "qemu"
    assert default_engine(real) == "core"
    assert default_engine(emulated, "/dev/ttyACM0") == "serial"
    monkeypatch.setattr(emulator.shutil, "which", lambda program: None)
    assert default_engine(emulated) == "core"


def test_boards_that_an_engine_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, real = load_board("qemu_riscv32_v"), load_board("esp32c3_devkitm")
    assert (default_engine(vectors), default_engine(real)) == ("qemu", "core")
    with pytest.raises(RunFailed, match="does not simulate the rv32imc_zve32x") as caught:
        require_engine("core", vectors)
    assert caught.value.hint == "use --engine qemu, or a real board"
    with pytest.raises(RunFailed, match="QEMU does not emulate esp32c3_devkitm") as caught:
        require_engine("qemu", real)
    assert caught.value.hint == "use --engine core, or a real board"
    monkeypatch.setattr(emulator.shutil, "which", lambda program: None)
    with pytest.raises(ToolMissing, match="qemu-system-riscv32 is not installed"):
        require_engine("qemu", vectors)


def test_engines_that_do_not_fit_are_named(digits: Callable[..., Built]) -> None:
    with pytest.raises(RunFailed, match="the core engine cannot run a project built for host"):
        open_session("core", digits("host"))
    with pytest.raises(RunFailed, match="the host engine cannot run a project built for mps2"):
        open_session("host", digits("mps2_an386"))
    with pytest.raises(RunFailed, match="no engine is called 'renode'"):
        open_session("renode", digits("host"))


def test_costs_of_steps_are_differences(digits: Callable[..., Built]) -> None:
    manifest = digits("host").manifest
    manifest = replace(manifest, steps=manifest.steps[:3], parts=(), traces=())
    events = [
        Traced(0, 0, b"", 100),
        Traced(3, 0, b"ab", 100),
        Traced(3, 1, b"c", 110),  # a row that came later, within the next step
        Traced(1, 0, b"", 150),
        Traced(2, 0, b"", 151),
    ]
    traces, steps = collect_traces(manifest, events)
    assert steps == [100, 50, 1]
    assert traces[3].tobytes() == b"abc"
    assert traces[3].dtype == np.uint8
