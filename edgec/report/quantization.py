"""Show the report of `edgec quantize` as text and as one HTML page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from edgec.report.figures import build_line, plural, short_title
from edgec.report.html import LONG_TABLE, page_environment
from edgec.report.low_accuracy import (
    MOST_BLAMED,
    blamed_rows,
    low_accuracy_lines,
    low_accuracy_words,
)
from edgec.report.mixes import shown_precision, shown_values
from edgec.report.svg import Column, column_chart, element, picture, small_bar
from edgec.report.table import Column as TableColumn
from edgec.report.table import Table, number, prose
from edgec.report.terminal import echo_lines

#: The page names this number of layers with the largest part of the error.
MOST_BLAMED_ROWS = 12
#: Size of a histogram's drawing.
WIDTH, HEIGHT = 280.0, 84.0


def print_quantization(report: Mapping[str, Any]) -> None:
    """Print the table of all values, and the totals."""
    lines = _table(report).text()
    lines += ["", "nodes that stay in float:", *_float_table(report).text()]
    said = [
        f"outputs: {_outputs(report)}; the same answer as the float model for"
        f" {100 * report['agreement']:.2f} % of {plural(report['samples'], 'sample')}"
        f"{'' if report['is_tested'] else ', the calibration samples'}"
    ]
    if report["held_out_sqnr_db"] is not None:
        said.append(f"held-out samples: {report['held_out_sqnr_db']:.1f} dB before softmax")
    if report["accuracy"] is not None:
        said.append(
            f"accuracy: {100 * report['float_accuracy']:.2f} % in float,"
            f" {100 * report['accuracy']:.2f} % in integers"
        )
    blamed = blamed_rows(report)[:MOST_BLAMED]
    if blamed:
        said.append(
            "most of the error: "
            + ", ".join(f"{short_title(r['name'])} ({100 * r['blame']:.0f} %)" for r in blamed)
        )
    if report["candidates"]:
        taken, *others = (_way(trial) for trial in report["candidates"])
        said.append(f"chosen on held-out samples: {taken}; second best: {others[0]}")
    if report["corrected_biases"]:
        said.append("biases are corrected: each layer keeps its mean on the calibration samples")
    lines += ["", *(line for sentence in said for line in prose(sentence))]
    lines += _mix_lines(report)
    lines.append(f"written to {report['output']}")
    if report["inaccurate"] is not None:
        lines += low_accuracy_lines(report["inaccurate"])
    echo_lines(lines)


def _mix_lines(report: Mapping[str, Any]) -> list[str]:
    """Return lines about mixed weights and mixed values, if the options ask for them."""
    lines: list[str] = []
    if report["precision"] is not None:
        lines += shown_precision(report["precision"]).lines("weights")
        build = report["precision"]["build"]
        lines += [] if build is None else [build_line(build)]
    if report["values"] is not None:
        lines += shown_values(report["values"]).lines("values")
    return lines


def _table(report: Mapping[str, Any]) -> Table:
    columns = (
        TableColumn("value", least=16, cut="start"), TableColumn("by", optional=1), number("low"),
        number("high"), number("zero point", 2), number("clipped %", 1), number("SQNR dB"),
        number("blame %"),
    )  # fmt: skip
    rows = [
        (
            short_title(row["name"]),
            row["operator"],
            f"{row['low']:.4g}",
            f"{row['high']:.4g}",
            str(row["zero_point"]),
            f"{100 * row['clipped']:.3f}",
            f"{row['sqnr_db']:.1f}",
            "" if row["blame"] is None else f"{100 * row['blame']:.1f}",
        )
        for row in report["rows"]
    ]
    return Table(columns, rows)


def _float_table(report: Mapping[str, Any]) -> Table:
    """Return the nodes that read or compute floats, each with the reason."""
    columns = (
        TableColumn("node", least=16, cut="start"), TableColumn("operator", optional=1),
        TableColumn("why", least=24),
    )  # fmt: skip
    rows = [
        (short_title(node["name"]), node["operator"], node["reason"])
        for node in report["float_nodes"]
    ]
    return Table(columns, rows)


def _outputs(report: Mapping[str, Any]) -> str:
    """Return the signal-to-noise ratio of all outputs, and of each if there are several."""
    whole = f"{report['output_sqnr_db']:.1f} dB"
    each = [f"{short_title(row['name'])} {row['sqnr_db']:.1f}" for row in report["outputs"]]
    return f"{whole} ({', '.join(each)})" if len(each) > 1 else whole


def _way(trial: Mapping[str, Any]) -> str:
    """Describe a combination of settings that was tried."""
    channels = "channels equalized" if trial["equalized"] else "channels not equalized"
    return f"ranges by {trial['observer']}, {channels} ({trial['sqnr_db']:.1f} dB)"


def _by_blame(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = [row for row in report["rows"] if row["blame"] is not None]
    return sorted(rows, key=lambda row: -float(row["blame"]))


def render_quantization(report: Mapping[str, Any]) -> str:
    """Return the page for the JSON object of `edgec quantize`. It is one self-contained file."""
    blamed = _by_blame(report)[:MOST_BLAMED_ROWS]
    largest = max((row["blame"] for row in blamed), default=0.0)
    rows = [_shown(row) for row in report["rows"]]
    return (
        page_environment()
        .get_template("quantization.html.j2")
        .render(
            title=Path(report["output"]).name,
            subtitle=f"{Path(report['model']).name} in integers",
            tiles=_tiles(report),
            inaccurate=_inaccurate(report["inaccurate"]),
            blamed=[
                {
                    "name": short_title(row["name"]),
                    "operator": row["operator"],
                    "blame": f"{100 * row['blame']:.1f} %",
                    "bar": small_bar(max(row["blame"], 0.0), largest, "stack"),
                }
                for row in blamed
            ],
            chart=_chart(report),
            precision=report["precision"] and shown_precision(report["precision"]),
            values=report["values"] and shown_values(report["values"]),
            table=_table(report),
            float_table=_float_table(report),
            rows=rows,
            long_table=LONG_TABLE,
            settings=[
                ("calibrated with", plural(report["calibration_samples"], "sample")),
                ("compared on", plural(report["samples"], "sample")),
                *((key.replace("_", " "), _word(value)) for key, value in report["recipe"].items()),
                *(
                    (
                        "tried on held-out samples" if place else "chosen on held-out samples",
                        _way(t),
                    )
                    for place, t in enumerate(report["candidates"])
                ),
            ],
        )
    )


def _inaccurate(found: Mapping[str, Any] | None) -> dict[str, str] | None:
    if found is None:
        return None
    wrong, advice = low_accuracy_words(found)
    return {"wrong": wrong, "advice": advice, "command": found["command"]}


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(value) or "none") if isinstance(value, list | tuple) else str(value)


def _tiles(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    tiles = [
        ("outputs", f"{report['output_sqnr_db']:.1f} dB", "signal to noise"),
        ("same answer", f"{100 * report['agreement']:.2f} %",
         f"of {plural(report['samples'], 'sample')}, as in float"),
    ]  # fmt: skip
    if report["held_out_sqnr_db"] is not None:
        db = f"{report['held_out_sqnr_db']:.1f} dB"
        tiles.insert(1, ("held-out samples", db, "signal to noise before softmax"))
    if report["accuracy"] is not None:
        points = 100 * (report["accuracy"] - report["float_accuracy"])
        tiles += [
            ("accuracy in float", f"{100 * report['float_accuracy']:.2f} %", "of the labels"),
            ("in integers", f"{100 * report['accuracy']:.2f} %",
             f"{points:+.2f} points".replace("-", "\N{MINUS SIGN}")),
        ]  # fmt: skip
    return tiles


def _chart(report: Mapping[str, Any]) -> Markup:
    columns = [
        Column(
            short_title(row["name"]),
            f"{row['name']}: {row['sqnr_db']:.1f} dB",
            (max(float(row["sqnr_db"]), 0.0) if math.isfinite(row["sqnr_db"]) else None,),
        )
        for row in report["rows"]
    ]
    return column_chart(columns, ["activation"], " dB", "signal to noise of each value")


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    bars = row["histogram"]
    return {
        "name": short_title(row["name"]),
        "operator": row["operator"],
        "seen": f"{bars['low']:.4g} to {bars['high']:.4g}",
        "picture": _histogram(row),
    }


def _histogram(row: Mapping[str, Any]) -> Markup:
    """Draw a value's histogram on the calibration samples, and the range of its integers."""
    bars = row["histogram"]
    first, last = min(bars["low"], row["low"]), max(bars["high"], row["high"])
    scale = (WIDTH - 4) / (last - first) if last > first else 0.0

    def x(real: float) -> float:
        return float(2 + (real - first) * scale)

    base = HEIGHT - 18
    most = math.log1p(max(bars["counts"])) or 1.0
    step = (bars["high"] - bars["low"]) / len(bars["counts"])
    marks: list[str] = [
        element("rect", x=x(row["low"]), y=2.0, width=(row["high"] - row["low"]) * scale,
                height=base - 2, class_="range"),
    ]  # fmt: skip
    for position, count in enumerate(bars["counts"]):
        tall = (base - 6) * math.log1p(count) / most
        marks.append(
            element(
                "rect",
                element("title", f"{count:,}"),
                x=x(bars["low"] + position * step),
                y=base - tall,
                width=max(step * scale - 0.5, 0.75),
                height=tall,
                class_="fill activation",
            )
        )
    for real in (row["low"], row["high"]):
        marks.append(element("line", x1=x(real), x2=x(real), y1=2.0, y2=base, class_="bound-line"))
    marks.append(element("line", x1=0.0, x2=WIDTH, y1=base, y2=base, class_="axis"))
    marks.append(element("text", f"{first:.3g}", x=2.0, y=HEIGHT - 5, class_="tick"))
    marks.append(element("text", f"{last:.3g}", x=WIDTH - 2, y=HEIGHT - 5, class_="tick end"))
    return picture(WIDTH, HEIGHT, f"histogram of {short_title(row['name'])}", *marks)
