"""Budgets of the code's size: lines in all, large functions, files at the top of the package."""

from __future__ import annotations

import ast

import pytest
from large_functions import faults, functions, large_functions, listed
from repo_files import REPO_ROOT, text_files

#: Lines of all source files of a folder, comments and blank lines too. The aim is 64,000 and
#: 13,000: what makes a folder smaller lowers its budget.
MOST_LINES = {"edgec": 128_946, "runtime_c": 25_591}
#: By how many entries the list may be out of date: changes that land at once each see an older one.
SLACK = 15
#: What stands beside the folders of the package.
TOP_FILES = {
    "__init__", "__main__", "api", "errors", "onnx_backend", "options", "pipeline", "resources",
}  # fmt: skip


@pytest.mark.parametrize("folder", MOST_LINES)
def test_lines_in_all(folder: str) -> None:
    lines = sum(
        len(path.read_text("utf-8").splitlines())
        for path in text_files()
        if path.is_relative_to(REPO_ROOT / folder)
    )
    assert lines <= MOST_LINES[folder], f"{folder} has {lines} lines: find what can go"


def test_no_function_is_too_large() -> None:
    """More than 40 lines, a complexity over 8, or more than 8 parameters."""
    found, known = large_functions(), listed()
    new = found - known
    assert new.total() <= SLACK, f"divide some of these: {sorted(new)}"
    stale = (known - found).total()
    assert stale <= SLACK, "no longer too large: python tests/repo/large_functions.py"


def test_what_is_too_large() -> None:
    source = "\n".join((
        "def long(x):", *["    x += 1"] * 40,
        "class Some:",
        "    def forked(self, a, b):", *["        if a and b: pass"] * 4,
        "    def wide(self, a, b, c, d, e, f, g, h, *, i): pass",
        "def fine(a, b, c, d, e, f, g, h):",
        "    def inner(x): return x if x else [y for y in x if y]",
    ))  # fmt: skip
    found = {name: [*faults(function)] for name, function in functions(ast.parse(source))}
    assert found == {
        "long": ["lines"], "Some.forked": ["branches"], "Some.wide": ["parameters"],
        "fine": [], "fine.inner": [],
    }  # fmt: skip


def test_nothing_but_these_stands_beside_the_folders() -> None:
    assert {path.stem for path in (REPO_ROOT / "edgec").glob("*.py")} == TOP_FILES
