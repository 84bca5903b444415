"""What one run says: instructions, cycles, outputs, and a row for every step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.runners.samples import outputs_fnv1a32

if TYPE_CHECKING:
    from edgec.deploy import Built


def run_report(
    built: Built, engine: str, result: Any, traced: Any | None, path: Path | None
) -> dict[str, Any]:
    """The object that `edgec run --json` prints. `layers` is empty without a traced run."""
    return {
        "model": built.manifest.model,
        "board": built.board.name if built.board else None,
        "engine": engine,
        "instructions": result.instructions,
        "cycles": result.cycles,
        "cycles_source": result.cycles_source,
        "stack_bytes": result.stack_bytes,
        "outputs": str(path) if path else None,
        "output_fnv1a": outputs_fnv1a32(result.outputs),
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
    total = sum(step.instructions or 0 for step in traced.steps)
    rows = []
    for entry, step in zip(built.manifest.steps, traced.steps, strict=True):
        rows.append(
            {
                "title": entry.title,
                "function": entry.function,
                "sources": list(entry.sources),
                "shapes": entry.shapes,
                "macs": entry.macs,
                "instructions": step.instructions,
                "cycles": step.cycles,
                "share": (step.instructions or 0) / total if total else None,
            }
        )
    return rows


def short_title(title: str) -> str:
    """The layer's own name: the last two parts of the first of joined names."""
    name = title.split('"')[1] if '"' in title else title
    return "/".join(name.split(";")[0].split("/")[-2:])


def print_run(report: dict[str, Any], profile: bool) -> None:
    """Show a run; with `profile` a table of its steps."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if profile:
        console.width = max(console.width, 132)
        table = Table(title=f"{report['model']} on {report['board']} ({report['engine']})")
        for heading, justify in (
            ("layer", "left"), ("function", "left"), ("shapes", "left"), ("MACs", "right"),
            ("instructions", "right"), ("a MAC", "right"), ("share", "right"),
        ):  # fmt: skip
            table.add_column(heading, justify=justify)  # type: ignore[arg-type]
        for row in report["layers"]:
            count, macs = row["instructions"], row["macs"]
            table.add_row(
                short_title(row["title"]),
                row["function"].removeprefix(f"{report['model']}_"),
                row["shapes"],
                f"{macs:,}" if macs else "",
                f"{count:,}" if count is not None else "",
                f"{count / macs:.2f}" if macs and count else "",
                f"{row['share']:.1%}" if row["share"] is not None else "",
            )
        console.print(table)
    if report["instructions"] is not None:
        console.print(f"instructions  {report['instructions']:,}", highlight=False)
    if report["cycles"] is not None:
        console.print(f"cycles        {report['cycles']:,} ({report['cycles_source']})",
                      highlight=False)  # fmt: skip
    if report["stack_bytes"] is not None:
        console.print(f"stack         {report['stack_bytes']:,} bytes", highlight=False)
    for value in report["values"]:
        shown = " ".join(f"{x:.6g}" if isinstance(x, float) else str(x) for x in value["first"])
        more = " …" if len(value["first"]) == 16 else ""
        console.print(f"{value['name']} {value['dtype']}{value['shape']}: {shown}{more}",
                      highlight=False, markup=False)  # fmt: skip
    console.print(f"FNV-1a        {report['output_fnv1a']}", highlight=False)
    if report["outputs"]:
        console.print(f"written to    {report['outputs']}", highlight=False)
