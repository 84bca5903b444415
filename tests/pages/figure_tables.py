"""Measured figures in pages of `docs/` that are otherwise written by hand.

A table stands after a comment `<!-- figures: NAME -->`. Its columns and rows are the section NAME
of `docs/figures.toml`, which the script that measures them writes by `write_figures`; `make docs`
puts them into the pages.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgec.report.table import Column, Table, number

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures.toml"
#: The pages that have such tables.
PAGES = ("memory.md", "mlperf_tiny.md", "tune.md")
_TABLE = re.compile(r"(<!-- figures: (\w+) -->\n)((?:\n|\|.*\n)*)")


def write_figures(
    name: str, script: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Replace one section of `docs/figures.toml`: the first column is text, the others numbers."""
    sections = _read()
    sections[name] = {"script": script, "heads": list(heads), "rows": [list(row) for row in rows]}
    lines = ["# Written by the scripts named here. Do not edit."]
    for key, entry in sorted(sections.items()):
        lines += ["", f"[{key}]", f"script = {json.dumps(entry['script'])}"]
        lines += [f"heads = {json.dumps(entry['heads'])}", "rows = ["]
        lines += [f"  {json.dumps(row, ensure_ascii=False)}," for row in entry["rows"]] + ["]"]
    FIGURES.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def page_with_figures(page: Path) -> str:
    """The text of a page with the figures of today in its tables."""
    sections = _read()

    def table(found: re.Match[str]) -> str:
        entry = sections[found[2]]
        first, *others = entry["heads"]
        columns = [Column(first), *map(number, others)]
        return f"{found[1]}\n" + "\n".join(Table(columns, entry["rows"]).markdown()) + "\n\n"

    return _TABLE.sub(table, page.read_text(encoding="utf-8"))


def _read() -> dict[str, dict[str, Any]]:
    return tomllib.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
