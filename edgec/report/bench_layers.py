"""The layers of a measured model beside the baseline's, on every core that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.codegen.manifest import Manifest
from edgec.frontends import import_model
from edgec.report.figures import count, decimal, short_shapes, short_title
from edgec.report.table import Column, format_table, number
from edgec.runners.engine import RunResult


def operator_names(model: Path) -> tuple[str, ...]:
    """The names of a model file's operators, in the order of the file."""
    nodes = import_model(model).main.nodes
    return tuple(dict.fromkeys(source for node in nodes for source in node.sources))


def layer_rows(
    manifest: Manifest,
    traced: RunResult,
    names: Sequence[str],
    theirs: Sequence[Mapping[str, Any]],
    core: str | None,
) -> list[dict[str, Any]]:
    """Our layers, each beside the sum of its operators' costs with the baseline.

    names: of the model's operators; nothing is compared unless `theirs` has the same number. core:
    the baseline's name of it, None if it has none.
    """
    number_of = {name: position for position, name in enumerate(names)}
    compared = core if len(names) == len(theirs) else None
    rows = []
    for entry, cost in zip(manifest.layers, traced.layers, strict=True):
        operators = sorted({number_of[source] for source in entry.sources})
        base = sum(theirs[i][compared] for i in operators) if compared and operators else None
        rows.append(
            {
                "layer": short_title(entry.title),
                "function": entry.function,
                "shapes": entry.shapes,
                "operators": operators,
                "macs": entry.macs,
                "instructions": cost.instructions,
                "cmsis_nn_instructions": base,
                "ratio": cost.instructions / base if base and cost.instructions else None,
            }
        )
    return rows


def layer_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One table of a model's layers: the cost of each on every core, relative to the baseline's.

    rows: of one model on several boards. Layers that one core runs as one are one row.
    """
    columns = [
        Column("layer", least=16, cut="start"),
        Column("shapes", optional=len(rows) + 1),
        number("MACs", len(rows)),
    ]
    has_baseline = [any(layer["ratio"] for layer in row["layers"]) for row in rows]
    for position, (row, compared) in enumerate(zip(rows, has_baseline, strict=True)):
        columns.append(number(row["core"].removeprefix("cortex-").upper(), position))
        if compared:
            columns.append(number("ratio", position))
    cells = []
    for group in _together([set(layer["operators"]) for row in rows for layer in row["layers"]]):
        sides = [[la for la in row["layers"] if group & set(la["operators"])] for row in rows]
        first = max(sides, key=len)
        line = [
            ", ".join(layer["layer"] for layer in first),
            short_shapes(first[0]["shapes"]) if len(first) == 1 else "",
            count(max(sum(layer["macs"] for layer in side) for side in sides) or None),
        ]
        for side, compared in zip(sides, has_baseline, strict=True):
            ours = sum(layer["instructions"] or 0 for layer in side)
            theirs = sum(layer["cmsis_nn_instructions"] or 0 for layer in side)
            line.append(count(ours or None))
            if compared:
                line.append(decimal(ours / theirs if theirs else None, 3))
        cells.append(tuple(line))
    return format_table(tuple(columns), cells)


def _together(sets: Sequence[set[int]]) -> list[set[int]]:
    """The sets united where they share a member, in the order of their least members."""
    found: list[set[int]] = []
    for operators in sets:
        apart = [group for group in found if not group & operators]
        joined = operators.union(*(group for group in found if group & operators))
        found = [*apart, joined] if joined else apart
    return sorted(found, key=min)
