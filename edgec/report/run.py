"""The report of a run: instructions, cycles, outputs, and a row for every layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.boards.power import energy_mj
from edgec.report.classes import dequantized
from edgec.report.figures import (
    count,
    percent,
    picked,
    ratio,
    short_function,
    short_shapes,
    short_title,
)
from edgec.report.profile import Profile, make_profile
from edgec.report.table import Column, format_table, number, prose
from edgec.report.terminal import echo_lines
from edgec.runners.samples import outputs_fnv1a32

if TYPE_CHECKING:
    from edgec.codegen.manifest import PortEntry
    from edgec.deploy.project import Built
    from edgec.runners.engine import RunResult

#: Elements of each output that are shown.
SHOWN = 16


def run_report(
    built: Built,
    engine: str,
    results: Sequence[RunResult],
    profiled: Sequence[RunResult],
    path: Path | None,
) -> dict[str, Any]:
    """The object that `edgec run --json` prints. `layers` is empty without profiled runs.

    results: of consecutive steps; costs and values are from the last one.
    """
    result = results[-1]
    profile = make_profile(built.manifest, result, profiled) if profiled else None
    return {
        "model": built.manifest.model,
        "board": built.board.name if built.board else None,
        "engine": engine,
        "steps": len(results),
        "instructions": result.instructions,
        "cycles": result.cycles,
        "cycles_source": result.cycles_source,
        "cycles_range": result.cycles_range,
        "time_ms": _time_ms(built, result),
        "energy_mj": _energy(built, result),
        "stack_bytes": result.stack_bytes,
        "outputs": str(path) if path else None,
        "output_fnv1a": outputs_fnv1a32(array for each in results for array in each.outputs),
        "layers": _layers(built, profiled, profile) if profile is not None else [],
        "repeat": len(profiled),
        "measuring": _measuring(profile) if profile is not None and profile.unit else None,
        "values": [*map(_value, built.manifest.answers, result.outputs)],
    }


def _value(port: PortEntry, array: Any) -> dict[str, Any]:
    """An output: its type and its first elements."""
    return {
        "name": port.name,
        "dtype": port.dtype,
        "shape": list(array.shape),
        "first": array.reshape(-1)[:SHOWN].tolist(),
        "real": _real(port, array),
    }


def _real(port: PortEntry, array: Any) -> list[float] | None:
    """The real values that the first integers of an output stand for, None where they do not."""
    if len(port.scale) != 1:
        return None
    found: list[float] = dequantized(array.reshape(-1)[:SHOWN], port).tolist()
    return found


def _time_ms(built: Built, result: RunResult) -> list[float] | None:
    """Milliseconds of the cycles at the board's clock; with the least and the most, if modelled."""
    clock_hz = built.board.clock_hz if built.board is not None else 0
    if result.cycles is None or not clock_hz:
        return None
    return [1e3 * cycles / clock_hz for cycles in (result.cycles, *(result.cycles_range or ()))]


def _energy(built: Built, result: RunResult) -> float | None:
    """Millijoules of one inference on the board, where its data sheet's current is known."""
    board = built.board
    if board is None or board.power is None:
        return None
    return energy_mj(board.power.milliwatts, result.cycles, board.clock_hz)


def _measuring(profile: Profile) -> dict[str, Any]:
    """The cost of measuring, which is subtracted from the layers."""
    return {
        "unit": profile.unit,
        "clock_overhead": profile.clock_overhead,
        "hook_overhead": round(profile.hook_overhead, 3),
    }


def _layers(built: Built, profiled: Sequence[RunResult], profile: Profile) -> list[dict[str, Any]]:
    """A row for every layer: its median over the runs, with the least and the most."""
    total = sum(layer.median for layer in profile.layers)
    launched = _launches(built)
    rows = []
    for index, entry in enumerate(built.manifest.layers):
        layer = profile.layers[index] if profile.unit else None
        cost = profiled[-1].layers[index]
        rows.append(
            {
                **picked(entry, "title", "function", "shapes", "macs"),
                "sources": list(entry.sources),
                "launches": launched[built.manifest.step_of(entry)],
                **picked(cost, "instructions", "cycles"),
                "least": layer.least if layer else None,
                "most": layer.most if layer else None,
                "share": layer.median / total if layer and total else None,
            }
            | ({profile.unit: layer.median} if layer else {})
        )
    return _that_ran(built, rows)


def _launches(built: Built) -> list[list[int]]:
    """Return for each step the numbers, from 1, of the GPU's launches that have its kernels."""
    every = list(enumerate(built.manifest.launches, 1))
    return [
        [number for number, launch in every if step.id in launch.steps]
        for step in built.manifest.steps
    ]


def _that_ran(built: Built, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The layers without those for other sizes than the run's, or for computers without a GPU."""
    manifest = built.manifest
    if manifest.without_gpu is not None:
        return rows[: manifest.without_gpu.start]
    if not manifest.versions:
        return rows
    return [row for row in rows if (row["instructions"], row["cycles"]) != (0, 0)]


def print_run(report: dict[str, Any], profile: bool, first: Sequence[str] = ()) -> None:
    """Show a run; with `profile` a table of its layers. first: lines about its inputs."""
    lines = [*first, *(_profile_lines(report) if profile else [])]
    lines += _feature_lines(report.get("features"))
    if report["steps"] > 1:
        lines.append(f"steps         {report['steps']:,} in a row; of the last one:")
    if report["instructions"] is not None:
        lines.append(f"instructions  {report['instructions']:,}")
    if report["cycles"] is not None:
        lines.append(f"cycles        {report['cycles']:,} ({_source(report)})")
    if report["time_ms"] is not None:
        lines.append(f"time          {_time(report['time_ms'])}")
    if report["energy_mj"] is not None:
        lines.append(f"energy        about {report['energy_mj']:.3g} mJ (docs/boards.md)")
    if report["stack_bytes"] is not None:
        lines.append(f"stack         {report['stack_bytes']:,} bytes")
    for value in report["values"]:
        first = value["real"] or value["first"]
        shown = " ".join(f"{x:.6g}" if isinstance(x, float) else str(x) for x in first)
        more = " ..." if math.prod(value["shape"]) > len(value["first"]) else ""
        lines += prose(f"{value['name']} {value['dtype']}{value['shape']}: {shown}{more}")
    for entry in report.get("classes", ()):
        lines.append(f"{entry['value']:>12.4g}  {entry['label']}")
    lines += _box_lines(report.get("boxes"))
    lines.append(f"FNV-1a        {report['output_fnv1a']}")
    if report["outputs"]:
        lines.append(f"written to    {report['outputs']}")
    echo_lines(lines)


def _source(report: dict[str, Any]) -> str:
    """Source of cycles, and the range of modelled ones."""
    if not report["cycles_range"]:
        return str(report["cycles_source"])
    least, most = report["cycles_range"]
    return f"{report['cycles_source']}, {least:,} to {most:,}"


def _time(time_ms: Sequence[float]) -> str:
    usual, *ends = (f"{each:.3g}" for each in time_ms)
    return f"{usual} ms" + (f" ({ends[0]} to {ends[1]})" if ends else "")


def _feature_lines(heard: Mapping[str, Any] | None) -> list[str]:
    """Lines about the features of a sound."""
    if heard is None:
        return []
    cost = heard["instructions"]
    each = f", {cost:,} instructions each" if cost is not None else ""
    return [f"features      {heard['frames']:,} frames on {heard['board']}{each}"]


def _box_lines(boxes: Sequence[Mapping[str, Any]] | None) -> list[str]:
    """A row for each box that was found."""
    if boxes is None:
        return []
    if not boxes:
        return ["boxes         none found"]
    sides = ("left", "top", "right", "bottom")
    columns = [Column("found", least=8), number("score"), *map(number, sides)]
    rows = [
        (
            box["label"] if box["label"] is not None else f"class {box['class']}",
            f"{box['score']:.3f}",
            *(percent(box[side], 1) for side in sides),
        )
        for box in boxes
    ]
    return ["", *format_table(columns, rows), ""]


def _profile_lines(report: dict[str, Any]) -> list[str]:
    layers = report["layers"]
    # Figures that an engine does not count have no column.
    counted = any(row["instructions"] is not None for row in layers)
    timed = any(row["cycles"] is not None for row in layers)
    varied = any(row["least"] != row["most"] for row in layers)
    numbers = [each for row in layers for each in row["launches"]]
    shared = len(numbers) > len(set(numbers))
    columns = [
        Column("layer", least=16, cut="start"),
        Column("shapes", optional=2),
        *([number("launch")] if shared else []),
        number("MACs"),
        *([number("instructions"), number("a MAC")] if counted else []),
        *([number("cycles", optional=1 if counted else 0)] if timed else []),
        *([number("least", 1), number("most", 1)] if varied else []),
        *([number("share")] if counted or timed else []),
        Column("function", optional=3),
    ]
    rows = [
        (
            short_title(row["title"]),
            short_shapes(row["shapes"]),
            *([" ".join(map(str, row["launches"]))] if shared else []),
            count(row["macs"] or None),
            *([count(row["instructions"]), ratio(row["instructions"], row["macs"])]
              if counted else []),
            *([count(row["cycles"])] if timed else []),
            *([count(row["least"]), count(row["most"])] if varied else []),
            *([percent(row["share"] or 0, 1)] if counted or timed else []),
            short_function(row["function"], report["model"]),
        )
        for row in layers
    ]  # fmt: skip
    lines = [f"{report['model']} on {report['board']} ({report['engine']})", ""]
    lines += format_table(columns, rows)
    lines.append("")
    if shared:
        lines += prose("layers of one launch run together; the first one shows the cost")
    if report["measuring"]:
        measuring, runs = report["measuring"], report["repeat"]
        unit, hook = measuring["unit"], measuring["hook_overhead"]
        total = sum(row[unit] or 0 for row in layers)
        what = f"medians of {runs:,} runs" if runs > 1 else "one run"
        lines += [
            f"in the rows   {total:,} {unit}, {what}",
            f"subtracted    {hook:.1f} for each look inside, {measuring['clock_overhead']:,} for "
            "each reading of the clock",
        ]
    return lines
