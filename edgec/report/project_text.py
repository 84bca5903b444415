"""A project's report, and the comparison of two, as tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edgec.report.diff import LAYER_FIGURES
from edgec.report.figures import (
    count,
    percent,
    ratio,
    short_function,
    short_name,
    signed,
    signed_percent,
)
from edgec.report.ram_parts import ram_rows
from edgec.report.table import Column, format_table, number
from edgec.report.terminal import echo_lines, visible

_COLOURS = {True: "green", False: "red"}
_LAYER_COLUMNS = (
    number("step"), Column("layer", least=14, cut="start"), Column("function", optional=3),
    Column("shapes", optional=4), number("weights", optional=1), number("MACs"),
    number("instructions"), number("a MAC", optional=2), number("share"),
)  # fmt: skip


def print_report(report: Mapping[str, Any]) -> None:
    """Sizes, then a row for each layer, with instructions where there is a profile."""
    board = report["board"] or report["core"]
    flash = (
        (label, report[key], "")
        for key, label in (
            ("weights_bytes", "weights and tables"), ("code_bytes", "code"),
            ("flash_bytes", "flash in all"),
        )
        if report[key] is not None
    )  # fmt: skip
    figures = [(what, count(size), note) for what, size, note in (*ram_rows(report), *flash)]
    columns = Column("what"), number("bytes"), Column("")
    title = f"{report['model']}: {report['source']} for {board}"
    echo_lines([title, "", *format_table(columns, figures)])
    profile = report.get("profile")
    costs = [c["instructions"] for c in profile["layers"]] if profile else []
    total = sum(cost or 0 for cost in costs)
    rows = []
    for position, layer in enumerate(report["layers"]):
        cost = costs[position] if costs else None
        rows.append((
            str(layer["step"]), short_name(layer["name"]),
            short_function(layer["function"], report["model"]), layer["shapes"],
            count(layer["weights_bytes"]), count(layer["macs"]), count(cost),
            ratio(cost, layer["macs"]), percent(cost, total) if cost is not None else "",
        ))  # fmt: skip
    echo_lines(["", *format_table(_LAYER_COLUMNS, rows), ""])
    if not profile:
        _say("no profile: build with --trace, then `edgec report DIR --profile`")


def print_diff(diff: Mapping[str, Any]) -> None:
    """Every figure before and after, green where it is less and red where it is more."""
    for note in diff["notes"]:
        _say(note)
    head = ("before", "after", "change", "")
    _table("figures", ("figure", *head), (_cells(row, row["name"]) for row in diff["figures"]))
    _table("code by function, in bytes", ("function", *head),
           (_cells(row, row["name"]) for row in diff["functions"]))  # fmt: skip
    figure = _layer_figure(diff["layers"])
    _table(f"{figure.replace('_', ' ')} by layer", ("layer", *head),
           (_cells(row[figure], short_name(row["name"])) for row in diff["layers"]))  # fmt: skip


def print_changes(diff: Mapping[str, Any]) -> None:
    """The differences of a comparison; a line of text if there is none."""
    figures = [row for row in diff["figures"] if _differs(row)]
    figure = _layer_figure(diff["layers"])
    layers = [row for row in diff["layers"] if _differs(row[figure])]
    if figures or layers or diff["notes"] or diff["functions"]:
        print_diff({**diff, "figures": figures, "layers": layers})
    else:
        _say("nothing changed")


def _layer_figure(layers: Sequence[Mapping[str, Any]]) -> str:
    """The figure that layers are compared by: the first that differs, else the first known one."""
    known = [key for key in LAYER_FIGURES if any(row[key]["after"] is not None for row in layers)]
    differ = [key for key in LAYER_FIGURES if any(_differs(row[key]) for row in layers)]
    return (differ or known or ["macs"])[0]


def _differs(row: Mapping[str, Any]) -> bool:
    return bool(row["before"] != row["after"])


def _cells(row: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    from rich.text import Text

    before, after, delta = row["before"], row["after"], row["delta"]
    style = _COLOURS[delta < 0] if delta else ""
    both = before is not None and after is not None and delta
    return (
        name, count(before), count(after), Text(signed(delta), style),
        Text(signed_percent(before, after) if both else "", style),
    )  # fmt: skip


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = list(rows)
    if not shown:
        return
    table = Table(title=Text(visible(title)))
    for position, head in enumerate(heads):
        table.add_column(head, justify="right" if position else "left")
    for row in shown:
        # As Text, since rich would take parts of a model file's names for markup.
        table.add_row(*(cell if isinstance(cell, Text) else Text(visible(cell)) for cell in row))
    console = Console()
    console.width = max(console.width, 80)
    console.print(table)


def _say(text: str) -> None:
    from rich.console import Console

    Console().print(visible(text, "\n"), highlight=False, markup=False, soft_wrap=True)
