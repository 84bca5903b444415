"""`--target A,B`: one library for several processors of a kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgec.targets.core import CORES, is_this_computer

NAMES = "x86-64-v2,x86-64-v3"


def test_a_library_of_levels_is_one_project(
    edgec: Callable[..., Any], dense_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ran = edgec("build", dense_model, "--target", NAMES, "-o", out, "--json")
    assert ran.status == 0, ran.err
    names = {path.name for path in out.iterdir()}
    assert {"dense.c", "dense.h", "dense_x86_64_v2.c", "dense_x86_64_v3.c"} <= names
    assert edgec("build", dense_model, "--target", NAMES, "-o", out).status == 0  # it owns all


@pytest.mark.skipif(
    not is_this_computer(CORES["x86-64-v2"]), reason="this computer is no 64-bit x86 with SSE4"
)
def test_this_computer_runs_it(
    edgec: Callable[..., Any], dense_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ran = edgec("build", dense_model, "--board", "host", "--target", NAMES, "-o", out)
    assert ran.status == 0, ran.err
    assert edgec("run", out).status == 0


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("--target", NAMES, "--dump", "d"), 2, "need one core"),
        (("--target", "x86-64-v3,aarch64"), 1, "not levels of one instruction set"),
        (("--target", "x86-64-v3,"), 1, "there is no core ''"),
        (("--board", "host", "--target", "aarch64,aarch64+dotprod"), 2, "either --board"),
    ],
)
def test_what_is_no_set_of_levels_is_refused(
    edgec: Callable[..., Any],
    dense_model: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    status: int,
    reason: str,
) -> None:
    if "aarch64+" in words[-1] and is_this_computer(CORES["aarch64"]):
        pytest.skip("this computer has these")
    ran = edgec("build", dense_model, *words, "-o", tmp_path / "no")
    assert ran.status == status and reason in ran.err
    assert not (tmp_path / "no").exists()
