"""Menus are made for speed too, and chosen from where something in them is faster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edgec.memory.decide as decide_module
from edgec.pipeline import compile_model
from edgec.targets.core import find_core

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_int8.onnx"


@pytest.mark.parametrize(("core", "searches"), [("cortex-m4", 1), ("cortex-m3", 2)])
def test_menus_without_anything_faster_are_not_chosen_from(
    core: str, searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the M4 kernels are the fastest at all prices; the M3 has blocks of sums for speed."""
    calls: list[str] = []

    def count(name: str) -> None:
        function = getattr(decide_module, name)

        def counted(*given: Any, **named: Any) -> Any:
            calls.append(name)
            return function(*given, **named)

        monkeypatch.setattr(decide_module, name, counted)

    count("make_menus")
    count("choose")
    compile_model(DIGITS, find_core(core))
    assert (calls.count("make_menus"), calls.count("choose")) == (2, searches)
