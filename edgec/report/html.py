"""A project's report as one self-contained HTML page: no script, no link, no font.

This file has the contents and the wording; `templates/report.html.j2` only arranges them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from edgec.report.diff import LAYER_FIGURES
from edgec.report.figures import (
    count,
    percent,
    plural,
    ranges,
    ratio,
    short_function,
    short_name,
    signed,
    signed_percent,
)
from edgec.report.front_picture import FrontDot, front_chart
from edgec.report.graph_picture import graph_picture
from edgec.report.layer_cost import cost_chart, layer_rows, profile_line
from edgec.report.memory_map import buffer_label, memory_map
from edgec.report.svg import Part, small_bar, stacked_bar, strip
from edgec.resources import resource_dir

#: A graph of more boxes than this is folded away at first.
LONG_GRAPH = 40
#: As are tables of more rows than this.
LONG_TABLE = 40
#: Channels beyond this are not drawn.
MOST_CHANNELS = 1 << 14


def render_page(report: Mapping[str, Any], diff: Mapping[str, Any] | None = None) -> str:
    """The whole page of `load_report`'s object, with `compare_reports`' result if there is one."""
    layers = layer_rows(report)
    regions = report["certificate"]["regions"]
    return page_environment().get_template("report.html.j2").render(
        r=report,
        subtitle=_subtitle(report),
        tiles=_tiles(report),
        diff=None if diff is None else _diff(diff),
        ram=_ram(report),
        flash=_flash(report),
        weights=_weights(report),
        functions=_functions(report),
        regions=[_region(report, region) for region in regions],
        buffers=_buffers(report),
        layers=layers,
        costs=cost_chart(report),
        front=_front(report),
        has_profile=report.get("profile") is not None,
        profile=profile_line(report),
        removed=[_removed(entry) for entry in report["removed_channels"]],
        idle_clamps=[_idle_clamp(entry) for entry in report["idle_clamps"]],
        graph=graph_picture(report["graph"], report["results"]),
        graph_open=len(report["graph"]) <= LONG_GRAPH,
        long_table=LONG_TABLE,
        options=[(key, _option(value)) for key, value in report["options"].items()],
    )  # fmt: skip


def _option(value: Any) -> str:
    """An option's value as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "default")


@cache
def page_environment() -> jinja2.Environment:
    """Templates of pages: inserted values are escaped, a missing value is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resource_dir("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
    )
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(name: str) -> Markup:
    """The name with places where a narrow column may break it."""
    text = escape(name)
    for mark in "/_.":
        text = text.replace(mark, Markup(f"{mark}<wbr>"))
    return text


def _subtitle(report: Mapping[str, Any]) -> str:
    board = report["board_title"] or report["board"]
    return f"{report['source']} for {board} ({report['core']})" if board else (
        f"{report['source']}, a library for {report['core']}"
    )  # fmt: skip


def _tiles(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(name, figure, remark) of the most important figures."""
    arenas = [("arena", report["arena_bytes"], report["arena_lower_bound"])]
    arenas += [(area["region"], area["bytes"], area["lower_bound"]) for area in report["areas"]]
    gap = sum(size - bound for _, size, bound in arenas)
    executed = sum(layer["macs"] for layer in report["layers"])
    fewer = f"{count(executed)} executed" if executed < report["macs"] else ""
    tiles = [
        ("RAM", report["ram_bytes"], _of(report["ram_bytes"], report["board_ram_bytes"])),
        ("flash", report["flash_bytes"], _of(report["flash_bytes"], report["board_flash_bytes"])),
        (" + ".join(name for name, size, _ in arenas if size) or "arena",
         sum(size for _, size, _ in arenas),
         "as small as can be" if gap == 0 else f"at most {count(gap)} from the best"),
        ("multiply-accumulates", report["macs"], fewer or plural(len(report["layers"]), "layer")),
    ]  # fmt: skip
    profile = report.get("profile")
    if profile:
        per_mac = ratio(profile["instructions"], report["macs"])
        tiles.append(
            ("instructions", profile["instructions"], per_mac and f"{per_mac} for each MAC")
        )
        tiles.append(("cycles", profile["cycles"], profile["cycles_source"] or ""))
    shown = [(name, count(value), note) for name, value, note in tiles if value is not None]
    profile = profile or {}  # and profiles of old builds lack the rest
    times = profile.get("time_ms") or ()
    if times and all(isinstance(each, float) for each in times):
        usual, *ends = (f"{each:.3g}" for each in times)
        shown.append(("time", f"{usual} ms", " to ".join(ends)))
    energy = profile.get("energy_mj")
    if isinstance(energy, float):
        shown.append(("energy", f"{energy:.3g} mJ", "of the chip, roughly"))
    return shown


def _of(part: int | None, whole: int) -> str:
    return f"{percent(part, whole)} of the board's" if part is not None and whole else ""


def _split(parts: Sequence[Part], title: str, whole: int) -> dict[str, Any]:
    """A stacked bar with the table that explains it."""
    total = sum(part.value for part in parts)
    return {
        "bar": stacked_bar(parts, title),
        "total": count(total),
        "of": f"{percent(total, whole)} of {count(whole)} bytes" if whole else "",
        "rows": [
            (part.style, part.label, count(part.value), percent(part.value, total))
            for part in parts
            if part.value
        ],
    }


def _ram(report: Mapping[str, Any]) -> dict[str, Any]:
    parts = _arena_parts(report, "arena", report["arena_bytes"])
    for area in report["areas"]:
        parts += _arena_parts(report, area["region"], area["bytes"])
    stack = report["stack_bytes"]
    reserved = stack is None and report["stack_reserved_bytes"]
    parts += [
        Part("state", report["state_bytes"], "state"),
        Part("weights, copied from flash", report["weights_in_ram_bytes"], "weights"),
        Part("code, copied from flash", report["code_in_ram_bytes"], "code"),
        Part("variables: contexts, link, port", report["variables_bytes"] or 0, "variables"),
        Part("stack, reserved" if reserved else "stack, bound from the call graph",
             stack if stack is not None else report["stack_reserved_bytes"] or 0, "stack"),
    ]  # fmt: skip
    return _split(parts, "RAM by use", report["board_ram_bytes"])


def _arena_parts(report: Mapping[str, Any], region: str, size: int) -> list[Part]:
    """The buffers at the peak of a region's arena."""
    kinds = {buffer["name"]: buffer["kind"] for buffer in report["buffers"]}
    regions = report["certificate"]["regions"]
    live: Sequence[Mapping[str, Any]] = next(
        (r["live_at_peak"] for r in regions if r["region"] == region), ()
    )
    scratch = sum(e["bytes"] for e in live if kinds.get(e["buffer"]) == "scratch")
    # Buffers that share bytes count once; the sum of live buffers can exceed the arena.
    activations = min(sum(e["bytes"] for e in live) - scratch, size - scratch)
    where = "the arena" if region == "arena" else f"the arena in {region}"
    return [
        Part(f"activations, at the peak of {where}", activations, "activation"),
        Part(f"scratch, at the peak of {where}", scratch, "scratch"),
        Part(f"{where[4:]}, unused at its peak", size - activations - scratch, "gap"),
    ]


def _flash(report: Mapping[str, Any]) -> dict[str, Any]:
    parts = [Part("weights and tables", report["weights_bytes"], "weights")]
    if report["code_bytes"] is not None:
        own = [f["code_bytes"] for f in report["functions"] if _is_model(f, report["model"])]
        rest = sum(f["code_bytes"] for f in report["functions"]) - sum(own)
        parts += [
            Part("code of the model", sum(own), "code"),
            Part("code of the board's program: start-up, port, link", rest, "runtime"),
            Part("vectors, constants, alignment", report["code_bytes"] - sum(own) - rest, "gap"),
        ]
    return _split(parts, "Flash by use", report["board_flash_bytes"])


def _front(report: Mapping[str, Any]) -> Markup | None:
    """The front of memory against instructions; None where there is only one point."""
    points = [
        FrontDot(p["arena_bytes"], p["instructions"], len(p["streamed"]), p["taken"])
        for p in report["front"]
    ]
    return front_chart(points) if len(points) > 1 else None


def _is_model(function: Mapping[str, Any], model: str) -> bool:
    return bool(
        function["name"].startswith(f"{model}_") or function["file"].startswith(f"{model}.")
    )


def _weights(report: Mapping[str, Any]) -> dict[str, Any]:
    sizes = [layer["weights_bytes"] for layer in report["layers"]]
    rest = report["weights_bytes"] - sum(sizes)
    largest = max([*sizes, rest], default=0)
    rows = [
        (layer["name"], f"{layer['step']} {short_name(layer['name'])}", count(size),
         percent(size, report["weights_bytes"]), small_bar(size, largest, "weights"))
        for layer, size in zip(report["layers"], sizes, strict=True)
        if size
    ]  # fmt: skip
    if rest > 0:
        share = percent(rest, report["weights_bytes"])
        rows.append(
            ("", "alignment, shared tables", count(rest), share, small_bar(rest, largest, "gap"))
        )
    return {"rows": rows, "total": count(report["weights_bytes"])}


def _functions(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    largest = max((f["code_bytes"] for f in report["functions"]), default=0)
    short = Counter(short_function(f["name"], report["model"]) for f in report["functions"])

    def name(symbol: str) -> str:
        # A part that the compiler split off keeps its suffix beside the function itself.
        known = short_function(symbol, report["model"])
        return known if short[known] == 1 else symbol.removeprefix(f"{report['model']}_")

    return [
        {
            "full": function["name"],
            "name": name(function["name"]),
            "file": function["file"],
            "is_model": _is_model(function, report["model"]),
            "code": count(function["code_bytes"]),
            "frame": count(function["frame_bytes"]),
            "stack": count(function["stack_bytes"]),
            "bar": small_bar(
                function["code_bytes"], largest,
                "code" if _is_model(function, report["model"]) else "runtime",
            ),
        }
        for function in report["functions"]
    ]  # fmt: skip


def _region(report: Mapping[str, Any], region: Mapping[str, Any]) -> dict[str, Any]:
    # A step of several layers has the name of the last, whose output it makes.
    names = list({layer["step"]: layer["name"] for layer in report["layers"]}.values())
    labels = {buffer["name"]: buffer for buffer in report["buffers"]}
    proofs = {
        "live bytes": f"the buffers that are live at step {region['peak_step']} needs all of it",
        "search": "every other arrangement was searched and excluded",
    }
    peak, bound = count(region["peak_bytes"]), count(region["lower_bound_bytes"])
    part = percent(region["gap_bytes"], region["peak_bytes"])
    verdict = (
        f"Peak {peak} bytes, lower bound {bound}: optimal, since "
        f"{proofs.get(region['proof'], region['proof'])}."
        if region["optimal"]
        else f"Peak {peak} bytes, lower bound {bound}: a better plan could save at most "
        f"{count(region['gap_bytes'])} bytes ({part})."
    )
    return {
        "name": region["region"],
        "picture": memory_map(report["buffers"], report["overlaps"], names, region),
        "verdict": verdict,
        "kinds": [
            kind
            for kind in ("input", "activation", "output", "scratch", "state")
            if any(
                buffer["kind"] == kind and buffer["region"] == region["region"]
                for buffer in report["buffers"]
            )
        ],
        "step": region["peak_step"],
        "live": [
            (entry["buffer"],
             buffer_label(labels[entry["buffer"]]) if entry["buffer"] in labels
             else short_name(entry["buffer"]), count(entry["bytes"]))
            for entry in region["live_at_peak"]
        ],
    }  # fmt: skip


def _buffers(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "full": buffer["tensor"] or buffer["name"],
            "name": buffer_label(buffer),
            "kind": buffer["kind"],
            "region": buffer["region"],
            "offset": count(buffer["offset"]),
            "bytes": count(buffer["bytes"]),
            "steps": ranges((buffer["start"], buffer["stop"] - 1))
            if buffer["stop"] - buffer["start"] <= 2
            else f"{buffer['start']}\N{EN DASH}{buffer['stop'] - 1}",
        }
        for buffer in sorted(report["buffers"], key=lambda b: (b["start"], b["offset"]))
    ]


def _removed(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Channels by the interval that proves them constant."""
    by_constant: dict[int, list[int]] = {}
    for channel, value in entry["constant"].items():
        by_constant.setdefault(int(value), []).append(int(channel))
    kinds = [""] * min(max(entry["channels"], 0), MOST_CHANNELS)
    unread = [*map(int, entry["duplicate"]), *entry["unread"]]
    for style, channels in (("constant", map(int, entry["constant"])), ("unread", unread)):
        for channel in channels:
            if 0 <= channel < len(kinds):
                kinds[channel] = style
    return {
        "full": entry["value"],
        "name": short_name(entry["value"]),
        "strip": strip(kinds, f"removed channels of {entry['value']}"),
        "constant_count": len(entry["constant"]),
        "unread_count": len(unread),
        "gone": f"{len(entry['constant']) + len(unread)} of {entry['channels']}",
        "constants": [
            (f"[{value}, {value}]".replace("-", "\N{MINUS SIGN}"), ranges(channels))
            for value, channels in sorted(by_constant.items())
        ],
        "duplicates": ", ".join(
            f"{channel} = {kept}"
            for channel, kept in sorted(
                (int(channel), kept) for channel, kept in entry["duplicate"].items()
            )
        ),
        "unread": ranges(entry["unread"]),
    }


def _idle_clamp(entry: Mapping[str, Any]) -> dict[str, str]:
    def interval(low: int, high: int) -> str:
        return f"{low} to {high}".replace("-", "\N{MINUS SIGN}")

    return {
        "name": short_name(entry["value"]),
        "bounds": interval(entry["minimum"], entry["maximum"]),
        "interval": interval(entry["low"], entry["high"]),
    }


def _diff(diff: Mapping[str, Any]) -> dict[str, Any]:
    layers = [
        {"full": layer["title"], "name": short_name(layer["name"]),
         "instructions": _layer_change(layer["instructions"]), "macs": _change(layer["macs"]),
         "weights": _change(layer["weights_bytes"])}
        for layer in diff["layers"]
        if any(layer[figure]["before"] != layer[figure]["after"] for figure in LAYER_FIGURES)
    ]  # fmt: skip
    return {
        "old": diff["old"],
        "notes": diff["notes"],
        "figures": [_change(row) for row in diff["figures"]],
        "functions": [_change(row) for row in diff["functions"]],
        "layers": layers,
        "layer_count": len(diff["layers"]),
        "has_instructions": any(
            layer["instructions"]["before"] is not None
            or layer["instructions"]["after"] is not None
            for layer in diff["layers"]
        ),
    }


def _layer_change(row: Mapping[str, Any]) -> dict[str, str]:
    """A change without its colour where it is not a thousandth: calls shift, nothing is gained."""
    change = _change(row)
    if row["before"] and row["after"] and not change["percent"]:
        change["tone"] = "same"
    return change


def _change(row: Mapping[str, Any]) -> dict[str, str]:
    before, after, delta = row["before"], row["after"], row["delta"]
    both = before is not None and after is not None
    return {
        "name": row["name"],
        "before": count(before) or "\N{EN DASH}",
        "after": count(after) or "\N{EN DASH}",
        "delta": signed(delta),
        "percent": signed_percent(before, after) if both and delta else "",
        "tone": "same" if not delta else "better" if delta < 0 else "worse",
    }
