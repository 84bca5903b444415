"""`edgec tune` from end to end on a small model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgec.loop.tuned import read_tuned


def test_a_model_is_tuned_and_a_second_run_measures_nothing(
    edgec: Callable[..., Any], dense_model: Path, tmp_path: Path
) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    out = tmp_path / "m.tune.json"
    words = ("tune", dense_model, "--target", "cortex-m3", "--trials", "8", "-o", out)
    first = edgec(*words, "--json")
    assert first.status == 0, first.err
    assert first.json["core"] == "cortex-m3" and first.json["measured"] > 8
    for nest in first.json["nests"]:
        assert nest["best"]["instructions"] <= nest["default"]["instructions"]
    before = out.read_text()
    second = edgec(*words)
    assert second.status == 0 and "measured 0 candidates" in second.out
    assert out.read_text() == before
    page = tmp_path / "tuned.html"
    assert edgec(*words, "--html", page).status == 0
    text = page.read_text()
    assert text.count("<circle") == sum(n["tried"] for n in first.json["nests"] if n["tried"] > 1)
    assert "src=" not in text and "href=" not in text  # it needs nothing else
    again = tmp_path / "all.json"
    ran = edgec("tune", "--merge", out, "--merge", out, "-o", again)
    assert ran.status == 0 and read_tuned(again) == read_tuned(out)


def test_a_build_takes_the_file_beside_its_model(
    edgec: Callable[..., Any], add_model: Path, tmp_path: Path
) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    model = tmp_path / "add.tflite"
    model.write_bytes(add_model.read_bytes())
    tuned = edgec("tune", model, "--board", "mps2_an385", "--trials", "12", "--json").json
    better = [
        nest["name"]
        for nest in tuned["nests"]
        if nest["best"]["instructions"] < nest["default"]["instructions"]
    ]
    assert better, "choose a model that tuning makes faster"
    built = edgec("build", model, "--board", "mps2_an385", "-o", tmp_path / "out", "--json").json
    assert built["tuned"] == better and built["tuned_left_out"] == 0
    ran = edgec("run", tmp_path / "out", "--engine", "core", "--json").json
    plain = edgec("run", add_model, "--board", "mps2_an385", "--engine", "core", "--json").json
    assert ran["instructions"] < plain["instructions"]
    assert ran["output_fnv1a"] == plain["output_fnv1a"]
    other = edgec("build", model, "--board", "mps2_an386", "-o", tmp_path / "other")
    assert "left out: measured for another core" in other.out and "tuned:" not in other.out


def test_what_cannot_be_measured_is_said(
    edgec: Callable[..., Any], dense_model: Path, tmp_path: Path
) -> None:
    ran = edgec("tune", dense_model, "--target", "lx106")
    assert ran.status == 1 and "the core simulator has no such core" in ran.err
    assert edgec("tune", dense_model).status == 2
    assert edgec("tune", "-o", tmp_path / "x").status == 2
    assert edgec("tune", dense_model, "--target", "cortex-m3", "--workers", "no").status == 2
