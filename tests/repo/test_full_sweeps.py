"""What `full_sweeps.toml` names is there."""

from __future__ import annotations

from fnmatch import filter as matching

import pytest
from full_sweeps import SWEEPS, Sweep
from repo_files import REPO_ROOT

TESTS = REPO_ROOT / "tests"
FILES = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")]


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.tests)
def test_each_names_tests_and_what_stays(sweep: Sweep) -> None:
    file, _, function = sweep.tests.partition("::")
    found = matching(FILES, file)
    assert found and sweep.stays
    if function:
        texts = [(TESTS / path).read_text("utf-8") for path in found]
        assert any(f"def {function}(" in text for text in texts)


def test_cases_are_patterns_of_what_stands_in_brackets() -> None:
    sweep = Sweep("models/test_a.py::test_b", "", ("*-slow", "x"))
    assert sweep.has("models/test_a.py", "test_b[kws-slow]")
    assert sweep.has("models/test_a.py", "Class::test_b[x]")
    assert not sweep.has("models/test_a.py", "test_b[kws-slower]")
    assert not sweep.has("models/test_a.py", "test_c[x]")
    assert not sweep.has("ops/test_a.py", "test_b[x]")
    assert Sweep("models/*", "").has("models/test_a.py", "test_b")
