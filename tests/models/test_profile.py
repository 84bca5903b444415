"""Profiles add up, and the simulated core and QEMU count the same instructions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from built_models import DIGITS, build

from edgec.codegen.manifest import Manifest
from edgec.report.profile import Profile, chrome_trace, make_profile, speedscope
from edgec.report.run import run_report
from edgec.runners.engine import RunCost, RunResult, open_session
from edgec.runners.samples import generate_inputs

BOARD = "mps2_an386"
#: Instructions that tracing may add to a step: arguments and calls of the hook for the step's
#: end and its value, whose own instructions are not counted.
TRACING_PER_STEP = 20


def ran(engine: str, *, profile: bool) -> RunResult:
    if engine == "qemu" and shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    if engine == "core":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    _, built = build(DIGITS, BOARD, traced=True)
    inputs = generate_inputs(1, [(port.shape, port.dtype) for port in built.manifest.inputs])
    with open_session(engine, built) as session:
        return session.run(inputs, profile=profile)


@pytest.mark.parametrize("engine", ["core", "qemu"])
def test_rows_sum_up_to_the_run(engine: str) -> None:
    plain, traced = ran(engine, profile=False), ran(engine, profile=True)
    assert plain.instructions is not None
    costs = [step.instructions or 0 for step in traced.layers]
    assert all(costs)
    # QEMU's clock may be a step of its resolution late at each of the events.
    slack = len(costs) * (TRACING_PER_STEP + 2 * traced.resolution)
    assert abs(sum(costs) - plain.instructions) <= slack


def test_every_row_names_its_source_layers(tmp_path: Path) -> None:
    compiled, built = build(DIGITS, BOARD, traced=True)
    traced = ran("core", profile=True)
    rows = run_report(built, "core", [ran("core", profile=False)], [traced], None)["layers"]
    names = {name for node in compiled.imported.main.nodes for name in (node.name, *node.sources)}
    assert len(rows) == len(built.manifest.layers)
    for row in rows:
        assert row["sources"] and row["shapes"] and row["instructions"]
        assert any(name in row["title"] for name in names), row["title"]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert sum(row["macs"] for row in rows) == sum(layer.macs for layer in built.manifest.layers)


@pytest.mark.parametrize("engine", ["core", "qemu"])
def test_layers_that_run_row_by_row_have_rows_of_their_own(
    engine: str, sample_model: Callable[[str], Path]
) -> None:
    """A streamed network costs what its layers cost; each is named, and costs about what it costs
    alone."""
    if engine == "qemu" and shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    model = sample_model("mlperf_kws_dscnn_int8.tflite")
    profiles = {}
    for optimize in ("ram", "time"):
        _, built = build(model, BOARD, traced=True, optimize=optimize)
        inputs = generate_inputs(1, [(port.shape, port.dtype) for port in built.manifest.inputs])
        with open_session(engine, built) as session:
            plain, profiled = session.run(inputs), session.run(inputs, profile=True)
        profile = make_profile(built.manifest, plain, [profiled])
        layers = built.manifest.layers
        total = sum(cost.median for cost in profile.layers)
        slack = len(layers) + 2 * plain.resolution * sum(layer.hook_calls for layer in layers)
        assert abs(total - (plain.instructions or 0)) <= slack
        assert sum(layer.macs for layer in layers) == built.manifest.macs
        profiles[optimize] = {
            layer.sources: (layer.macs, cost.median)
            for layer, cost in zip(layers, profile.layers, strict=True)
        }
        assert bool(built.manifest.parts) == (optimize == "ram")
        assert Manifest.load(built.project) == built.manifest
    assert profiles["ram"].keys() == profiles["time"].keys()
    for sources, (macs, cost) in profiles["ram"].items():
        if macs > 10_000:
            assert 0.8 <= cost / profiles["time"][sources][1] <= 1.4, sources


def test_core_and_qemu_agree_within_the_clocks_resolution() -> None:
    core, qemu = ran("core", profile=False), ran("qemu", profile=False)
    assert core.instructions is not None and qemu.instructions is not None
    for want, got in zip(core.outputs, qemu.outputs, strict=True):
        assert want.tobytes() == got.tobytes()
    # Both ends of the measured span may be off by one step of SysTick, and the firmware reads
    # the clock itself within it.
    assert abs(core.instructions - qemu.instructions) <= 2 * qemu.resolution


def repeated(engine: str, runs: int, board: str = BOARD) -> tuple[Manifest, RunResult, Profile]:
    if engine == "qemu" and shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    _, built = build(DIGITS, board, traced=True)
    inputs = generate_inputs(1, [(port.shape, port.dtype) for port in built.manifest.inputs])
    with open_session(engine, built) as session:
        plain = session.run(inputs)
        profiled = [session.run(inputs, profile=True) for _ in range(runs)]
    return built.manifest, plain, make_profile(built.manifest, plain, profiled)


@pytest.mark.parametrize(
    ("engine", "board"),
    [("core", BOARD), ("qemu", BOARD), ("qemu", "netduinoplus2"), ("qemu", "bbc_microbit")],
    ids=["core", "SysTick at 25 MHz", "SysTick at 168 MHz", "a timer at 16 MHz"],
)
def test_medians_sum_up_to_the_plain_run(engine: str, board: str) -> None:
    """What measuring costs is subtracted, so that nothing but the clock's resolution is left."""
    _, plain, profile = repeated(engine, 5, board)
    assert profile.unit == "instructions" and len(profile.runs) == 5
    assert 0 < profile.hook_overhead <= 60
    total = sum(layer.median for layer in profile.layers)
    assert abs(total - (plain.instructions or 0)) <= len(profile.layers) * (1 + plain.resolution)
    for layer, costs in zip(profile.layers, zip(*profile.runs, strict=True), strict=True):
        assert layer.least == min(costs) <= layer.median <= max(costs) == layer.most
        if engine == "core":
            assert layer.least == layer.most  # the same instructions every time


def spans_of(trace: dict[str, Any], thread: int) -> list[dict[str, Any]]:
    """The spans of a thread in order of their begins, as viewers find them: each end closes the
    latest begin. Complete events are none of them: viewers drop those that overlap once rounded."""
    spans: list[dict[str, Any]] = []
    opened: list[dict[str, Any]] = []
    latest = 0.0
    for event in trace["traceEvents"]:
        assert {"ph", "pid", "tid"} <= event.keys()
        if event["ph"] == "M" or event["tid"] != thread:
            continue
        assert event["ts"] >= latest
        latest = event["ts"]
        if event["ph"] == "B":
            opened.append({**event, "dur": None})
            spans.append(opened[-1])
        else:
            assert event["ph"] == "E"
            span = opened.pop()
            span["dur"] = event["ts"] - span["ts"]
    assert not opened
    return spans


def test_exports_hold_every_run() -> None:
    manifest, _, profile = repeated("core", 2)
    trace = json.loads(chrome_trace(manifest, profile, 25_000_000))
    for run in (1, 2):
        whole, *layers = spans_of(trace, run)
        assert whole["name"] == manifest.model and len(layers) == len(manifest.layers)
        assert sum(layer["dur"] for layer in layers) == pytest.approx(whole["dur"])
        at = 0.0
        for layer, cost in zip(layers, profile.runs[run - 1], strict=True):
            assert layer["ts"] == pytest.approx(at)
            assert layer["args"]["instructions"] == cost
            assert layer["dur"] == pytest.approx(cost / 1000)  # an instruction is a nanosecond
            at += layer["dur"]
    scope = json.loads(speedscope(manifest, profile, 25_000_000))
    assert scope["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert len(scope["shared"]["frames"]) == 1 + len(manifest.layers)
    for entry, costs in zip(scope["profiles"], profile.runs, strict=True):
        assert (entry["type"], entry["unit"], entry["endValue"]) == ("evented", "none", sum(costs))
        open_frames: list[int] = []
        for event in entry["events"]:
            if event["type"] == "O":
                open_frames.append(event["frame"])
            else:
                assert open_frames.pop() == event["frame"]
        assert not open_frames
        times = [event["at"] for event in entry["events"]]
        assert times == sorted(times)


def test_cycles_become_microseconds_by_the_clock() -> None:
    manifest, plain, _ = repeated("core", 1)
    count = len(manifest.layers)
    slow = replace(plain, instructions=None, cycles=100 * count,
                   layers=tuple(RunCost(None, 110 + i) for i in range(count)))  # fmt: skip
    fast = replace(slow, layers=tuple(RunCost(None, 90) for _ in range(count)))
    profile = make_profile(manifest, slow, [fast, slow, fast])
    assert profile.unit == "cycles"
    assert profile.hook_overhead == 0.0  # these runs are not longer than the plain one
    assert [layer.median for layer in profile.layers] == [90] * count
    assert profile.layers[-1].most == 109 + count
    spans = spans_of(json.loads(chrome_trace(manifest, profile, 1_000_000)), 1)
    assert [span["dur"] for span in spans] == [90 * count] + [90] * count
    scope = json.loads(speedscope(manifest, profile, 2_000_000))["profiles"][0]
    assert (scope["unit"], scope["endValue"]) == ("microseconds", 45 * count)
