"""The page of `edgec tune`: dots, winners, and nothing from outside but as text."""

from __future__ import annotations

from typing import Any

from edgec.loop.tuned import Figures, TunedGroup, Winner
from edgec.report.tuning_page import trials_of, tuning_page

HOSTILE = "<script>alert(1)</script>"
TRACE = '[["split", {"loop": "<b>", "factor": 3, "tail": "exact"}]]'
GROUP = TunedGroup(
    "nest", "cortex-m3", HOSTILE, HOSTILE, "d0",
    {"d0": Figures(100, 120, 40, 0), "d1": Figures(80, 90, 60, 4), "d2": None,
     "d3": Figures(900, 1, 1, 1)},
    ("d0", "d2", "d3", "d1"), (Winner("", TRACE, "d1"),),
)  # fmt: skip


def report() -> dict[str, Any]:
    figures = {"cycles": 1, "code_bytes": 40, "scratch_bytes": 0}
    nest = {
        "nest": "nest", "title": HOSTILE, "name": HOSTILE, "layers": 2, "macs": 5, "tried": 4,
        "default": {"instructions": 100, **figures}, "best": {"instructions": 80, **figures},
    }  # fmt: skip
    return {"model": HOSTILE, "core": "cortex-m3", "nests": [nest]}


def test_a_page_shows_candidates_and_winners() -> None:
    text = tuning_page(report(), {"nest": GROUP})
    assert text.count("<circle") == 3  # one was not measured
    assert text.count('class="taken"') == 1
    assert "80.0%" in text and "split(loop=&lt;b&gt;, factor=3, tail=exact)" in text
    assert "4 candidates, 1 of them not measured; 1 winner" in text


def test_text_of_a_model_or_a_file_is_no_markup() -> None:
    assert HOSTILE not in tuning_page(report(), {"nest": GROUP})


def test_trials_are_shares_of_the_default() -> None:
    assert [t.share for t in trials_of(GROUP)] == [1.0, None, 9.0, 0.8]
    assert [t.is_winner for t in trials_of(GROUP)] == [False, False, False, True]
