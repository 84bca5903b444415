"""`edgec tune` from end to end on a small model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgec.tuned import read_tuned


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
    again = tmp_path / "all.json"
    ran = edgec("tune", "--merge", out, "--merge", out, "-o", again)
    assert ran.status == 0 and read_tuned(again) == read_tuned(out)


def test_what_cannot_be_measured_is_said(
    edgec: Callable[..., Any], dense_model: Path, tmp_path: Path
) -> None:
    ran = edgec("tune", dense_model, "--target", "rv32imc")
    assert ran.status == 1 and "the core simulator has no such core" in ran.err
    assert edgec("tune", dense_model).status == 2
    assert edgec("tune", "-o", tmp_path / "x").status == 2
    assert edgec("tune", dense_model, "--target", "cortex-m3", "--workers", "no").status == 2
