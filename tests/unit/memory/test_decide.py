"""Menus are made for speed too, and chosen from where they are clearly faster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edgec.memory.decide as decide_module
from edgec.pipeline import compile_model
from edgec.targets.core import find_core

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_int8.onnx"


@pytest.mark.parametrize(("most", "searches"), [(decide_module.LEAST_GAIN, 1), (1.0, 2)])
def test_menus_that_are_hardly_faster_are_not_chosen_from(
    most: float, searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """most: the part of the instructions from which on menus are left out."""
    monkeypatch.setattr(decide_module, "LEAST_GAIN", most)
    calls: list[str] = []

    def count(name: str) -> None:
        function = getattr(decide_module, name)

        def counted(*given: Any, **named: Any) -> Any:
            calls.append(name)
            return function(*given, **named)

        monkeypatch.setattr(decide_module, name, counted)

    count("make_menus")
    count("choose")
    compile_model(DIGITS, find_core("cortex-m3"))
    assert (calls.count("make_menus"), calls.count("choose")) == (2, searches)
