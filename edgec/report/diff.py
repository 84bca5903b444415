"""Two builds side by side: every figure before and after, code by function, cost by layer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from edgec.report.figures import short_function, short_name

#: Figures in the order of the page; less of any is better.
FIGURES = (
    ("arena_bytes", "arena"), ("arena_lower_bound", "arena, lower bound"),
    ("state_bytes", "state"), ("variables_bytes", "variables"), ("stack_bytes", "stack"),
    ("ram_bytes", "RAM in all"), ("weights_bytes", "weights and tables"), ("code_bytes", "code"),
    ("flash_bytes", "flash in all"), ("macs", "multiply-accumulates of the model"),
    ("executed_macs", "multiply-accumulates executed"), ("steps", "steps"),
)  # fmt: skip
PROFILE_FIGURES = (
    ("instructions", "instructions"),
    ("cycles", "cycles"),
    ("stack_bytes", "stack in the run"),
)


def compare_reports(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What changed from one project's report to another's.

    `figures`, `functions` and `layers` are rows with `name`, `before`, `after` and `delta`; a
    side is None where the build has no such thing, and then so is `delta` for figures. Layers
    have such a row for each of `instructions`, `macs` and `weights_bytes`.
    """
    before, after = _figures(old), _figures(new)
    return {
        "old": {key: old[key] for key in ("model", "source", "board", "core", "edgec_version")},
        "notes": _notes(old, new),
        "figures": [
            _row(label, before[label], after[label])
            for label in before
            if before[label] is not None or after[label] is not None
        ],
        "functions": _functions(old, new),
        "layers": _layers(old, new),
    }


def _figures(report: Mapping[str, Any]) -> dict[str, int | None]:
    executed = sum(layer["macs"] for layer in report["layers"])
    known = {**report, "executed_macs": executed, "steps": len(report["layers"])}
    found = {label: known[key] for key, label in FIGURES}
    profile = report.get("profile") or {}
    return found | {label: profile.get(key) for key, label in PROFILE_FIGURES}


def _row(name: str, before: int | None, after: int | None) -> dict[str, Any]:
    delta = None if before is None or after is None else after - before
    return {"name": name, "before": before, "after": after, "delta": delta}


def _notes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What the reader must know before the figures mean anything."""
    notes = [
        f"{label}: {old[key] or 'none'} before, {new[key] or 'none'} now"
        for key, label in (("source", "model file"), ("board", "board"), ("core", "core"),
                           ("edgec_version", "edgec"))
        if old[key] != new[key]
    ]  # fmt: skip
    for key in sorted({*old["options"], *new["options"]}):
        was, now = old["options"].get(key), new["options"].get(key)
        if was != now:
            notes.append(f"option {key}: {was} before, {now} now")
    engines = [(report.get("profile") or {}).get("engine") for report in (old, new)]
    if None in engines and engines[0] != engines[1]:
        notes.append(f"only the {'new' if engines[0] is None else 'old'} build has a profile")
    elif engines[0] != engines[1]:
        notes.append(f"profiles of different engines: {engines[0]} before, {engines[1]} now")
    return notes


def _functions(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Code bytes by function that differ, the largest change first."""

    def sizes(report: Mapping[str, Any]) -> dict[str, int]:
        layers: dict[str, list[str]] = {}
        for layer in report["layers"]:
            short = short_function(layer["function"], report["model"])
            layers.setdefault(short, []).append(short_name(layer["name"]))

        # A model's own file and prefix are no part of the name: builds may be named differently.
        def name(function: Mapping[str, Any]) -> str:
            short = short_function(function["name"], report["model"])
            file = function["file"].removeprefix(report["model"])
            if file and file != ".c":
                return f"{short} ({file})"
            return _by_layers(short, layers.get(short, []))

        found: dict[str, int] = {}
        for function in report["functions"]:
            found[name(function)] = found.get(name(function), 0) + function["code_bytes"]
        return found

    before, after = sizes(old), sizes(new)
    rows = []
    for name in dict.fromkeys([*before, *after]):
        row = _row(name, before.get(name), after.get(name))
        row["delta"] = after.get(name, 0) - before.get(name, 0)
        if row["delta"]:
            rows.append(row)
    return sorted(rows, key=lambda row: (-abs(row["delta"]), row["name"]))


def _by_layers(function: str, layers: Sequence[str]) -> str:
    """`conv2d of stem`: which number a function has changes with what comes before it."""
    if not layers:
        return function
    operator = re.sub(r"_[0-9]+$", "", function)
    more = f" and {len(layers) - 2} more" if len(layers) > 2 else ""
    return f"{operator} of {', '.join(layers[:2])}{more}"


def _layers(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every layer of both builds, in the new build's order and then what is no more."""
    before, after = _numbered(old), _numbered(new)
    return [
        {
            "name": (after.get(key) or before[key])["name"],
            "title": key[0],
            **{
                figure: _row(figure, _get(before.get(key), figure), _get(after.get(key), figure))
                for figure in ("instructions", "macs", "weights_bytes")
            },
        }
        for key in [*after, *(key for key in before if key not in after)]
    ]


def _numbered(report: Mapping[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    """Layers with their instructions, by (what they compute, which of equal ones)."""
    profile = report.get("profile")
    costs = profile["layers"] if profile else [{}] * len(report["layers"])
    seen: Counter[str] = Counter()
    found = {}
    for layer, cost in zip(report["layers"], costs, strict=True):
        # By the model's own name: operators of a group may differ between versions.
        found[layer["name"], seen[layer["name"]]] = {
            **layer, "instructions": cost.get("instructions")
        }  # fmt: skip
        seen[layer["name"]] += 1
    return found


def _get(layer: Mapping[str, Any] | None, figure: str) -> int | None:
    return None if layer is None else layer[figure]


def changed(rows: Iterable[Mapping[str, Any]], of: Callable[[Any], Any]) -> bool:
    """Whether any of the rows differs in what `of` takes from it."""
    return any(of(row)["before"] != of(row)["after"] for row in rows)
