"""The results of `edgec tune`, as an object and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgec.loop.tuned import Figures
from edgec.report.figures import count, plural
from edgec.report.table import Column, format_table, number
from edgec.report.terminal import echo_lines
from edgec.tune.model import TunedLayers


def tuning_report(
    model: Path, core: str, output: Path, layers: Sequence[TunedLayers]
) -> dict[str, Any]:
    """Each nest with the figures of its default and of the best, for one run of one layer.

    layers: number of the model's layers with this nest. measured: the figures of this search.
    """
    return {
        "model": model.name,
        "core": core,
        "tuned": str(output),
        "measured": sum(each.measured for each in layers),
        "nests": [
            {
                "nest": each.group.nest,
                "title": each.layers.title,
                "name": each.layers.group.name,
                "layers": each.layers.count,
                "macs": each.layers.group.macs,
                "tried": len(each.group.tried),
                "default": _figures(each.default),
                "best": _figures(each.best),
            }
            for each in layers
        ],
    }


def _figures(figures: Figures | None) -> dict[str, int] | None:
    return None if figures is None else asdict(figures)


def print_tuning(report: Mapping[str, Any]) -> None:
    """Show the report on standard output."""
    columns = [
        Column("layer", least=16, cut="start"),
        number("layers"),
        number("tried", optional=2),
        number("instructions"),
        number("tuned"),
        number(""),
        number("code", optional=1),
    ]
    rows = [_row(nest) for nest in report["nests"]]
    lines = format_table(columns, rows)
    lines += ["", *_summary(report)]
    echo_lines(lines)


def _row(nest: Mapping[str, Any]) -> list[str]:
    default, best = nest["default"], nest["best"]
    known = default is not None and best is not None
    share = f"{best['instructions'] / default['instructions']:.0%}" if known else ""
    return [
        nest["name"],
        str(nest["layers"]),
        str(nest["tried"]),
        count(default["instructions"]) if default else "not measured",
        count(best["instructions"]) if best else "",
        share,
        count(best["code_bytes"]) if best else "",
    ]


def totals(report: Mapping[str, Any]) -> tuple[int, int]:
    """Instructions of all layers by default and tuned."""
    known = [n for n in report["nests"] if n["default"] and n["best"]]
    before, after = (
        sum(nest["layers"] * nest[which]["instructions"] for nest in known)
        for which in ("default", "best")
    )
    return before, after


def _summary(report: Mapping[str, Any]) -> list[str]:
    before, after = totals(report)
    share = f", {after / before:.1%} of the default" if before else ""
    measured = plural(report["measured"], "candidate")
    return [
        f"{report['core']}: {count(before)} instructions by default, {count(after)} tuned{share}",
        f"{report['tuned']}: measured {measured}; `edgec build --tuned` uses the results",
    ]
