"""Our figures in the tables of README.md, from `tests/models/budgets.toml`.

A table stands after a comment `<!-- budgets: TABLE BOARD -->`. The columns `instructions`, `arena`
and `code` are written again, and `ratio` where a column of TFLite Micro's instructions follows;
all other columns are kept.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

BUDGETS = tomllib.loads(
    (Path(__file__).parents[1] / "models" / "budgets.toml").read_text(encoding="utf-8")
)
#: The key of a budget by the heading of its column.
KEYS = {"instructions": "instructions", "arena": "arena_bytes", "code": "code_bytes"}
_TABLE = re.compile(r"(<!-- budgets: (\w+) (\w+) -->\n\n)((?:\|.*\n)+)")


def readme_page(readme: Path) -> str:
    """The text of README.md with the budgets of today in its tables."""
    return _TABLE.sub(_table, readme.read_text(encoding="utf-8"))


def _table(found: re.Match[str]) -> str:
    before, table, board, text = found.groups()
    head, rule, *rows = text.splitlines()
    heads = _cells(head)
    lines = [head, rule]
    for row in rows:
        cells = _cells(row)
        budget = BUDGETS[table][_key(cells[0])][board]
        lines.append(f"| {' | '.join(_filled(heads, cells, budget))} |")
    return before + "\n".join(lines) + "\n"


def _filled(heads: list[str], cells: list[str], budget: Mapping[str, int]) -> list[str]:
    filled = [
        f"{budget[KEYS[head]]:,}" if head in KEYS else cell
        for head, cell in zip(heads, cells, strict=True)
    ]
    if "ratio" in heads:
        ratio = heads.index("ratio")
        theirs = int(cells[ratio - 1].replace(",", ""))
        filled[ratio] = f"{budget['instructions'] / theirs:.2f}"
    return filled


def _key(model: str) -> str:
    """The model's name in the budgets: the second or third word of its file's."""
    words = model.removesuffix("_int8").split("_")
    return words[1] if words[0] == "mlperf" else "_".join(words[1:])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
