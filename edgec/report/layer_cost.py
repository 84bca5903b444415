"""The cost of each layer, for the page: rows with bars, and a chart of shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from edgec.report.figures import count, percent, short_function, short_name
from edgec.report.svg import Column, column_chart, small_bar


def _measured(report: Mapping[str, Any]) -> list[int | None]:
    profile = report.get("profile")
    if not profile:
        return [None] * len(report["layers"])
    return [cost["instructions"] for cost in profile["layers"]]


def layer_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    instructions = _measured(report)
    total = sum(value or 0 for value in instructions)
    most = max((value or 0 for value in instructions), default=0)
    most_macs = max((layer["macs"] for layer in report["layers"]), default=0)
    each = [
        cost / layer["macs"] if cost and layer["macs"] else None
        for layer, cost in zip(report["layers"], instructions, strict=True)
    ]
    worst = max((value or 0 for value in each), default=0)
    return [
        {
            "step": layer["step"],
            "full": layer["title"],
            "name": short_name(layer["name"]),
            "function": short_function(layer["function"], report["model"]),
            # A line may break after an arrow alone.
            "shapes": layer["shapes"].replace(" -> ", "\N{NO-BREAK SPACE}\N{RIGHTWARDS ARROW} "),
            "macs": count(layer["macs"]) if layer["macs"] else "",
            "macs_bar": small_bar(layer["macs"], most_macs, "macs"),
            "instructions": count(cost),
            "instructions_bar": small_bar(cost, most, "cost"),
            "share": percent(cost, total) if cost is not None else "",
            "each": "" if per is None else f"{per:.2f}",
            "each_bar": small_bar(per, worst, "each"),
        }
        for layer, cost, per in zip(report["layers"], instructions, each, strict=True)
    ]


def cost_chart(report: Mapping[str, Any]) -> Markup:
    """Share of the multiply-accumulates beside share of the instructions, by layer."""
    instructions = _measured(report)
    macs = [layer["macs"] for layer in report["layers"]]
    measured = any(value is not None for value in instructions)
    totals = sum(macs), sum(value or 0 for value in instructions)
    columns = []
    for layer, m, i in zip(report["layers"], macs, instructions, strict=True):
        title = f"{layer['title']}\n{count(m)} MACs, {percent(m, totals[0]) or '0 %'}"
        if i is not None:
            title += f"\n{count(i)} instructions, {percent(i, totals[1])}"
        shares = [100 * m / totals[0] if totals[0] else None]
        if measured:
            shares.append(100 * i / totals[1] if i is not None and totals[1] else None)
        columns.append(Column(layer["name"], title, tuple(shares)))
    styles = ("macs", "cost") if measured else ("macs",)
    return column_chart(columns, styles, " %", "Cost of each layer")


def profile_line(report: Mapping[str, Any]) -> str:
    """One sentence on the whole inference; empty without a profile."""
    profile = report.get("profile")
    if not profile:
        return ""
    cycles = (
        f", {count(profile['cycles'])} {profile['cycles_source'] or ''} cycles".replace("  ", " ")
        if profile["cycles"] is not None
        else ""
    )
    return (
        f"One inference on engine {profile['engine']}: "
        f"{count(profile['instructions'])} instructions{cycles}."
    )
