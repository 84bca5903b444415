"""Two builds side by side: every figure before and after, code by function, cost by layer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.report.figures import plural, short_function, short_name, tight_name

#: Figures in the order of the page; less of any is better.
FIGURES = (
    ("arena_bytes", "arena"), ("arena_lower_bound", "arena, lower bound"),
    ("areas_bytes", "arenas in other regions"), ("state_bytes", "state"),
    ("weights_in_ram_bytes", "weights in RAM"), ("code_in_ram_bytes", "code in RAM"),
    ("variables_bytes", "variables"), ("stack_bytes", "stack"),
    ("ram_bytes", "RAM in all"), ("weights_bytes", "weights and tables"), ("code_bytes", "code"),
    ("flash_bytes", "flash in all"), ("macs", "multiply-accumulates of the model"),
    ("executed_macs", "multiply-accumulates executed"), ("steps", "steps"),
)  # fmt: skip
#: Figures that are shown only if a build has them.
RARE = ("arenas in other regions", "weights in RAM", "code in RAM")
PROFILE_FIGURES = (
    ("instructions", "instructions"),
    ("cycles", "cycles"),
    ("stack_bytes", "stack in the run"),
)


def compare_reports(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The changes from one project's report to another's.

    `figures`, `functions` and `layers` are rows with `name`, `before`, `after` and `delta`; a
    side is None if the build lacks the row; for figures `delta` is then None too. Layers
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
            if before[label] or after[label] or label not in RARE
        ],
        "functions": _functions(old, new),
        "layers": _layers(old, new),
    }


def _figures(report: Mapping[str, Any]) -> dict[str, int | None]:
    executed = sum(layer["macs"] for layer in report["layers"])
    known = {
        **report,
        "areas_bytes": sum(area["bytes"] for area in report["areas"]),
        "executed_macs": executed,
        "steps": len({layer["step"] for layer in report["layers"]}),
    }
    found = {label: known[key] for key, label in FIGURES}
    profile = report.get("profile") or {}
    return found | {label: profile.get(key) for key, label in PROFILE_FIGURES}


def _row(name: str, before: int | None, after: int | None) -> dict[str, Any]:
    delta = None if before is None or after is None else after - before
    return {"name": name, "before": before, "after": after, "delta": delta}


def _notes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Notes that the reader needs to interpret the figures."""
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

        # A model's own file and prefix are not compared: builds may have different names.
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
    """`conv2d of stem`: by layer, since a function's number depends on the functions before it."""
    if not layers:
        return function
    operator = re.sub(r"_[0-9]+$", "", function)
    more = f" and {len(layers) - 2} more" if len(layers) > 2 else ""
    return f"{operator} of {', '.join(layers[:2])}{more}"


def _layers(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every layer of both builds: in the new build's order, then the removed ones.

    Steps that compute the same operators of the model share a row, for example if one build streams
    several layers in one step.
    """
    before, after = _steps(old), _steps(new)
    known = {step.key for step in before} & {step.key for step in after}
    rows = []
    for step in [*after, *before]:
        if step.is_taken:
            continue
        if step.key in known:
            sides = [[s for s in side if s.key == step.key] for side in (before, after)]
        else:
            rest = [[s for s in side if s.key not in known] for side in (before, after)]
            sides = _sharing(step, rest)
        for member in (*sides[0], *sides[1]):
            member.is_taken = True
        rows.append(_layer_row(*sides))
    return rows


@dataclass(eq=False)
class _Step:
    """A step of a build. key: its operators, and its number among equal ones; costs by figure."""

    key: tuple[str, int, tuple[str, ...]]
    name: str
    sources: frozenset[str]
    costs: Mapping[str, int | None]
    is_taken: bool = False


#: The columns of a layer's row.
LAYER_FIGURES = ("instructions", "macs", "weights_bytes")


def _steps(report: Mapping[str, Any]) -> list[_Step]:
    profile = report.get("profile")
    costs = profile["layers"] if profile else [{}] * len(report["layers"])
    seen: Counter[str] = Counter()
    found = []
    for layer, cost in zip(report["layers"], costs, strict=True):
        # By the model's own names: operators of a group may differ between versions.
        name, sources = layer["name"], tuple(sorted(set(layer.get("sources", ()))))
        figures = {**layer, "instructions": cost.get("instructions")}
        found.append(
            _Step(
                (name, seen[name], sources), name, frozenset(sources),
                {key: figures[key] for key in LAYER_FIGURES},
            )
        )  # fmt: skip
        seen[name] += 1
    return found


def _sharing(first: _Step, sides: Sequence[list[_Step]]) -> list[list[_Step]]:
    """The steps of both builds that share an operator with `first`, or with one that does, …"""
    operators, members = set(first.sources), {first}
    while True:
        more = {
            step
            for side in sides
            for step in side
            if step not in members and not operators.isdisjoint(step.sources)
        }
        if not more:
            return [[step for step in side if step in members] for side in sides]
        members |= more
        operators.update(*(step.sources for step in more))


def _layer_row(before: Sequence[_Step], after: Sequence[_Step]) -> dict[str, Any]:
    longest = max(before, after, key=len)
    name, title = longest[0].name, longest[0].name
    if len(longest) > 1:
        name = f"{tight_name(name)} \N{HORIZONTAL ELLIPSIS} {tight_name(longest[-1].name)}"
        title = ", ".join(step.name for step in longest)
        title += f": {plural(len(before), 'step')} before, {len(after)} now"
    return {
        "name": name,
        "title": title,
        **{
            figure: _row(figure, _sum(before, figure), _sum(after, figure))
            for figure in LAYER_FIGURES
        },
    }


def _sum(steps: Sequence[_Step], figure: str) -> int | None:
    """None for no steps, or where one is not known."""
    known = [value for step in steps if (value := step.costs[figure]) is not None]
    return sum(known) if steps and len(known) == len(steps) else None
