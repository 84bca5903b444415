"""A level of `--optimize` is a row of `edgec.options.LEVELS`: nothing asks for its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from edgec.options import LEVELS

#: What holds a level.
WORDS = re.compile(r"\b(optimize|level)\b")
#: Where names are read and written.
KNOWN = ("options.py", "cli")


def names_in_comparisons(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of every comparison with a level's name, whatever is compared."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare):
            continue
        subject = ast.unparse(node.left) + " ".join(map(ast.unparse, node.comparators))
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and part.value in LEVELS and "optimize" in subject:
                yield node.lineno, str(part.value)


def test_names_are_found() -> None:
    found = list(names_in_comparisons("a = options.optimize in ('x', 'time')\nb = kind == 'ram'"))
    assert found == [(1, "time")]


def test_no_level_is_asked_for_by_name(repo_root: Path) -> None:
    found = {
        f"{path.relative_to(repo_root)}:{line}: {name}"
        for path in sorted((repo_root / "edgec").rglob("*.py"))
        if path.relative_to(repo_root / "edgec").parts[0] not in KNOWN
        for line, name in names_in_comparisons(path.read_text("utf-8"))
    }
    assert not found
