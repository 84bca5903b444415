"""Builds for many boards: what is best, what would fit, the table, and the page in a browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import objections, show, violations

from edgec.deploy.explore import Point
from edgec.report.explore import explore_table, render_explore, report_of

FAST = Point(
    "stm32", "cortex-m4", "time", "as it is", 168_000_000, 131_072, 1 << 20,
    ram_bytes=11_400, flash_bytes=41_704, arena_bytes=9_984, instructions=2_623_029,
    cycles=3_811_354, source="counted", power_mw=132.0,
)  # fmt: skip
SMALL = replace(
    FAST, optimize="size", ram_bytes=11_096, flash_bytes=35_208, instructions=11_394_834,
    cycles=16_155_800,
)  # fmt: skip
BEATEN = replace(FAST, optimize="balanced", ram_bytes=11_400, flash_bytes=41_800)
TOO_LARGE = Point(
    "microbit", "cortex-m0", "time", "as it is", 16_000_000, 16_384, 262_144,
    over={"sram": 3_120}, error="sram is 3,120 bytes too small",
)  # fmt: skip
FITS = replace(
    TOO_LARGE, optimize="size", over=None, error="", ram_bytes=9_400, flash_bytes=40_000,
    instructions=23_000_000, source="counted",
)  # fmt: skip
NOWHERE = replace(TOO_LARGE, board="tiny", error="<b>flash</b> is 9 bytes too small")
POINTS = (FAST, SMALL, BEATEN, TOO_LARGE, FITS, NOWHERE)


@pytest.fixture
def report() -> dict[str, Any]:
    return report_of(Path("some models/kws.tflite"), (), POINTS, {})


def test_what_nothing_beats(report: dict[str, Any]) -> None:
    assert [p["is_best"] for p in report["points"]] == [True, True, False, False, True, False]


def test_time_follows_from_modelled_cycles(report: dict[str, Any]) -> None:
    assert report["points"][0]["time_ms"] == pytest.approx(1000 * 3_811_354 / 168e6, abs=1e-3)
    assert report["points"][4]["time_ms"] is None


def test_energy_is_power_for_that_time(report: dict[str, Any]) -> None:
    assert report["points"][0]["energy_mj"] == pytest.approx(132 * 3_811_354 / 168e6, abs=1e-4)
    assert report["points"][4]["energy_mj"] is None


def test_commands_and_advice(report: dict[str, Any]) -> None:
    command = "edgec build 'some models/kws.tflite' --board stm32 --optimize time"
    assert report["points"][0]["command"] == command
    advice = [p["advice"] for p in report["points"]]
    assert advice == ["", "", "", "--optimize size fits", "", "no build fits this board"]


def test_quantized_points_name_their_samples() -> None:
    points = (FAST, *(replace(FAST, form=form) for form in ("int8", "int16", "int4")))
    samples = ("--calibration", "x.npz", "--pixels", "-1:1")
    report = report_of(Path("a.onnx"), samples, points, {"int8": 31.5})
    assert [p["command"] for p in report["points"]] == [
        "edgec build a.onnx --board stm32 --optimize time",
        "edgec build a.onnx --board stm32 --optimize time --calibration x.npz --pixels -1:1",
        "edgec quantize a.onnx --calibration x.npz --pixels -1:1 --activations int16 "
        "-o a_int16.onnx && edgec build a_int16.onnx --board stm32 --optimize time",
        "edgec quantize a.onnx --calibration x.npz --pixels -1:1 --weights int4 "
        "-o a_int4.onnx && edgec build a_int4.onnx --board stm32 --optimize time",
    ]
    assert [p["sqnr_db"] for p in report["points"]] == [None, 31.5, None, None]


def test_the_table_fits_a_terminal(report: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = explore_table(report)
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1] == "kws.tflite fits 2 of 3 boards"
    assert any("11,400" in line and "2,623,029" in line for line in lines)


def test_a_model_that_fits_nowhere(monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    report = report_of(Path("big.onnx"), (), (TOO_LARGE, NOWHERE), {})
    lines = explore_table(report)
    assert lines[0].split() == ["board", "level"] and all(len(line) <= 80 for line in lines)
    assert "sram is 3,120 bytes too small" in lines[2]
    assert lines[-1] == "big.onnx fits 0 of 2 boards"


def test_the_page_needs_nothing_else(report: dict[str, Any]) -> None:
    page = render_explore(report)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "<b>flash" not in page, "text of a model or an error must not be markup"


def rows(browser: Any) -> list[list[str]]:
    found = browser.find_elements("css selector", "#rows tr")
    return [[c.text for c in row.find_elements("css selector", "th,td")] for row in found]


def heading(browser: Any, title: str) -> Any:
    heads = browser.find_elements("css selector", "#heads button")
    return next(head for head in heads if head.text.startswith(title))


@pytest.fixture
def page(report: dict[str, Any], tmp_path: Path) -> str:
    path = tmp_path / "page.html"
    path.write_text(render_explore(report), "utf-8")
    return path.as_uri()


def test_filter_sort_and_select_in_a_browser(browser: Any, page: str) -> None:
    show(browser, page)
    assert len(rows(browser)) == len(POINTS)
    assert "fits 2 of 3 boards" in browser.find_element("id", "summary").text
    browser.find_element("id", "fitting").click()
    assert len(rows(browser)) == 4
    browser.find_element("id", "best").click()
    assert len(rows(browser)) == 3
    browser.find_element("css selector", "input[data-key=board][value=microbit]").click()
    assert {row[0] for row in rows(browser)} == {"stm32"}
    heading(browser, "RAM").click()
    assert [row[4] for row in rows(browser)] == ["11,096", "11,400"]
    heading(browser, "RAM").send_keys("\n")  # by keyboard: the focus stays on the heading
    assert [row[4] for row in rows(browser)] == ["11,400", "11,096"]
    assert browser.find_elements("css selector", "th[aria-sort=descending]")
    browser.find_elements("css selector", "#rows button")[1].send_keys("\n")
    assert browser.find_element("id", "command").text.endswith("--optimize size")
    assert browser.switch_to.active_element.get_attribute("aria-pressed") == "true"
    assert len(browser.find_elements("css selector", "svg .lit")) == 1
    assert browser.get_log("browser") == []


def test_which_boards_fit_and_what_would(browser: Any, page: str) -> None:
    show(browser, page)
    found = [row.text for row in browser.find_elements("css selector", "#boards tr")]
    assert found[0].startswith("stm32 3 of 3 11,096 35,208 22.69")
    assert "1 of 2" in found[1] and found[1].endswith("--optimize size fits")
    assert found[2].endswith("9 bytes too small; no build fits this board")


def test_two_figures_of_choice_and_their_front(browser: Any, page: str) -> None:
    show(browser, page)
    for name, title in (("across", "millijoules"), ("up", "bytes of flash")):
        options = browser.find_elements("css selector", f"#{name} option")
        next(option for option in options if option.text == title).click()
    # Three builds have both figures; one of them is beaten by another.
    assert len(browser.find_elements("css selector", "#front circle")) == 3
    line = browser.find_element("css selector", "#front polyline").get_attribute("points")
    assert len(line.split()) == 2
    browser.find_element("css selector", "#front circle:last-of-type").click()
    assert browser.find_element("id", "command").text.endswith("--board stm32 --optimize size")


def test_everybody_can_use_the_page(browser: Any, page: str) -> None:
    assert objections(browser, page) == []
    for dark, colour in ((False, "rgb(246, 247, 249)"), (True, "rgb(17, 21, 27)")):
        show(browser, page, dark=dark)
        words = "return getComputedStyle(document.body).backgroundColor"
        assert browser.execute_script(words) == colour
        # What appears when somebody works with the page.
        heading(browser, "RAM").click()
        browser.find_element("css selector", "#rows tr button").click()
        assert violations(browser) == []
