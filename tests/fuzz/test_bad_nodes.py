"""Nodes with one attribute, operand or type changed are refused by name, or are valid."""

from __future__ import annotations

import pytest
from bad_nodes import complaints

#: Part of all changes that `make test` tries.
SHARE = 0.01


def test_some_bad_nodes() -> None:
    assert not [*complaints(SHARE)]


@pytest.mark.full
def test_all_bad_nodes() -> None:
    assert not [*complaints(1)]
