"""English that a reader must decode: phrases that no source of `edgec` uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from repo_files import REPO_ROOT, relative

SOURCES = sorted((REPO_ROOT / "edgec").rglob("*.py"))

#: Each with what to write instead.
PHRASES = {
    r"\bthat of\b|\bthose of\b": "repeat the noun",
    r"\bso many\b": "name the number",
    r"\bby itself\b": "'alone', or omit it",
    r"\bnot worth\b": "say what it costs, or that it gains nothing",
    r"\b(?:byte|half|short) weights\b|\bnibbles?\b": "int8 weights, float16, int4",
}

#: A docstring has a subject or a verb: "Return ...", "Number of ...", not "Of ...", "How many ...".
_HEAD = re.compile(
    r"(?:Of|With|Its|Their|As|By|Whose|Those|How (?:many|much|often|far|long)|Where)\b"
)


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_source_has_the_phrase(phrase: str) -> None:
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in SOURCES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(phrase, line, re.IGNORECASE)
    ]
    assert found == [], PHRASES[phrase]


def test_docstrings_begin_with_a_subject_or_a_verb() -> None:
    found = [
        f"{relative(path)}: {name}: {text.splitlines()[0]}"
        for path in SOURCES
        for name, text in _docstrings(path)
        if _HEAD.match(text)
    ]
    assert found == []


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "name", "the module"), ast.get_docstring(node) or ""
