"""Rules for every source file: its length, its neighbours, and what it must not name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from repo_files import CODE_SUFFIXES, REPO_ROOT, relative, text_files
from write_pages import pages

from edgec.report.operators import operator_files

MAX_LINES = 600

#: Longer files, each with its reason.
LONG_FILES: dict[str, str] = {}

# Written apart, so that this file does not name them itself.
MACHINE_PATHS = re.compile(
    "|".join(("/wor" + "k/", "/roo" + "t/", "/far" + "m/", "/[.]librar" + "y", "/hom" + "e/"))
)
REGISTRY_HOSTS = re.compile(
    "|".join(("pypi[.]" + "org", "python" + "hosted", "npm" + "js", "proxy[.]go" + "lang"))
)


@pytest.mark.parametrize("pattern", [MACHINE_PATHS, REGISTRY_HOSTS], ids=["paths", "hosts"])
def test_no_file_names_a_machine_or_registry(pattern: re.Pattern[str]) -> None:
    found = [
        f"{relative(path)}:{number}: {line.strip()[:100]}"
        for path in text_files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_file_is_too_long() -> None:
    long = {
        relative(path): lines
        for path in text_files()
        if path.suffix in CODE_SUFFIXES
        and (lines := len(path.read_text("utf-8").splitlines())) > MAX_LINES
    }
    assert long.keys() == LONG_FILES.keys(), long


@pytest.mark.parametrize("entry", operator_files(), ids=lambda entry: entry.name)
def test_every_operator_file_has_a_test_file(entry: object) -> None:
    path = REPO_ROOT / "tests" / "ops" / f"test_{entry.name}.py"
    assert path.exists(), f"{relative(path)} is missing"


def test_test_files_have_names_of_their_own() -> None:
    # Tests have no packages: pytest imports two files of one name as the same module.
    names: dict[str, list[str]] = {}
    for path in (REPO_ROOT / "tests").rglob("*.py"):
        names.setdefault(path.name, []).append(relative(path))
    twice = {name: paths for name, paths in names.items() if len(paths) > 1}
    assert {name for name in twice if name != "conftest.py"} == set(), twice


@pytest.mark.parametrize("name", pages())
def test_generated_pages_are_current(name: str) -> None:
    path: Path = REPO_ROOT / "docs" / name
    assert path.read_text("utf-8") == pages()[name], "run `make docs`"
