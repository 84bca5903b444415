"""Tables of measured figures under `docs/`: an entry for each model, rewritten one at a time."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


def read_table(table: Path) -> dict[str, Entry]:
    """The entries by name, none if there is no table yet."""
    if not table.exists():
        return {}
    entries: dict[str, Entry] = tomllib.loads(table.read_text(encoding="utf-8"))["models"]
    return entries


def write_entry(table: Path, writer: str, name: str, entry: Entry, names: Iterable[str]) -> None:
    """Put one entry in; all stand in the order of `names`, and what is not there falls out."""
    known: Mapping[str, Entry] = {**read_table(table), name: entry}
    lines = [f"# Written by tests/models/{writer}; do not edit.", ""]
    for each in names:
        if each in known:
            lines.append(f"[models.{json.dumps(each)}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in known[each].items()]
            lines.append("")
    table.write_text("\n".join(lines), encoding="utf-8", newline="\n")
