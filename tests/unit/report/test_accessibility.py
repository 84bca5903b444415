"""Pages that edgec writes, in a real browser: everybody can use them, on any screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser import leaves_sideways, show, violations
from project_case import make_report
from test_tuning_page import GROUP
from test_tuning_page import report as tuning_report

from edgec.report.diff import compare_reports
from edgec.report.html import render_page
from edgec.report.peers import render_peers
from edgec.report.tuning_page import tuning_page


def _report() -> str:
    old = make_report()
    old["flash_bytes"] += 100
    return render_page(make_report(), compare_reports(old, make_report()))


def _peers() -> str:
    ours = {"model": "kws", "by": "edgec", "instructions": 5, "cycles": 6, "ram_bytes": 7,
            "flash_bytes": 8}  # fmt: skip
    theirs = {**ours, "by": "another", "version": "1", "instructions": 9, "ratio": 0.55,
              "max_abs_diff": 0.0}  # fmt: skip
    return render_peers([ours, theirs], "the same core and flags", "another 1")


PAGES = {
    "report": _report,
    "tuning": lambda: tuning_page(tuning_report(), {"nest": GROUP}),
    "peers": _peers,
}


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_the_page(browser: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(PAGES[name](), "utf-8")
    for width, dark in ((1200, False), (420, True)):
        show(browser, path.as_uri(), width=width, dark=dark)
        assert not leaves_sideways(browser)
        assert violations(browser) == []
