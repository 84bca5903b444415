from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from project_case import make_report

from edgec.report.diff import compare_reports
from edgec.report.html import render_page

VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Checks that elements nest, and collects text, attributes and tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == [], "elements that are never closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()
        self.text += "\t" if tag == "td" else ""

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.text += data


def page(report: dict[str, Any], old: dict[str, Any] | None = None) -> tuple[str, Page]:
    text = render_page(report, None if old is None else compare_reports(old, report))
    return text, Page(text)


def test_the_checker_of_these_tests_sees_bad_nesting() -> None:
    with pytest.raises(AssertionError):
        Page("<table><tr></table>")


def test_is_well_formed_and_shows_the_figures() -> None:
    text, parsed = page(make_report())
    for figure in ("1,460", "3,600", "1,000", "5,000", "12,468", "15,000", "700", "1,777",
                   "11,000", "2.75", "89.0 %", "12,345"):  # fmt: skip
        assert figure in parsed.text, figure
    assert "Peak 1,000 bytes, lower bound 900" in parsed.text
    assert "save at most 100 bytes" in parsed.text
    assert text.startswith("<!DOCTYPE html>")


def test_names_are_short_with_the_whole_in_a_tooltip() -> None:
    text, parsed = page(make_report())
    assert "conv_1/Relu" in parsed.text
    assert "block/bn" not in parsed.text
    assert 'title="conv2d &#34;block/conv_1/Relu;block/bn&#34;"' in text
    assert "<title>block/conv_1/Relu;block/bn\nactivation, 512 bytes at offset 0" in text


def test_needs_nothing_from_outside() -> None:
    text, parsed = page(make_report(), make_report())
    assert not re.search(r"https?:|//[a-z]|@import|data:", text)
    assert not {"script", "link", "img", "iframe", "object"} & set(parsed.tags)
    assert all(
        value == "url(#hatch)" or not (value or "").startswith("url(")
        for name, value in parsed.attributes
        if name != "style"
    )
    assert not [name for name, _ in parsed.attributes if name in ("src", "href", "srcset")]


def test_follows_light_and_dark_and_a_phone() -> None:
    text, _ = page(make_report())
    assert "prefers-color-scheme: dark" in text
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text


def test_every_style_that_is_used_has_a_colour() -> None:
    text, parsed = page(make_report())
    used = {
        style
        for name, value in parsed.attributes
        if name == "class" and value is not None and value.startswith("fill ")
        for style in value.split()[1:]
    }
    assert {"weights", "activation", "scratch", "code", "cost", "constant"} <= used
    for style in used:
        assert f".fill.{style} {{ fill: var(--{style}); }}" in text
        assert text.count(f"--{style}: #") == 2, f"{style} needs a light and a dark colour"


def test_escapes_hostile_names() -> None:
    evil = "</title></svg><script>alert(1)</script><b a=\"'&amp;{{7*7}}"
    report = make_report(model=evil, source=evil, board_title=evil, stack_notes=[evil])
    for layer in report["layers"]:
        layer.update(name=evil, title=evil, function=evil, shapes=evil)
    for buffer in report["buffers"]:
        buffer.update(name=evil + buffer["name"], tensor=evil, kind=evil, region="arena")
    for row in report["graph"]:
        row.update(name=evil, tensor=evil, operators=evil, dtype=evil)
    for function in report["functions"]:
        function.update(name=evil, file=evil)
    report["removed_channels"][0]["value"] = evil
    report["certificate"]["regions"][0]["live_at_peak"][0]["buffer"] = evil
    report["options"] = {evil: evil}
    report["profile"]["engine"] = report["profile"]["cycles_source"] = evil
    text, parsed = page(report, make_report(board=evil, source=evil))
    assert "<script" not in text and "script" not in parsed.tags
    assert "{{7*7}}" in parsed.text.replace("\u200b", "")
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]


def test_same_report_same_bytes() -> None:
    assert page(make_report())[0] == page(make_report())[0]


def test_without_a_profile_it_says_how_to_get_one() -> None:
    _, parsed = page(make_report(profile=None))
    assert "edgec report DIR --profile" in parsed.text
    assert "instructions" not in parsed.text.split("Cost of each layer")[1].split("adds")[0]


def test_a_library_has_no_image() -> None:
    report = make_report(
        board=None, board_title="", stack_bytes=None, code_bytes=None, flash_bytes=None,
        ram_bytes=None, variables_bytes=None, stack_reserved_bytes=None, board_ram_bytes=0,
        board_flash_bytes=0, functions=[], sections=[], profile=None,
    )  # fmt: skip
    _, parsed = page(report)
    assert "a library for cortex-m4" in parsed.text
    assert "Constants: 2,100 bytes" in parsed.text
    assert "Code by function" not in parsed.text


def test_an_empty_model_has_a_page() -> None:
    report = make_report(
        layers=[], buffers=[], overlaps=[], graph=[], results=[], functions=[], macs=0,
        arena_bytes=0, arena_lower_bound=0, removed_channels=[], profile=None, weights_bytes=0,
    )  # fmt: skip
    report["certificate"]["regions"][0].update(peak_bytes=0, lower_bound_bytes=0, live_at_peak=[])
    page(report)


def test_removed_channels_show_their_interval() -> None:
    _, parsed = page(make_report())
    assert "5 of 8" in parsed.text
    assert "[\u2212128, \u2212128]: 1\u20132" in parsed.text
    assert "[5, 5]: 6" in parsed.text
    assert "not read: 4" in parsed.text
    assert "7 = 3" in parsed.text
    assert "sum" in parsed.text and "within \u2212128 to 71" in parsed.text


def test_diff_shows_before_after_and_colour() -> None:
    old = make_report(arena_bytes=1200, source="other.tflite")
    old["profile"]["layers"][1]["instructions"] = 1000
    text, parsed = page(make_report(), old)
    assert "1,200" in parsed.text and "\u2212200" in parsed.text and "\u221216.7 %" in parsed.text
    assert '<td class="n tone better">\u2212200</td>' in text
    assert '<td class="n tone worse">+357</td>' in text
    assert "model file: other.tflite before, net.tflite now" in parsed.text
    count = len(old["report"]["layers"] if "report" in old else old["layers"])
    assert f"Instructions by layer: 1 of {count} changed" in parsed.text
    assert "Compared with" not in page(make_report())[1].text


def test_a_layer_that_hardly_changed_has_no_colour() -> None:
    new, old = make_report(), make_report()
    new["profile"]["layers"][1]["instructions"] = 100_011
    old["profile"]["layers"][1]["instructions"] = 100_000
    text, _ = page(new, old)
    assert '<td class="n tone same">+11</td>' in text


def test_ram_parts_add_up() -> None:
    report = make_report()
    _, parsed = page(report)
    ram = parsed.text.split("RAM: ")[1].split("Flash: ")[0]
    sizes = [int(size.replace(",", "")) for size in re.findall(r"\t([\d,]+)\t[\d.]+ %\t", ram)]
    # Activations, scratch, state, variables, stack; nothing of the arena is unused at its peak.
    assert sizes == [912, 88, 40, 120, 300]
    assert ram.startswith("1,460 bytes")


def test_what_lies_in_other_regions_is_told_apart() -> None:
    report = make_report(
        areas=[{"region": "dtcm", "bytes": 64, "lower_bound": 64}], weights_in_ram_bytes=500,
        code_in_ram_bytes=70, ram_bytes=1460 + 64 + 500 + 70,
    )  # fmt: skip
    report["certificate"]["regions"].append(
        {**report["certificate"]["regions"][0], "region": "dtcm", "peak_bytes": 64,
         "lower_bound_bytes": 64, "live_at_peak": [{"buffer": "z", "bytes": 64}]}
    )  # fmt: skip
    _, parsed = page(report)
    ram = parsed.text.split("RAM: ")[1].split("Flash: ")[0]
    for label, size in (
        ("activations, at the peak of the arena in dtcm", 64),
        ("weights, copied from flash", 500),
        ("code, copied from flash", 70),
    ):
        assert f"{label}\t{size}\t" in ram
    assert ram.startswith("2,094 bytes")
    assert "arena + dtcm" in parsed.text
