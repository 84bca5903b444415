from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project_case import make_report

from edgec.report.graph_picture import graph_picture
from edgec.report.memory_map import memory_map
from edgec.report.svg import (
    CHAR_WIDTH,
    Column,
    Part,
    column_chart,
    element,
    fit,
    number,
    picture,
    stacked_bar,
    strip,
    ticks,
)


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def rectangles(svg: str, style: str) -> list[dict[str, float]]:
    return [
        {key: float(rect.attrib[key]) for key in ("x", "y", "width", "height")}
        for rect in parse(svg).iter("rect")
        if style in rect.attrib["class"].split()
    ]


@given(st.text(max_size=60), st.floats(0, 500))
def test_fitted_text_fits(text: str, width: float) -> None:
    assert len(fit(text, width, 11)) * 11 * CHAR_WIDTH <= max(width, 0) + 1e-6


def test_fitted_text_keeps_both_ends() -> None:
    assert fit("activation_12", 9 * 11 * CHAR_WIDTH + 0.1) == "acti\N{HORIZONTAL ELLIPSIS}n_12"
    assert fit("short", 500) == "short"


def test_elements_escape_text_and_attributes() -> None:
    made = element("text", "<&>", aria_label='a"<b>', x=1.0)
    assert parse(made).text == "<&>"
    assert parse(made).attrib == {"aria-label": 'a"<b>', "x": "1"}


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (1.25, "1.25"), (0.999, "1"), (0, "0")])
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(0.001, 1e9), st.sampled_from([2, 10]))
def test_ticks_are_few_and_below_the_top(top: float, base: int) -> None:
    marks = ticks(top, 6, base=base)
    assert marks[0] == 0 and marks[-1] <= top and len(marks) <= 7


def test_a_stacked_bar_fills_the_width() -> None:
    parts = [Part("a", 30, "x"), Part("b", 10, "y"), Part("none", 0, "z")]
    bars = [rect.attrib for rect in parse(stacked_bar(parts, "all")).iter("rect")]
    assert [(bar["x"], bar["width"]) for bar in bars] == [("0%", "75%"), ("75%", "25%")]
    assert list(parse(stacked_bar([], "nothing")).iter("rect")) == []


def test_a_strip_joins_neighbours() -> None:
    cells = [rect.attrib for rect in parse(strip(["a", "a", "", "b"], "s")).iter("rect")]
    assert [(c["x"], c["width"], c["class"]) for c in cells] == [
        ("0%", "50%", "fill a"), ("75%", "25%", "fill b")
    ]  # fmt: skip


def test_columns_have_the_height_of_their_value() -> None:
    chart = column_chart([Column("a", "t", (10.0, 5.0)), Column("b", "t", (None, 0.0))],
                         ("macs", "cost"), " %", "costs")  # fmt: skip
    (tall, none), (half, zero) = rectangles(chart, "macs"), rectangles(chart, "cost")
    assert tall["height"] == pytest.approx(2 * half["height"])
    assert none["height"] == zero["height"] == 0


def test_memory_map_places_buffers_by_step_and_offset() -> None:
    report = make_report()
    region = report["certificate"]["regions"][0]
    drawn = memory_map(report["buffers"], report["overlaps"], ["one", "two"], region)
    (source,) = rectangles(drawn, "k-input")
    (whole,) = rectangles(drawn, "k-activation")
    (output,) = rectangles(drawn, "k-output")
    (scratch,) = rectangles(drawn, "k-scratch")
    assert whole["width"] == pytest.approx(2 * source["width"], abs=2)
    assert output["x"] > source["x"] and output["y"] == pytest.approx(whole["y"])
    # Offsets grow upwards: the input lies on the scratch and reaches the peak.
    assert source["y"] + source["height"] == pytest.approx(scratch["y"])
    assert source["height"] / scratch["height"] == pytest.approx(400 / 88, rel=0.01)
    # The output takes the place of a, all of it.
    (shared,) = rectangles(drawn, "shared")
    assert (shared["x"], shared["height"]) == (output["x"], output["height"])
    assert "lower bound 900" in drawn and "peak 1,000" in drawn


def test_labels_of_a_chain_in_place_do_not_meet() -> None:
    report = make_report()
    region = report["certificate"]["regions"][0]
    chain = [
        {**report["buffers"][1], "name": name, "tensor": f"t{start}", "bytes": 1000,
         "start": start, "stop": start + 2}
        for start, name in enumerate("abcd")
    ]  # fmt: skip
    pairs = [{"first": a, "second": b, "distance_bytes": 0} for a, b in ("ab", "bc", "cd")]
    root = parse(memory_map(chain, pairs, ["w"] * 5, region))
    inside = [t.attrib["x"] for t in root.iter("text") if t.text and t.text.startswith("t")]
    assert len(inside) == len(set(inside)) == 4


def test_memory_map_without_an_overlap_has_nothing_hatched() -> None:
    report = make_report()
    region = report["certificate"]["regions"][0]
    assert rectangles(memory_map(report["buffers"], [], ["one", "two"], region), "shared") == []
    # Nor has one that is permitted and not used.
    report["buffers"][2]["offset"] = 512
    drawn = memory_map(report["buffers"], report["overlaps"], ["one", "two"], region)
    assert rectangles(drawn, "shared") == []


def test_optimal_peak_has_one_label() -> None:
    report = make_report()
    region = {**report["certificate"]["regions"][0], "lower_bound_bytes": 1000}
    drawn = memory_map(report["buffers"], [], ["one", "two"], region)
    assert "peak = lower bound 1,000" in drawn and ">lower bound" not in drawn


def test_graph_draws_every_edge_and_sends_long_ones_round() -> None:
    report = make_report()
    drawn = graph_picture(report["graph"], report["results"])
    edges = [p.attrib["d"] for p in parse(drawn).iter("path") if p.attrib["class"] == "edge"]
    assert len(edges) == 4
    assert sum("Q" in edge for edge in edges) == 1, "only the input skips boxes"
    assert len([r for r in parse(drawn).iter("rect") if "node" in r.attrib["class"]]) == 4
    assert ", output" in drawn


def test_graph_of_unknown_or_later_inputs_is_still_drawn() -> None:
    report = make_report()
    report["graph"][0]["inputs"] = ["y", "nobody"]
    parse(graph_picture(report["graph"], report["results"]))
    parse(graph_picture([], []))


def test_a_picture_has_a_least_and_a_greatest_width() -> None:
    assert 'style="max-width:100px"' in picture(100, 50, "small")
    assert 'style="min-width:86px;max-width:125px"' in picture(100, 50, "small", min_width=86)
