"""`edgec watch`: a build after each change, what changed, and errors that do not end it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgec.report.project_text import print_changes


@pytest.fixture
def model(dense_model: Path, tmp_path: Path) -> Path:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model.read_bytes())
    return path


def while_waiting(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> None:
    """Each pause makes the next change; after the last, Ctrl-C."""
    waiting = iter(changes)

    def sleep(_: float) -> None:
        change = next(waiting, None)
        if change is None:
            raise KeyboardInterrupt
        change()

    monkeypatch.setattr("edgec.cli.watch.sleep", sleep)


def test_changes_are_built_and_shown(
    edgec: Callable[..., Any], model: Path, add_model: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    good = model.read_bytes()
    while_waiting(
        monkeypatch,
        lambda: model.write_bytes(good[:50]),
        lambda: model.write_bytes(add_model.read_bytes()),
        lambda: (tmp_path / "edgec.toml").write_text('[build]\nname = "other"\n'),
        lambda: os.utime(model),
    )
    ran = edgec("watch", model, "--board", "host", "-o", tmp_path / "out")
    assert ran.status == 130
    assert ran.out.count("watching") == 5
    first, _, third, fourth, fifth = ran.out.split("watching")[:5]
    assert "project:" in first and "project:" not in third
    assert "100.0 %" in third  # no product is left
    assert " state " not in third  # of which there was none before, either
    assert "nothing changed" in fifth
    assert "dense" in fourth and (tmp_path / "out" / "other.c").is_file()
    assert "may be truncated" in ran.err


def test_a_fault_in_the_options_beside_the_model_does_not_end_it(
    edgec: Callable[..., Any], model: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    config = tmp_path / "edgec.toml"
    while_waiting(
        monkeypatch,
        lambda: config.write_text('[build]\nname = "oth'),  # an editor writes it in two parts
        lambda: config.write_text('[build]\nmax-ram = "much"\n'),
        lambda: config.write_text('[build]\nname = "other"\n'),
    )
    ran = edgec("watch", model, "--board", "host", "-o", tmp_path / "out")
    assert ran.status == 130 and ran.out.count("watching") == 4
    assert "edgec.toml cannot be read" in ran.err and "'much' is not a size" in ran.err
    assert (tmp_path / "out" / "other.c").is_file()


def test_what_it_refuses(edgec: Callable[..., Any], model: Path) -> None:
    assert edgec("watch").status == 2
    assert edgec("watch", model, "--nonsense").status == 2


def test_json_is_a_line_for_each_build(
    edgec: Callable[..., Any], model: Path, add_model: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    good = model.read_bytes()
    while_waiting(
        monkeypatch,
        lambda: model.write_bytes(good[:50]),
        lambda: model.write_bytes(add_model.read_bytes()),
    )
    ran = edgec("watch", model, "--board", "host", "-o", tmp_path / "out", "--json")
    assert ran.status == 130
    first, second = map(json.loads, ran.out.splitlines())
    assert first["report"]["macs"] == 8 * 16 + 16 * 4 and first["changes"] is None
    (row,) = [
        r for r in second["changes"]["figures"] if r["name"] == "multiply-accumulates executed"
    ]
    assert (row["before"], row["after"]) == (192, 0) and second["report"]["macs"] == 0
    failed, stopped = filter(None, ran.err.splitlines())
    assert "may be truncated" in json.loads(failed)["error"]["hint"] and stopped == "stopped"


def test_only_layers_that_changed_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def layer(name: str, **figures: tuple[int | None, int | None]) -> dict[str, Any]:
        sides = {"instructions": (None, None), "macs": (16, 16), "weights_bytes": (64, 64)}
        rows = {
            key: dict(zip(("before", "after"), each, strict=True))
            for key, each in (sides | figures).items()
        }
        for row in rows.values():
            known = None not in row.values()
            row["delta"] = row["after"] - row["before"] if known else None  # type: ignore[operator]
        return {"name": name, **rows}

    diff = {"notes": [], "figures": [], "functions": []}
    print_changes({**diff, "layers": [layer("first"), layer("second", weights_bytes=(64, 256))]})
    shown = capsys.readouterr().out
    assert "weights bytes by layer" in shown and "second" in shown and "first" not in shown
    print_changes({**diff, "layers": [layer("first", macs=(8, 16)), layer("second")]})
    shown = capsys.readouterr().out
    assert "macs by layer" in shown and "first" in shown and "second" not in shown
    print_changes({**diff, "layers": [layer("first")]})
    assert capsys.readouterr().out.strip() == "nothing changed"
