"""`edgec explore` of a small model, in processes of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec.boards.board import load_board
from edgec.cli.arguments import PIXELS
from edgec.cli.explore import LEVELS
from edgec.deploy import explore
from edgec.errors import RunFailed
from edgec.frontends import import_model
from edgec.options import Options


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """One float layer of 320 KB: too much for a micro:bit."""
    weights = np.random.default_rng(1).normal(size=(2000, 40)).astype(np.float32)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2000))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 40))
    node = helper.make_node("Gemm", ["x", "w"], ["y"], name="dense")
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weights, "w")])
    path = tmp_path / "dense.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    )
    return path


def test_points_and_page(edgec: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = edgec(
        "explore", model, "--board", "stm32", "--board", "bbc_microbit", "--optimize", "size",
        "--optimize", "time", "--optimize", "size", "--html", page, "--json",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    points = ran.json["points"]
    assert [(point["board"], point["optimize"]) for point in points] == [
        ("netduinoplus2", "size"), ("netduinoplus2", "time"),
        ("bbc_microbit", "size"), ("bbc_microbit", "time"),
    ]  # fmt: skip
    fast, _, small, _ = points
    assert fast["fits"] and fast["source"] == "counted" and fast["instructions"] > 2000 * 40
    assert fast["flash_bytes"] > 2000 * 40 * 4
    assert not small["fits"] and small["error"].startswith("flash is ")
    assert small["over"]["flash"] > 0 and small["advice"] == "no build fits this board"
    assert "bbc_microbit" in page.read_text("utf-8")


def test_a_run_that_fails_is_a_row_of_its_own(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> None:
        raise RunFailed("the simulator did not answer")

    monkeypatch.setattr(explore, "open_session", silent)
    job = explore.Job(import_model(model), "as it is", load_board("stm32"), Options())
    point = explore.measure(job)
    assert point.error == "the simulator did not answer" and point.instructions is None


def test_help_says_what_is_built_by_default(edgec: Callable[..., Any]) -> None:
    told = " ".join(edgec("explore", "--help").out.split())
    assert "default: every microcontroller board" in told
    assert "default: {}, {} and {}".format(*LEVELS) in told


def test_a_board_that_is_no_microcontroller(edgec: Callable[..., Any], model: Path) -> None:
    ran = edgec("explore", model, "--board", "host")
    assert ran.status == 1
    assert "this computer has no limits" in ran.err


def test_every_form_of_a_float_model(
    edgec: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    samples = tmp_path / "x.npy"
    np.save(samples, np.random.default_rng(2).normal(size=(8, 1, 2000)).astype(np.float32))
    ran = edgec(
        "explore", model, "--board", "stm32", "--optimize", "size", "--calibration", samples,
        "--json",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    points = {point["form"]: point for point in ran.json["points"]}
    assert list(points) == ["as it is", *explore.FORMS]
    assert all(point["fits"] for point in points.values())
    flash = {form: point["flash_bytes"] for form, point in points.items()}
    assert flash["int4"] < flash["int8"] - 30_000 < flash["as it is"] - 200_000
    decibels = {form: point["sqnr_db"] for form, point in points.items()}
    assert decibels["as it is"] is None
    assert 10 < decibels["int4"] < decibels["int8"] < decibels["int16"]
    assert edgec("explore", model, "--form", "int4").status == 2


def test_the_word_for_pixels_is_what_was_read() -> None:
    for word in ("-1:1", "0:255", "mean=0.485,0.456,0.406:std=0.229,0.224,0.225"):
        assert PIXELS.word(PIXELS.read(word)) == word
