"""Tables fit the terminal where they can, and never cut a number."""

from __future__ import annotations

import pytest

from edgec.report.table import Column, format_table, number, prose, shorten, terminal_width

COLUMNS = (
    Column("layer", least=8, cut="start"), number("instructions"), Column("shapes", optional=1),
    Column("function", optional=2),
)  # fmt: skip
ROWS = [
    ("functional_1/activation/Relu", "10,769,277", "8x8x16 -> 4x4x16", "conv2d"),
    ("short", "7", "1 -> 1", "dense"),
]


def test_everything_is_shown_where_there_is_room() -> None:
    lines = format_table(COLUMNS, ROWS, 200)
    assert lines == [
        "layer                         instructions  shapes            function",
        "----------------------------  ------------  ----------------  --------",
        "functional_1/activation/Relu    10,769,277  8x8x16 -> 4x4x16  conv2d",
        "short                                    7  1 -> 1            dense",
    ]


@pytest.mark.parametrize("width", range(1, 90))
def test_numbers_are_never_cut(width: int) -> None:
    lines = format_table(COLUMNS, ROWS, width)
    assert "10,769,277" in lines[2]
    least = 8 + 2 + 12  # the shortest layer and the numbers
    assert max(len(line) for line in lines) <= max(width, least)


def test_optional_columns_go_before_names_are_cut_below_their_least() -> None:
    assert "function" not in format_table(COLUMNS, ROWS, 40)[0]
    assert "shapes" in format_table(COLUMNS, ROWS, 40)[0]
    narrow = format_table(COLUMNS, ROWS, 24)
    assert "shapes" not in narrow[0]
    assert narrow[2].startswith("…tion/Relu ")


def test_a_table_without_headings_has_no_head() -> None:
    assert format_table((Column(""), number("")), [("a", "1"), ("bb", "22")], 80) == [
        "a    1",
        "bb  22",
    ]
    assert format_table((Column("a"), number("b")), [], 80) == ["a  b", "-  -"]


def test_ends_that_are_cut() -> None:
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcdef", 4, "start") == "…def"


def test_width_of_a_pipe_and_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal_width() > 1000
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal_width() == 72


def test_sentences_break_at_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    said = "live at the peak: conv_1/Relu 8,000, conv_2/Relu 8,000, a/" + "b" * 80
    assert prose(said) == [said]
    monkeypatch.setenv("COLUMNS", "40")
    lines = prose(said)
    assert lines[:2] == ["live at the peak: conv_1/Relu 8,000,", "  conv_2/Relu 8,000,"]
    assert lines[2:] == ["  a/" + "b" * 80]
