"""What a run says: instructions, cycles, outputs, and a row for every step."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.report.figures import count, percent, ratio, short_function
from edgec.report.table import Column, format_table, number
from edgec.runners.samples import outputs_fnv1a32

if TYPE_CHECKING:
    from edgec.deploy import Built


def run_report(
    built: Built, engine: str, results: Sequence[Any], traced: Any | None, path: Path | None
) -> dict[str, Any]:
    """The object that `edgec run --json` prints. `layers` is empty without a traced run.

    results: those of all steps in a row; costs and values are the last one's.
    """
    result = results[-1]
    return {
        "model": built.manifest.model,
        "board": built.board.name if built.board else None,
        "engine": engine,
        "steps": len(results),
        "instructions": result.instructions,
        "cycles": result.cycles,
        "cycles_source": result.cycles_source,
        "stack_bytes": result.stack_bytes,
        "outputs": str(path) if path else None,
        "output_fnv1a": outputs_fnv1a32(array for each in results for array in each.outputs),
        "layers": _layers(built, traced) if traced is not None else [],
        "values": [
            {
                "name": port.name,
                "dtype": port.dtype,
                "shape": list(port.shape),
                "first": array.reshape(-1)[:16].tolist(),
            }
            for port, array in zip(built.manifest.outputs, result.outputs, strict=True)
        ],
    }


def _layers(built: Built, traced: Any) -> list[dict[str, Any]]:
    # A real board's clock counts cycles, not instructions.
    costs = [s.instructions if s.instructions is not None else s.cycles for s in traced.steps]
    total = sum(cost or 0 for cost in costs)
    rows = []
    for entry, step, cost in zip(built.manifest.steps, traced.steps, costs, strict=True):
        rows.append(
            {
                "title": entry.title,
                "function": entry.function,
                "sources": list(entry.sources),
                "shapes": entry.shapes,
                "macs": entry.macs,
                "instructions": step.instructions,
                "cycles": step.cycles,
                "share": (cost or 0) / total if total else None,
            }
        )
    return rows


def short_title(title: str) -> str:
    """The layer's own name: the last two parts of the first of joined names."""
    name = title.split('"')[1] if '"' in title else title
    return "/".join(name.split(";")[0].split("/")[-2:])


def short_shapes(shapes: str) -> str:
    """`[1,8,8,16] -> [1,4,4,16]` without batches of one: `8x8x16 -> 4x4x16`."""
    return re.sub(r"\[(?:1,\s*)?([\d,\s]*)\]", lambda m: re.sub(r",\s*", "x", m[1]) or "1", shapes)


def print_run(report: dict[str, Any], profile: bool) -> None:
    """Show a run; with `profile` a table of its steps."""
    lines = _profile_lines(report) if profile else []
    if report["steps"] > 1:
        lines.append(f"steps         {report['steps']:,} in a row; of the last one:")
    if report["instructions"] is not None:
        lines.append(f"instructions  {report['instructions']:,}")
    if report["cycles"] is not None:
        lines.append(f"cycles        {report['cycles']:,} ({report['cycles_source']})")
    if report["stack_bytes"] is not None:
        lines.append(f"stack         {report['stack_bytes']:,} bytes")
    for value in report["values"]:
        shown = " ".join(f"{x:.6g}" if isinstance(x, float) else str(x) for x in value["first"])
        more = " ..." if math.prod(value["shape"]) > len(value["first"]) else ""
        lines.append(f"{value['name']} {value['dtype']}{value['shape']}: {shown}{more}")
    lines.append(f"FNV-1a        {report['output_fnv1a']}")
    if report["outputs"]:
        lines.append(f"written to    {report['outputs']}")
    click.echo("\n".join(lines))


def _profile_lines(report: dict[str, Any]) -> list[str]:
    layers = report["layers"]
    # What an engine does not count has no column.
    counted = any(row["instructions"] is not None for row in layers)
    timed = any(row["cycles"] is not None for row in layers)
    columns = [
        Column("layer", least=16, cut="start"),
        Column("shapes", optional=2),
        number("MACs"),
        *([number("instructions"), number("a MAC")] if counted else []),
        *([number("cycles", optional=1 if counted else 0)] if timed else []),
        *([number("share")] if counted or timed else []),
        Column("function", optional=3),
    ]
    rows = [
        (
            short_title(row["title"]),
            short_shapes(row["shapes"]),
            count(row["macs"] or None),
            *([count(row["instructions"]), ratio(row["instructions"], row["macs"])]
              if counted else []),
            *([count(row["cycles"])] if timed else []),
            *([percent(row["share"] or 0, 1)] if counted or timed else []),
            short_function(row["function"], report["model"]),
        )
        for row in layers
    ]  # fmt: skip
    lines = [f"{report['model']} on {report['board']} ({report['engine']})", ""]
    lines += format_table(columns, rows)
    if counted:
        total = sum(row["instructions"] or 0 for row in layers)
        lines.append(f"\nin the rows   {total:,} instructions, of the build that can be traced")
    return [*lines, ""] if not counted else lines
