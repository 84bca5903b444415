"""What a terminal shows while a command works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgec.cli.progress import count_bar, working


def test_what_how_much_and_for_how_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with working("compiling a\x1bnet", quiet=False) as told:
        pass
    shown = capsys.readouterr().err
    assert "compiling a\\x1bnet" in shown and "0:00:0" in shown
    with working("compiling", quiet=False) as told:
        told.tell("cases on core", 3, 10)
        told.move("x", 10, 100)  # a short transfer changes nothing
    assert "3 of 10" in capsys.readouterr().err
    with working("compiling", quiet=False) as told:
        told.move("weights", 5000, 10000)
    assert "weights (bytes)" in (shown := capsys.readouterr().err) and "5,000 of 10,000" in shown
    with working("compiling", quiet=True) as told:
        told.tell("cases", 1, 2)
    assert capsys.readouterr().err == ""


def test_run_and_verify_say_what_they_do(
    monkeypatch: pytest.MonkeyPatch, dense_model: Path, edgec: Callable[..., Any], work: Path
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    ran = edgec("run", dense_model, "--steps", 3)
    assert ran.status == 0 and "running on host" in ran.err and "running" not in ran.out
    ran = edgec("verify", dense_model)
    assert ran.status == 0 and "of 4" in ran.err
    assert ran.out.endswith("\n") and not ran.out.endswith("\n\n")
    assert edgec("verify", dense_model, "--json").err == ""


def test_an_absent_model_before_an_engine_that_does_not_fit(
    refused: Callable[..., str], work: Path
) -> None:
    for command in ("run", "verify"):
        assert "cannot read absent" in refused(command, "absent", "--engine", "qemu")


def test_what_is_counted_is_timed_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with count_bar("measuring", 3, quiet=False) as step:
        step()
    shown = capsys.readouterr().err
    assert "measuring" in shown and "1 of 3" in shown and "0:00:0" in shown
