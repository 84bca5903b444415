"""report.json and profile.json of a real build, and the command that reads them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner
from project_case import make_report

from edgec.boards.board import load_board
from edgec.cli.main import cli
from edgec.deploy.project import Built, deploy, deploy_library
from edgec.errors import BuildFailed
from edgec.pipeline import Compiled, compile_model
from edgec.report.html import render_page
from edgec.report.project import (
    PROFILE_NAME,
    REPORT_NAME,
    keep_profile,
    load_report,
    profile_project,
    write_report,
)
from edgec.report.ram_parts import ram_rows

MODEL = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.onnx"
needs_gcc = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None, reason="arm-none-eabi-gcc is not installed"
)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    board = load_board("stm32")
    return compile_model(MODEL, board.core, board_name=board.name)


@pytest.fixture(scope="module")
def built(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Built:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    out = tmp_path_factory.mktemp("report") / "project"
    return deploy(compiled, load_board("stm32"), out, traced=True, finish=write_report)


@pytest.fixture
def library(compiled: Compiled, tmp_path: Path) -> Path:
    """A project that can be changed; without an image, so it needs no compiler."""
    return deploy_library(compiled, tmp_path / "library", finish=write_report).project


def write(folder: Path, report: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / REPORT_NAME).write_text(json.dumps(report), encoding="utf-8")
    return folder


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(cli, ["report", *map(str, arguments)])


def test_figures_of_a_build_add_up(built: Built, compiled: Compiled) -> None:
    report = load_report(built.project)
    image = built.image
    assert image is not None
    assert report["flash_bytes"] == image.flash_bytes
    assert report["elf"] == "build/firmware.elf"
    parts = ("arena_bytes", "state_bytes", "variables_bytes", "stack_bytes")
    assert report["ram_bytes"] == sum(report[part] for part in parts)
    shown = {what: size for what, size, _ in ram_rows(report)}
    assert report["ram_bytes"] == shown.pop("RAM in all") == sum(shown.values())
    assert sum(layer["weights_bytes"] for layer in report["layers"]) <= report["weights_bytes"]
    assert sum(f["code_bytes"] for f in report["functions"]) <= report["code_bytes"]
    assert max(b["offset"] + b["bytes"] for b in report["buffers"]) == report["arena_bytes"]
    assert {b["kind"] for b in report["buffers"]} >= {"input", "activation", "output"}


def test_the_graph_has_a_row_for_every_step_in_order(built: Built) -> None:
    report = load_report(built.project)
    steps = [row["step"] for row in report["graph"] if row["step"] is not None]
    assert steps == list(range(len(report["layers"])))
    known: set[str] = set()
    for row in report["graph"]:
        assert set(row["inputs"]) <= known, "an input comes after its reader"
        known.add(row["output"])
    assert set(report["results"]) <= known


def test_holds_no_path_of_the_machine_and_is_reproducible(
    built: Built, compiled: Compiled, tmp_path: Path
) -> None:
    text = (built.project / REPORT_NAME).read_text("utf-8")
    for path in (str(built.project), str(MODEL.parent), os.path.expanduser("~") + os.sep):
        assert path not in text
    again = deploy(compiled, load_board("stm32"), tmp_path / "other", finish=write_report)
    assert (again.project / REPORT_NAME).read_text("utf-8") == text


def test_a_failure_to_write_it_leaves_no_project(compiled: Compiled, tmp_path: Path) -> None:
    def finish(compiled: Compiled, built: Built) -> None:
        write_report(compiled, built)
        raise BuildFailed("no")

    with pytest.raises(BuildFailed):
        deploy_library(compiled, tmp_path / "out", finish=finish)
    assert list(tmp_path.iterdir()) == []


def test_profile_runs_the_core_and_is_kept(built: Built) -> None:
    pytest.importorskip("unicorn")
    profile_project(built.project)
    report = load_report(built.project)
    profile = report["profile"]
    assert profile["engine"] == "core"
    steps = [layer["instructions"] for layer in profile["layers"]]
    assert len(steps) == len(report["layers"])
    assert 0.9 * profile["instructions"] < sum(steps) <= profile["instructions"] * 1.01
    page = render_page(report)
    assert f"{profile['instructions']:,}" in page


def test_a_profile_of_another_model_is_ignored(library: Path) -> None:
    report = load_report(library)
    assert report["profile"] is None
    profile = make_report()["profile"]
    assert len(profile["layers"]) != len(report["layers"])
    (library / PROFILE_NAME).write_text(json.dumps(profile), encoding="utf-8")
    assert load_report(library)["profile"] is None


def test_keeping_a_profile_never_fails_a_run(compiled: Compiled, tmp_path: Path) -> None:
    built = deploy_library(compiled, tmp_path / "library")
    shutil.rmtree(built.project)
    assert keep_profile(built, {"layers": []}) is False


@pytest.mark.parametrize(
    ("report", "word"),
    [
        ([], "not an object"),
        ({"format": 3}, "lacks"),
        (make_report(macs="many"), "macs"),
        (make_report(macs=True), "macs"),
        (make_report(buffers=[{"name": 1}]), "buffers"),
        (make_report(macs=10**400), "too large"),
        (make_report(results=[1]), "results"),
        (
            make_report(
                removed_channels=[
                    {
                        "value": "a",
                        "channels": 2,
                        "constant": {"x": 1},
                        "duplicate": {},
                        "unread": [],
                    }
                ]
            ),
            "no integers",
        ),
        (make_report(format=4), "format 4"),
    ],
)
def test_a_broken_report_is_refused_in_words(tmp_path: Path, report: Any, word: str) -> None:
    with pytest.raises(BuildFailed, match=word):
        load_report(write(tmp_path / "p", report))


def test_a_folder_without_a_report_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(BuildFailed, match=REPORT_NAME):
            load_report(folder)
    (tmp_path / REPORT_NAME).write_bytes(b"\xff{")
    with pytest.raises(BuildFailed, match="not readable"):
        load_report(tmp_path)


def test_command_writes_the_page(library: Path, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    result = invoke(library, "--html", page)
    assert result.exit_code == 0, result.output
    assert page.read_text("utf-8") == render_page(load_report(library))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["library", "out.html"]


def test_command_prints_one_object(library: Path, tmp_path: Path) -> None:
    old = write(tmp_path / "old", make_report())
    plain = json.loads(invoke(library, "--json").output)
    assert plain["layers"] and "diff" not in plain
    diff = json.loads(invoke(library, "--diff", old, "--json").output)["diff"]
    assert diff["old"]["model"] == "net"


def test_command_prints_tables(library: Path, tmp_path: Path) -> None:
    report = make_report()
    report["layers"][0]["name"] = "[red]weird[/nonsense]"
    plain = invoke(write(tmp_path / "p", report))
    assert plain.exit_code == 0 and "nonsense]" in plain.output and "12,345" not in plain.output
    diff = invoke(library, "--diff", tmp_path / "p")
    assert diff.exit_code == 0 and "model file: net.tflite before" in diff.output


def test_a_loop_of_two_results_is_reported(tmp_path: Path) -> None:
    """Of which the model needs one; it was a traceback."""
    text = """<ir_version: 9, opset_import: ["":17]> g (float[2] x) => (float[2] y)
        <int64 most = {2147483648}, bool goes = {1}> {
          y = Loop(most, goes, x) <body = step (int64 n, bool before, float[2] s) =>
            (bool after, float[2] t) { after = Identity(before) t = Sin(s) }>
        }"""
    path = tmp_path / "loop.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    board = load_board("host")
    made = compile_model(path, board.core, board_name=board.name)
    built = deploy_library(made, tmp_path / "out", finish=write_report)
    rows = load_report(built.project)["graph"]
    assert sorted(row["output"] for row in rows) == ["Loop#0", "Loop#0.1", "x", "y"]
