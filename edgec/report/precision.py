"""The mix of weights of four and eight bits: its layers and its front, as text and as a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from edgec.quantize.mixed_weights import BITS, Mixed
from edgec.report.figures import build_line, build_report, plural, short_title
from edgec.report.loss_front import Dot, loss_front
from edgec.report.table import Column, Table
from edgec.report.table import number as number_column

#: Points of the front that are told and drawn.
MOST_POINTS = 24


def precision_report(mixed: Mixed) -> dict[str, Any]:
    """The object for JSON. Losses are parts of the sum of squares of the outputs."""
    front = _some(mixed)
    return {
        "weights_bytes": sum(layer.stored_bytes for layer in mixed.layers),
        "int8_weights_bytes": sum(layer.weights_bytes for layer in mixed.layers),
        "layers": [
            {
                "name": layer.name,
                "operator": layer.operator,
                "bits": layer.bits,
                "weights_bytes": layer.stored_bytes,
                "loss": layer.loss,
            }
            for layer in mixed.layers
        ],
        "front": [
            {
                "weights_bytes": point.size_bytes,
                "loss": point.loss,
                "short_layers": sum(BITS[place] == 4 for place in point.chosen),
                "taken": point == mixed.taken,
            }
            for point in front
        ],
        "build": build_report(mixed.figures),
    }


def _some(mixed: Mixed) -> list[Any]:
    """The ends of the front, what is between them at even steps, and the point that was taken."""
    points = list(mixed.front)
    step = max(1, -(-len(points) // MOST_POINTS))
    kept = {*points[::step], points[-1], mixed.taken}
    return sorted(kept, key=lambda point: (point.size_bytes, point.loss))


def precision_table(report: Mapping[str, Any]) -> Table:
    """The layers."""
    columns = (
        Column("layer", least=16, cut="start"), Column("by", optional=1), number_column("bits"),
        number_column("weights bytes"), number_column("loss in 4 bits"),
    )  # fmt: skip
    rows = [
        (short_title(r["name"]), r["operator"], str(r["bits"]), f"{r['weights_bytes']:,}",
         f"{r['loss']:.2e}")
        for r in report["layers"]
    ]  # fmt: skip
    return Table(columns, rows)


def precision_total(report: Mapping[str, Any]) -> str:
    """What was chosen, in a few words."""
    share = 100 * report["weights_bytes"] / report["int8_weights_bytes"]
    return f"{report['weights_bytes']:,} bytes of weights, {share:.1f} % of int8"


def precision_lines(report: Mapping[str, Any]) -> list[str]:
    """The tables of layers and of the front."""
    points = [
        f"{p['weights_bytes']:,} ({p['loss']:.1e}){' *' if p['taken'] else ''}"
        for p in report["front"]
    ]
    lines = [
        "",
        *precision_table(report).text(),
        "",
        f"weights: {precision_total(report)}",
        f"bytes (loss), estimated, * taken: {', '.join(points)}",
    ]
    if report["build"] is not None:
        lines.append(build_line(report["build"]))
    return lines


def precision_chart(front: Sequence[Mapping[str, Any]]) -> Markup:
    """Bytes of weights against loss."""
    dots = [
        Dot(
            point["weights_bytes"],
            point["loss"],
            f"{point['weights_bytes']:,} bytes, loss {point['loss']:.2e},"
            f" {plural(point['short_layers'], 'layer')} in four bits",
            point["taken"],
        )
        for point in front
    ]
    most = max(dot.lost for dot in dots)
    return loss_front(dots, "no loss", f"{most or 1.0:.1e}", "Bytes of weights against loss")
