"""The MLPerf Tiny models through the benchmark's own protocol: accuracy and time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from edgec.codegen.harness import benchmark_id
from edgec.deploy import Built, deploy
from edgec.errors import EdgecError
from edgec.link.ports import find_port
from edgec.link.transport import SerialTransport, Transport
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.report.bench import PUBLISHED_CLOCK_HZ, read_baselines
from edgec.report.figures import count
from edgec.report.mlperf_data import SETS, area_under_curve, load_samples
from edgec.report.table import Column, format_table, number
from edgec.runners.engine import open_session
from edgec.runners.mlperf_tiny import MlperfDevice
from edgec.runners.pool import Pool
from edgec.runners.qemu import QemuProcess
from edgec.runners.samples import generate_inputs
from edgec.target.board import Board, load_board

ENGINES = ("qemu", "serial")

#: Runs of the one measured inference; in emulation they are all alike.
_RUNS = {"qemu": 10, "serial": 100}
_WARMUPS = 2
#: An emulated board is slower than its own clock says.
_PATIENCE = {"qemu": 20.0, "serial": 1.0}

Progress = Callable[[str], None]


def run_suite(
    baselines: Path,
    board: str,
    engine: str,
    names: Sequence[str],
    *,
    samples: int,
    port: str | None = None,
    progress: Progress | None = None,
    pool: Pool | None = None,
) -> list[dict[str, Any]]:
    """One row per model: accuracy over at most `samples` samples, and time.

    instructions are counted by the emulated board's clock; modelled_ms are the simulated core's
    cycles at the clock of the board that the published results are of; measured_ms are a real
    board's. Raises EdgecError without models or data.
    """
    stated = read_baselines(baselines)
    unknown = [name for name in names if name not in SETS]
    if unknown:
        raise EdgecError(
            f"MLPerf Tiny has no model {', '.join(unknown)}",
            details=(f"it has: {', '.join(SETS)}",),
        )
    chosen = load_board(board)
    if chosen.is_host or (engine == "qemu" and chosen.qemu is None):
        raise EdgecError(f"the engine {engine} cannot be the board {chosen.name}")
    jobs = [
        (key, baselines.parent, chosen, engine, port, samples, stated)
        for key in names or tuple(SETS)
    ]
    if pool is not None:
        if engine != "qemu":
            raise EdgecError("a board holds one program: --pool is for the engine qemu here")
        return pool.map(_measure_job, jobs)
    rows = []
    for job in jobs:
        if progress is not None:
            progress(f"{job[0]}: {stated['models'][job[0]]['file']} on {chosen.name}")
        rows.append(_measure_job(job))
    return rows


def _measure_job(
    job: tuple[str, Path, Board, str, str | None, int, dict[str, Any]],
) -> dict[str, Any]:
    key, shared, board, engine, port, most, stated = job
    model = shared / "models" / stated["models"][key]["file"]
    found = load_samples(key, shared / "data", most)
    return _measure(key, model, board, engine, port, found, stated)


def _measure(
    key: str,
    model: Path,
    board: Board,
    engine: str,
    port: str | None,
    samples: Sequence[Any],
    stated: dict[str, Any],
) -> dict[str, Any]:
    options = Options(io="caller", harness="mlperf-tiny")
    compiled = compile_model(model, board.core, options, board_name=board.name)
    with tempfile.TemporaryDirectory(prefix="edgec_bench_") as folder:
        built = deploy(compiled, board, Path(folder) / "project")
        if engine == "qemu":
            assert built.artefact is not None
            with QemuProcess(board, built.artefact) as process:
                assert process.transport is not None
                row = _drive(process.transport, engine, samples, starts=True)
        else:
            baud = board.link.baud if board.link is not None else 115200
            transport = SerialTransport(port or find_port(board), baud)
            try:
                row = _drive(transport, engine, samples, starts=False)
            finally:
                transport.close()
        cycles = _modelled_cycles(built)
    expected = benchmark_id(compiled.program)
    if row["id"] != expected:
        raise EdgecError(
            f"the device holds {row['id']}, not {expected}",
            hint=f"flash what `edgec build {model.name} --harness mlperf-tiny` gives",
        )
    published = {
        name: times[key]
        for name, times in stated["published_ms"].items()
        if isinstance(times, dict) and key in times
    }
    milliseconds = cycles / PUBLISHED_CLOCK_HZ * 1000 if cycles else None
    return {
        "model": key,
        "board": board.name,
        "engine": engine,
        **row,
        "modelled_ms": milliseconds,
        "published_ms": published,
    }


def _drive(
    transport: Transport, engine: str, samples: Sequence[Any], *, starts: bool
) -> dict[str, Any]:
    device = MlperfDevice(transport, patience=_PATIENCE[engine])
    if starts:
        device.wait_for_start()
    else:
        transport.write(b"%")  # whatever a host before us has left half said
        device.wait_for_start()
    identity = device.model_id()
    scores: list[float] = []
    right = 0
    for sample in samples:
        results = []
        for data in sample.inputs:
            device.load(data)
            results.append(device.infer(1, 0).results)
        if len(results[0]) == 1:
            scores.append(float(np.mean([result[0] for result in results])))
        else:
            right += int(np.argmax(results[0])) == sample.label
    metric = "auc" if scores else "top1"
    labels = [sample.label for sample in samples]
    accuracy = area_under_curve(scores, labels) if scores else right / len(samples)
    timed = device.infer(_RUNS[engine], _WARMUPS)
    microseconds = timed.microseconds / timed.runs
    return {
        "id": identity,
        "samples": len(samples),
        "metric": metric,
        "accuracy": accuracy,
        # QEMU's clock: an instruction is a nanosecond.
        "instructions": round(microseconds * 1000) if engine == "qemu" else None,
        "measured_ms": microseconds / 1000 if engine == "serial" else None,
    }


def _modelled_cycles(built: Built) -> int | None:
    """Cycles of one inference on the simulated core; None for cores that are not modelled."""
    if built.board is None or built.board.core.has("mve"):
        return None
    with open_session("core", built) as session:
        ports = built.manifest.inputs
        return session.run(generate_inputs(1, [(p.shape, p.dtype) for p in ports])).cycles


def print_suite(rows: Sequence[dict[str, Any]]) -> None:
    """Show the rows beside the published results."""
    sources = list(dict.fromkeys(name for row in rows for name in row["published_ms"]))
    measured = any(row["measured_ms"] is not None for row in rows)
    columns = (
        Column("model"), number("samples"), number("accuracy"), Column("metric"),
        *([] if measured else [number("instructions")]),
        *([number("ms measured")] if measured else []),
        number(f"ms at {PUBLISHED_CLOCK_HZ // 1_000_000} MHz"),
    )  # fmt: skip
    table = [
        (
            f"{row['model']} ({row['id']})",
            count(row["samples"]),
            f"{100 * row['accuracy']:.1f} %",
            "AUC" if row["metric"] == "auc" else "top 1",
            *([] if measured else [count(row["instructions"])]),
            *([_ms(row["measured_ms"])] if measured else []),
            _ms(row["modelled_ms"]),
        )
        for row in rows
    ]
    lines = [
        f"MLPerf Tiny on {rows[0]['board']} ({rows[0]['engine']}), through its device protocol",
        "",
        *format_table(columns, table),
        "",
        "published, in ms",
        "",
    ]
    heads = (Column("source"), *(number(row["model"]) for row in rows))
    listed = [(name, *(_ms(row["published_ms"].get(name)) for row in rows)) for name in sources]
    ours = ("edgec, modelled", *(_ms(row["modelled_ms"]) for row in rows))
    lines += format_table(heads, [ours, *listed])
    click.echo("\n".join(lines))


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
