"""MISRA C:2012 as cppcheck sees it: nothing beyond the deviations that docs/misra.md gives."""

from __future__ import annotations

import shutil

import pytest
from misra import CORES, check_cores, check_models, check_runtime, cppcheck, listed
from operator_models import MODELS

#: Between them they use most of what codegen can print; `make test-full` has every family.
FEW = ("network_qdq", "operators_int16", "lstm_float")


@pytest.fixture(autouse=True)
def needs_cppcheck() -> None:
    if shutil.which("cppcheck") is None:
        pytest.skip("cppcheck is not installed (Debian package cppcheck)")


@pytest.mark.parametrize("core", CORES)
def test_emitted_c(core: str) -> None:
    broken = check_models(FEW if core == "cortex-m4" else FEW[:2], core)
    new = {rule: places[:5] for rule, places in broken.items() if rule not in listed("emitted")}
    assert not new


def test_runtime() -> None:
    broken = check_runtime()
    new = {rule: places[:5] for rule, places in broken.items() if rule not in listed("runtime")}
    assert not new
    assert not listed("runtime") - set(broken), "deviations that are none any more"


@pytest.mark.full
def test_every_family_and_no_deviation_too_many() -> None:
    broken = check_cores(MODELS)
    assert set(broken) == listed("emitted")


def test_a_broken_rule_is_seen(tmp_path) -> None:
    (tmp_path / "bad.c").write_text("void f(int x);\nvoid f(int x) { goto out; out: (void)x; }\n")
    assert "15.1" in cppcheck(["bad.c"], tmp_path)
    assert "15.1" not in listed("emitted") | listed("runtime")
