"""Mixes of precisions: their layers and front, as an object for JSON, as text and as a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from edgec.quantizer.mixed_weights import BITS, Mixed
from edgec.quantizer.value_mixes import MixedValues
from edgec.report.figures import build_line, build_report, plural, short_title
from edgec.report.loss_front import Dot, loss_front
from edgec.report.table import Column, Table, number

#: How many points of the front are shown, and how far beyond the goal their accuracy may lie.
MOST_POINTS, MOST_ABOVE_DB = 24, 20.0
#: How values are stored, by their bits.
DTYPES = {8: "int8", 16: "int16", 32: "float"}


def precision_report(mixed: Mixed) -> dict[str, Any]:
    """A mix of weights for JSON. Losses are parts of the sum of squares of the outputs."""
    front = sorted(
        {*_some(mixed.front), mixed.front[-1], mixed.taken}, key=lambda p: (p.size_bytes, p.loss)
    )
    return {
        "weights_bytes": sum(layer.stored_bytes for layer in mixed.layers),
        "int8_weights_bytes": sum(layer.weights_bytes for layer in mixed.layers),
        "layers": [
            {"name": layer.name, "operator": layer.operator, "bits": layer.bits,
             "weights_bytes": layer.stored_bytes, "loss": layer.loss}
            for layer in mixed.layers
        ],
        "front": [
            {"weights_bytes": point.size_bytes, "loss": point.loss,
             "int4_layers": sum(BITS[place] == 4 for place in point.chosen),
             "taken": point == mixed.taken}
            for point in front
        ],
        "build": build_report(mixed.figures),
    }  # fmt: skip


def values_report(mixed: MixedValues) -> dict[str, Any]:
    """A mix of values for JSON. Losses are parts of the sum of squares of the outputs."""
    most = (mixed.sqnr_db if mixed.goal_db is None else mixed.goal_db) + MOST_ABOVE_DB
    shown = _some([step for step in mixed.front if step.sqnr_db <= most])
    front = {*shown, *(step for step in mixed.front if step.taken)}
    return {
        "goal_db": mixed.goal_db,
        "build": build_report(mixed.figures),
        "sqnr_db": mixed.sqnr_db,
        "int8_sqnr_db": mixed.int8_sqnr_db,
        "values_bytes": sum(layer.value_bytes for layer in mixed.layers),
        "int8_values_bytes": sum(layer.elements for layer in mixed.layers),
        "wide_products": mixed.wide_products,
        "int16": list(mixed.made.recipe.int16),
        "keep_float": list(mixed.made.recipe.keep_float),
        "layers": [
            {"name": layer.name, "operator": layer.operator, "dtype": DTYPES[layer.bits],
             "values_bytes": layer.value_bytes, "loss": layer.loss}
            for layer in mixed.layers
        ],
        "front": [
            {"size_bytes": step.size_bytes, "sqnr_db": step.sqnr_db,
             "int16_layers": step.bits.count(16), "float_layers": step.bits.count(32),
             "taken": step.taken}
            for step in sorted(front, key=lambda step: (step.size_bytes, step.sqnr_db))
        ],
    }  # fmt: skip


def _some(points: Sequence[Any]) -> Sequence[Any]:
    """Points at even distances."""
    return points[:: max(1, -(-len(points) // MOST_POINTS))]


@dataclass(frozen=True)
class ShownMix:
    """A mix as the reports show it: its layers, a summary, and its front as text and drawing."""

    table: Table
    total: str
    front: str
    chart: Markup

    def lines(self, word: str) -> list[str]:
        return ["", *self.table.text(), "", f"{word}: {self.total}", self.front]


def shown_precision(report: Mapping[str, Any]) -> ShownMix:
    """The lines shown of `precision_report`'s object."""
    share = 100 * report["weights_bytes"] / report["int8_weights_bytes"]
    points = [
        f"{p['weights_bytes']:,} ({p['loss']:.1e}){' *' if p['taken'] else ''}"
        for p in report["front"]
    ]
    dots = [
        Dot(p["weights_bytes"], p["loss"],
            f"{p['weights_bytes']:,} bytes, loss {p['loss']:.2e},"
            f" {plural(p['int4_layers'], 'layer')} in int4", p["taken"])
        for p in report["front"]
    ]  # fmt: skip
    most = max(dot.lost for dot in dots)
    rows = [(str(r["bits"]), f"{r['weights_bytes']:,}", f"{r['loss']:.2e}")
            for r in report["layers"]]  # fmt: skip
    heads = number("bits"), number("weights bytes"), number("loss in 4 bits")
    return ShownMix(
        _table(report, heads, rows),
        f"{report['weights_bytes']:,} bytes of weights, {share:.1f} % of int8",
        f"bytes (loss), estimated, * taken: {', '.join(points)}",
        loss_front(dots, "no loss", f"{most or 1.0:.1e}", "Bytes of weights against loss"),
    )


def shown_values(report: Mapping[str, Any]) -> ShownMix:
    """The lines shown of `values_report`'s object."""
    kinds = [layer["dtype"] for layer in report["layers"]]
    share = 100 * report["values_bytes"] / report["int8_values_bytes"]
    goal = "" if report["goal_db"] is None else f" asked for {report['goal_db']:.1f},"
    build = "" if report["build"] is None else f"; {build_line(report['build'])}"
    total = (
        f"{kinds.count('int16')} of {plural(len(kinds), 'layer')} in int16,"
        f" {kinds.count('float')} in float: {report['values_bytes']:,} bytes of values,"
        f" {share:.1f} % of int8; {100 * report['wide_products']:.1f} % of the products read them;"
        f" {report['sqnr_db']:.1f} dB on held-out samples,{goal}"
        f" all in int8 {report['int8_sqnr_db']:.1f}{build}"
    )
    points = [
        f"{p['size_bytes']:,} ({p['sqnr_db']:.1f}){' *' if p['taken'] else ''}"
        for p in report["front"]
    ]
    dots = [
        Dot(p["size_bytes"], -p["sqnr_db"],
            f"{p['size_bytes']:,} bytes, {p['sqnr_db']:.1f} dB,"
            f" {plural(p['int16_layers'], 'layer')} in int16, {p['float_layers']} in float",
            p["taken"])
        for p in report["front"]
    ]  # fmt: skip
    ends = [f"{-lost:.0f} dB" for lost in (min(d.lost for d in dots), max(d.lost for d in dots))]
    rows = [(r["dtype"], f"{r['values_bytes']:,}", f"{r['loss']:.1e}") for r in report["layers"]]
    return ShownMix(
        _table(report, (Column("values"), number("bytes"), number("loss in int8")), rows),
        total,
        f"bytes (dB), estimated, * taken: {', '.join(points)}",
        loss_front(dots, ends[0], ends[1], "Bytes of values against decibels"),
    )


def _table(
    report: Mapping[str, Any], heads: Sequence[Column], rows: Sequence[Sequence[str]]
) -> Table:
    columns = (Column("layer", least=16, cut="start"), Column("by", optional=1), *heads)
    names = [(short_title(r["name"]), r["operator"]) for r in report["layers"]]
    return Table(columns, [(*name, *row) for name, row in zip(names, rows, strict=True)])
