"""Profiles add up, and the simulated core and QEMU count the same instructions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from built_models import DIGITS, build

from edgec.report.run import run_report
from edgec.runners.engine import RunResult, open_session
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
    costs = [step.instructions or 0 for step in traced.steps]
    assert all(costs)
    # QEMU's clock may be a step of its resolution late at each of the events.
    slack = len(costs) * (TRACING_PER_STEP + 2 * traced.resolution)
    assert abs(sum(costs) - plain.instructions) <= slack


def test_every_row_names_its_source_layers(tmp_path: Path) -> None:
    compiled, built = build(DIGITS, BOARD, traced=True)
    traced = ran("core", profile=True)
    rows = run_report(built, "core", [ran("core", profile=False)], traced, None)["layers"]
    names = {name for node in compiled.imported.main.nodes for name in (node.name, *node.sources)}
    assert len(rows) == len(built.manifest.steps)
    for row in rows:
        assert row["sources"] and row["shapes"] and row["instructions"]
        assert any(name in row["title"] for name in names), row["title"]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert sum(row["macs"] for row in rows) == sum(step.macs for step in built.manifest.steps)


def test_core_and_qemu_agree_within_the_clocks_resolution() -> None:
    core, qemu = ran("core", profile=False), ran("qemu", profile=False)
    assert core.instructions is not None and qemu.instructions is not None
    for want, got in zip(core.outputs, qemu.outputs, strict=True):
        assert want.tobytes() == got.tobytes()
    # Both ends of the measured span may be off by one step of SysTick, and the firmware reads
    # the clock itself within it.
    assert abs(core.instructions - qemu.instructions) <= 2 * qemu.resolution
