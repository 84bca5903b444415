"""The mix of values of int8 and int16: its layers and its front, as text and as a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from edgec.quantize.value_mixes import MixedValues
from edgec.report.figures import build_line, build_report, plural, short_title
from edgec.report.loss_front import Dot, loss_front
from edgec.report.table import Column, Table
from edgec.report.table import number as number_column

#: Points of the front that are told and drawn, and by how much they may be nearer than the goal.
MOST_POINTS, MOST_ABOVE_DB = 24, 20.0
#: How values are stored, by their bits.
DTYPES = {8: "int8", 16: "int16", 32: "float"}


def values_report(mixed: MixedValues) -> dict[str, Any]:
    """The object for JSON. Losses are parts of the sum of squares of the outputs."""
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
            {
                "name": layer.name,
                "operator": layer.operator,
                "dtype": DTYPES[layer.bits],
                "values_bytes": layer.value_bytes,
                "loss": layer.loss,
            }
            for layer in mixed.layers
        ],
        "front": [
            {
                "size_bytes": step.size_bytes,
                "sqnr_db": step.sqnr_db,
                "int16_layers": step.bits.count(16),
                "float_layers": step.bits.count(32),
                "taken": step.taken,
            }
            for step in _some(mixed)
        ],
    }


def _some(mixed: MixedValues) -> list[Any]:
    """Some of the front, not much nearer to float than asked or taken, and what was taken."""
    most = (mixed.sqnr_db if mixed.goal_db is None else mixed.goal_db) + MOST_ABOVE_DB
    points = [step for step in mixed.front if step.sqnr_db <= most]
    points = points[:: max(1, -(-len(points) // MOST_POINTS))]
    kept = {*points, *(step for step in mixed.front if step.taken)}
    return sorted(kept, key=lambda step: (step.size_bytes, step.sqnr_db))


def values_total(report: Mapping[str, Any]) -> str:
    """What was chosen, in a sentence."""
    kinds = [layer["dtype"] for layer in report["layers"]]
    share = 100 * report["values_bytes"] / report["int8_values_bytes"]
    goal = "" if report["goal_db"] is None else f" asked for {report['goal_db']:.1f},"
    build = "" if report["build"] is None else f"; {build_line(report['build'])}"
    return (
        f"{kinds.count('int16')} of {plural(len(kinds), 'layer')} in int16,"
        f" {kinds.count('float')} in float: {report['values_bytes']:,} bytes of values,"
        f" {share:.1f} % of int8; {100 * report['wide_products']:.1f} % of the products read them;"
        f" {report['sqnr_db']:.1f} dB on samples held out,{goal}"
        f" all in int8 {report['int8_sqnr_db']:.1f}{build}"
    )


def values_table(report: Mapping[str, Any]) -> Table:
    """The layers."""
    columns = (
        Column("layer", least=16, cut="start"), Column("by", optional=1), Column("values"),
        number_column("bytes"), number_column("loss in int8"),
    )  # fmt: skip
    rows = [
        (short_title(r["name"]), r["operator"], r["dtype"], f"{r['values_bytes']:,}",
         f"{r['loss']:.1e}")
        for r in report["layers"]
    ]  # fmt: skip
    return Table(columns, rows)


def values_lines(report: Mapping[str, Any]) -> list[str]:
    """The tables of layers and of the front."""
    points = [
        f"{p['size_bytes']:,} ({p['sqnr_db']:.1f}){' *' if p['taken'] else ''}"
        for p in report["front"]
    ]
    return [
        "",
        *values_table(report).text(),
        "",
        f"values: {values_total(report)}",
        f"bytes (dB), estimated, * taken: {', '.join(points)}",
    ]


def values_chart(front: Sequence[Mapping[str, Any]]) -> Markup:
    """Bytes of values, and of weights that floats need more, against decibels."""
    dots = [
        Dot(
            point["size_bytes"],
            -point["sqnr_db"],
            f"{point['size_bytes']:,} bytes, {point['sqnr_db']:.1f} dB,"
            f" {plural(point['int16_layers'], 'layer')} in int16,"
            f" {point['float_layers']} in float",
            point["taken"],
        )
        for point in front
    ]
    ends = [f"{-lost:.0f} dB" for lost in (min(d.lost for d in dots), max(d.lost for d in dots))]
    return loss_front(dots, ends[0], ends[1], "Bytes of values against decibels")
