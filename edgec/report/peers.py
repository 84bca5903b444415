"""The measurements of `edgec bench --peers`, as a table and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from edgec import __version__
from edgec.report.figures import count, decimal
from edgec.report.html import page_environment
from edgec.report.svg import Column as ChartColumn
from edgec.report.svg import column_chart
from edgec.report.table import Column, Table, number
from edgec.report.terminal import echo_lines


def peers_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return one row for each model and generator that can compile it."""
    columns = (
        Column("model"), Column("by"), number("instructions"), number("ratio"),
        number("Mcycles", 4), number("RAM"), number("flash"), number("differs"),
    )  # fmt: skip
    cells = [
        (
            row["model"], row["by"], count(row["instructions"]), decimal(row.get("ratio"), 3),
            decimal(row["cycles"] / 1e6 if row["cycles"] else None, 3), count(row["ram_bytes"]),
            count(row["flash_bytes"]),
            f"{row['max_abs_diff']:.1e}" if "max_abs_diff" in row else "",
        )
        for row in rows if "error" not in row
    ]  # fmt: skip
    return Table(columns, cells)


def refusals(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the programs that cannot run a model, each with the reason."""
    return [f"{row['model']} by {row['by']}: {row['error']}" for row in rows if "error" in row]


def print_peers(rows: Sequence[dict[str, Any]], versions: str) -> None:
    lines = ["One inference on a Cortex-M4, gcc -O2; ratio: edgec's instructions to theirs", ""]
    echo_lines([*lines, *peers_table(rows).text(), "", *refusals(rows), versions])


def render_peers(rows: Sequence[dict[str, Any]], method: str, versions: str) -> str:
    """Return the same as one page, with each peer's figures as multiples of edgec's."""
    charts = [
        (title, f"{peer}'s {unit}s for each {unit} of edgec. Above 1, edgec takes less.",
         _chart(rows, peer, key))
        for peer in dict.fromkeys(row["by"] for row in rows if row["by"] != "edgec")
        for title, unit, key in (
            (f"Instructions, beside {peer}", "instruction", "instructions"),
            (f"RAM, beside {peer}", "byte", "ram_bytes"),
            (f"Flash, beside {peer}", "byte", "flash_bytes"),
        )
    ]  # fmt: skip
    return page_environment().get_template("peers.html.j2").render(
        title="edgec beside other generators of C",
        subtitle="One inference of each model on a simulated Cortex-M4.",
        charts=charts, table=peers_table(rows), refused=refusals(rows), version=__version__,
        versions=versions, method=method,
    )  # fmt: skip


def _chart(rows: Sequence[dict[str, Any]], peer: str, key: str) -> Markup:
    """Draw the peer's figure as a multiple of edgec's, for each model that both compile."""
    ours = {row["model"]: row[key] for row in rows if row["by"] == "edgec" and key in row}
    columns = [
        ChartColumn(row["model"], f"{row['model']}: {row[key] / ours[row['model']]:.2f}",
                    (row[key] / ours[row["model"]],))
        for row in rows if row["by"] == peer and key in row
    ]  # fmt: skip
    return column_chart(columns, ("cost",), "x", f"{key} beside {peer}")
