"""English that a reader must decode: phrases that no source uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from repo_files import CODE_SUFFIXES, REPO_ROOT, relative, text_files

SOURCES = sorted((REPO_ROOT / "edgec").rglob("*.py"))
#: Code and documentation, which have none of the phrases. The changelog keeps its old words.
WRITTEN = [
    path
    for path in text_files()
    if path.suffix in CODE_SUFFIXES | {".md"} and path.name != "CHANGELOG.md"
]

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
        for path, text in _texts().items()
        if re.search(phrase, text, re.IGNORECASE)
        for number, line in enumerate(text.splitlines(), 1)
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


@cache
def _texts() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in WRITTEN}


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "name", "the module"), ast.get_docstring(node) or ""
