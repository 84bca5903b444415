from __future__ import annotations

from project_case import make_report

from edgec.report.diff import compare_reports


def row(rows: list[dict[str, object]], name: str) -> dict[str, object]:
    return next(r for r in rows if r["name"] == name)


def test_a_build_compared_with_itself_is_all_zero() -> None:
    diff = compare_reports(make_report(), make_report())
    assert all(not figure["delta"] for figure in diff["figures"])
    assert diff["functions"] == [] and diff["notes"] == []
    assert [layer["instructions"]["delta"] for layer in diff["layers"]] == [0, 0]


def test_figures_have_before_after_delta() -> None:
    diff = compare_reports(make_report(flash_bytes=4000), make_report())
    expected = {"name": "flash in all", "before": 4000, "after": 3600, "delta": -400}
    assert row(diff["figures"], "flash in all") == expected


def test_functions_are_matched_by_the_layers_that_they_compute() -> None:
    old, new = make_report(), make_report(model="web")
    new["layers"][0]["function"] = "web_conv2d_3"
    new["functions"] = [
        {"name": "web_conv2d_3", "file": "web.c", "code_bytes": 650, "frame_bytes": 0,
         "stack_bytes": 0},
        {"name": "main", "file": "", "code_bytes": 444, "frame_bytes": 8, "stack_bytes": 8},
        {"name": "extra", "file": "", "code_bytes": 20, "frame_bytes": 8, "stack_bytes": 8},
    ]  # fmt: skip
    assert compare_reports(old, new)["functions"] == [
        {"name": "conv2d of conv_1/Relu", "before": 700, "after": 650, "delta": -50},
        {"name": "extra", "before": None, "after": 20, "delta": 20},
    ]


def test_functions_of_many_layers_name_two() -> None:
    old, new = make_report(), make_report()
    for report in (old, new):
        report["layers"] = [{**report["layers"][1], "name": name} for name in "abcd"]
        for layer in report["layers"]:
            layer["function"] = "net_conv2d"
        report["profile"] = None
    new["functions"][0]["code_bytes"] = 701
    assert [r["name"] for r in compare_reports(old, new)["functions"]] == [
        "conv2d of a, b and 2 more"
    ]


def test_layers_that_only_one_build_has() -> None:
    old, new = make_report(), make_report()
    new["layers"][1]["name"] = "product"
    layers = compare_reports(old, new)["layers"]
    assert [layer["name"] for layer in layers][1:] == ["product", "sum"]
    assert layers[1]["instructions"] == {
        "name": "instructions", "before": None, "after": 1357, "delta": None
    }  # fmt: skip
    assert layers[2]["instructions"]["before"] == 1357


def test_layers_that_one_build_puts_into_one_step_are_compared_together() -> None:
    old, new = make_report(), make_report()
    first, second = old["layers"]
    first["sources"], second["sources"] = ["conv", "relu"], ["sum"]
    other = {**second, "name": "other", "sources": ["other"], "macs": 7}
    old["layers"].append(other)
    old["profile"]["layers"].append({"instructions": 5, "cycles": None})
    new["layers"] = [{**first, "sources": ["conv", "relu", "sum"], "macs": 4000}, other]
    new["profile"]["layers"][:] = [
        {"instructions": 12000, "cycles": None}, {"instructions": 5, "cycles": None},
    ]  # fmt: skip
    both, last = compare_reports(old, new)["layers"]
    assert both["name"] == "conv_1 \N{HORIZONTAL ELLIPSIS} sum"
    assert both["title"].endswith(", sum: 2 steps before, 1 now")
    assert both["instructions"]["before"] == 11000 + 1357
    assert both["instructions"]["delta"] == 12000 - 11000 - 1357
    assert (both["macs"]["delta"], last["name"], last["macs"]["delta"]) == (0, "other", 0)
    # The other way round, and with itself.
    assert compare_reports(new, old)["layers"][0]["instructions"]["delta"] == 357
    assert len(compare_reports(old, old)["layers"]) == 3


def test_equal_names_are_matched_in_order() -> None:
    old, new = make_report(), make_report()
    for report in (old, new):
        for layer in report["layers"]:
            layer["name"] = "same"
    new["profile"]["layers"][1]["instructions"] = 1358
    layers = compare_reports(old, new)["layers"]
    assert [layer["instructions"]["delta"] for layer in layers] == [0, 1]


def test_says_what_makes_builds_hard_to_compare() -> None:
    old = make_report(board="other", profile=None)
    old["options"]["optimize"] = "ram"
    notes = compare_reports(old, make_report())["notes"]
    assert "board: other before, some_board now" in notes
    assert "option optimize: ram before, balanced now" in notes
    assert "only the new build has a profile" in notes
