"""Mixes of weights of four and eight bits: as accurate as the table says, on a part of the data."""

from __future__ import annotations

from pathlib import Path

import pytest
from measure_mixed import MOST_TESTED, NAMES, SHARE, TABLE, measure
from measured_table import read_table


def holds(name: str, most_tests: int = MOST_TESTED) -> None:
    entry = measure(name, most_tests)
    assert entry["mixed_weights_bytes"] <= SHARE * entry["int8_weights_bytes"]
    # One sample of so few is more than a point.
    assert entry["mixed_right"] >= entry["float_right"] - max(1, 0.01 * entry["samples"])
    assert entry["mixed_db"] > read_table(TABLE)[name]["mixed_db"] - 4.0


def test_the_table_keeps_a_point_at_60_percent() -> None:
    table = read_table(TABLE)
    assert set(table) >= {"digits", "ic", "vww"} and set(table) <= set(NAMES)
    for entry in table.values():
        assert entry["mixed_weights_bytes"] <= SHARE * entry["int8_weights_bytes"]
        assert entry["mixed_right"] >= entry["float_right"] - 0.01 * entry["samples"]


def test_digits() -> None:
    holds("digits")


@pytest.mark.full
def test_images(shared_dir: Path) -> None:
    holds("ic", 40)


@pytest.mark.full
@pytest.mark.parametrize("name", ["kws", "ic", "vww"])
def test_all_samples(name: str, shared_dir: Path) -> None:
    if name in read_table(TABLE):
        holds(name)
