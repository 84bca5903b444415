"""The cost of each layer over several runs, and exports for viewers of profiles.

A profiled run costs more than a plain one. The device measures and subtracts the reading of the
clock. The rest of the difference is the cost of calling the hook at the end of steps and at values;
it is divided among these calls and subtracted here. So the medians of the layers add up to the
plain run.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.codegen.manifest import Manifest
from edgec.report.figures import picked, short_title
from edgec.runners.engine import RunCost, RunResult


@dataclass(frozen=True)
class LayerCost:
    """The cost of one layer over the runs, without the cost of measuring."""

    least: int
    median: int
    most: int


@dataclass(frozen=True)
class Profile:
    """Costs of all layers, in `unit` ("instructions" or "cycles", "" if nothing is counted).

    `runs` has the costs of every layer for every run; `clock_overhead` is the cost of reading the
    clock once (the device has subtracted it), `hook_overhead` the cost of one call of the hook.
    """

    unit: str
    layers: tuple[LayerCost, ...]
    runs: tuple[tuple[int, ...], ...]
    clock_overhead: int
    hook_overhead: float


def make_profile(manifest: Manifest, plain: RunResult, profiled: Sequence[RunResult]) -> Profile:
    """Sum up profiled runs; `plain` is a run of the program without tracing."""
    first = profiled[0].layers
    unit = ""
    if first and all(step.instructions is not None for step in first):
        unit = "instructions"
    elif first and all(step.cycles is not None for step in first):
        unit = "cycles"
    if not unit:
        return Profile("", (), (), 0, 0.0)

    def counted(cost: Any) -> int:
        value = getattr(cost, unit)
        return 0 if value is None else int(value)

    calls = [layer.hook_calls for layer in manifest.layers]
    sums = [sum(map(counted, result.layers)) for result in profiled]
    hook = max(0.0, (statistics.median(sums) - counted(plain)) / sum(calls))
    runs = tuple(
        tuple(
            max(0, counted(cost) - round(hook * count))
            for cost, count in zip(result.layers, calls, strict=True)
        )
        for result in profiled
    )
    layers = tuple(
        LayerCost(min(costs), round(statistics.median(costs)), max(costs))
        for costs in zip(*runs, strict=True)
    )
    overhead = profiled[0].clock_overhead or RunCost(0, 0)
    return Profile(unit, layers, runs, counted(overhead), hook)


def chrome_trace(manifest: Manifest, profile: Profile, clock_hz: int) -> str:
    """Return the runs for chrome://tracing and Perfetto ("Trace Event Format", JSON object).

    One thread for each run, a begin and an end for each layer; times in microseconds. A counted
    instruction takes a nanosecond. No complete events: Perfetto rounds their starts and lengths
    separately, and drops events that then overlap by a nanosecond.
    """
    scale = _microseconds(profile, clock_hz)
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 0,
         "args": {"name": f"{manifest.model} on {manifest.board}"}}
    ]  # fmt: skip
    for number, costs in enumerate(profile.runs, 1):
        at = 0
        events.append({"name": "thread_name", "ph": "M", "pid": 1, "tid": number,
                       "args": {"name": f"run {number}"}})  # fmt: skip
        events.append(_event("B", number, 0.0, name=manifest.model, cat="model"))
        for layer, cost in zip(manifest.layers, costs, strict=True):
            arguments = picked(layer, "function", "shapes", "macs")
            arguments["sources"] = list(layer.sources)
            arguments[profile.unit] = cost
            name = short_title(layer.title)
            begin = _event("B", number, at * scale, name=name, cat="layer", args=arguments)
            at += cost
            events += [begin, _event("E", number, at * scale)]
        events.append(_event("E", number, at * scale))
    body = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "model": manifest.model,
            "board": manifest.board,
            "unit": profile.unit,
            "clock_hz": clock_hz if profile.unit == "cycles" else None,
            "clock_overhead": profile.clock_overhead,
            "hook_overhead": profile.hook_overhead,
        },
    }
    return json.dumps(body, indent=1) + "\n"


def speedscope(manifest: Manifest, profile: Profile, clock_hz: int) -> str:
    """Return the runs for https://www.speedscope.app: an evented profile for each run.

    Values are microseconds where cycles are counted, else instructions.
    """
    is_timed = profile.unit == "cycles"
    scale = _microseconds(profile, clock_hz) if is_timed else 1.0
    frames = [{"name": manifest.model}]
    frames += [
        {"name": short_title(layer.title), "file": layer.function} for layer in manifest.layers
    ]
    profiles = []
    for number, costs in enumerate(profile.runs, 1):
        at = 0
        events: list[dict[str, Any]] = [{"type": "O", "frame": 0, "at": 0}]
        for frame, cost in enumerate(costs, 1):
            events.append({"type": "O", "frame": frame, "at": at * scale})
            at += cost
            events.append({"type": "C", "frame": frame, "at": at * scale})
        events.append({"type": "C", "frame": 0, "at": at * scale})
        profiles.append(
            {
                "type": "evented",
                "name": f"{manifest.model} on {manifest.board}, run {number}",
                "unit": "microseconds" if is_timed else "none",
                "startValue": 0,
                "endValue": at * scale,
                "events": events,
            }
        )
    body = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": manifest.model,
        "exporter": f"edgec {manifest.edgec_version}",
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": profiles,
    }
    return json.dumps(body, indent=1) + "\n"


def _event(phase: str, thread: int, at_us: float, **words: Any) -> dict[str, Any]:
    return {"ph": phase, "ts": at_us, "pid": 1, "tid": thread, **words}


def _microseconds(profile: Profile, clock_hz: int) -> float:
    return 1e6 / clock_hz if profile.unit == "cycles" and clock_hz else 1e-3
