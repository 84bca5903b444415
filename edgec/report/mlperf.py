"""The MLPerf Tiny models through the benchmark's own protocol: accuracy and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgec.boards.board import Board, load_board
from edgec.build.staging import work_folder
from edgec.codegen.harness import benchmark_id
from edgec.deploy.project import Built, deploy
from edgec.errors import EdgecError, RunFailed
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.report.bench import PUBLISHED, read_baselines
from edgec.report.figures import count
from edgec.report.mlperf_data import BENCHMARKS, Sample, area_under_curve, load_samples
from edgec.report.table import Column, format_table, number
from edgec.report.terminal import echo_lines
from edgec.runners.engine import open_session
from edgec.runners.mlperf_tiny import Firmware, identify, judge, measure
from edgec.runners.pool import Device, Pool
from edgec.runners.samples import generate_inputs

Progress = Callable[[str], None]

#: Clock of the board with a Cortex-M4 that the published results are of (NUCLEO-L4R5ZI).
PUBLISHED_CLOCK_HZ = PUBLISHED["cortex-m4"].clock_hz


def run_suite(
    baselines: Path,
    board: str,
    names: Sequence[str],
    pool: Pool,
    *,
    samples: int,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """One row per model: accuracy over at most `samples` samples, spread over the pool, and time.

    A board at a port holds one program: it runs the model that it reports, and without `names` the
    models are the boards' models. instructions are counted by the emulated board's clock;
    modelled_ms are the simulated core's cycles at the clock of the board in the published results;
    measured_ms are from a real board. Raises EdgecError without models or data, and the devices'
    errors.
    """
    stated = read_baselines(baselines)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        raise EdgecError(
            f"MLPerf Tiny has no model {', '.join(unknown)}",
            details=(f"it has: {', '.join(BENCHMARKS)}",),
        )
    chosen = load_board(board)
    _check_engines(pool, chosen)
    held = _held_models(pool, chosen)
    keys = names or [key for key in BENCHMARKS if _holders(held, key)]
    if not keys:
        raise _nobody_holds("a model of MLPerf Tiny", held, "flash the output of {}")
    rows = []
    for key in keys:
        fitting = _holders(held, key)
        if not fitting:
            what, hint = (
                f"the model {BENCHMARKS[key].id}",
                "flash the output of {}, or choose by --model",
            )
            raise _nobody_holds(what, held, hint)
        file = stated["models"][key]["file"]
        if progress is not None:
            progress(f"{key}: {file} on {chosen.name}")
        judged = load_samples(key, baselines.parent / "data", samples)
        row = _run_model(key, baselines.parent / "models" / file, chosen, pool, fitting, judged)
        row["published_ms"] = {
            name: times[key]
            for name, times in stated["published_ms"].items()
            if isinstance(times, dict) and key in times
        }
        rows.append(row)
    return rows


def _check_engines(pool: Pool, board: Board) -> None:
    for engine in dict.fromkeys(device.engine for device in pool.devices):
        known = engine in ("qemu", "serial") and not board.is_host
        if not known or (engine == "qemu" and board.qemu is None):
            raise EdgecError(f"the engine {engine} cannot run the board {board.name}")


def _nobody_holds(what: str, held: dict[Device, str | None], hint: str) -> EdgecError:
    return EdgecError(
        f"no device holds {what}",
        details=tuple(f"{device.name} holds {found}" for device, found in held.items()),
        hint=hint.format("`edgec build --harness mlperf-tiny`"),
    )


def _held_models(pool: Pool, board: Board) -> dict[Device, str | None]:
    """The model of each device that answers; None for emulators, which take any program."""
    held: dict[Device, str | None] = {}
    for device in pool.devices:
        if device.engine == "qemu":
            held[device] = None
            continue
        try:
            (held[device],) = pool.spread(partial(identify, board), [None], devices=[device])
        except RunFailed as error:
            if len(pool.devices) == 1:
                raise
            pool.lost[device.name] = error.message
    if not held:
        raise RunFailed(
            "no device of the pool answers",
            details=tuple(f"{name}: {said}" for name, said in pool.lost.items()),
        )
    return held


def _holders(held: dict[Device, str | None], key: str) -> list[Device]:
    return [device for device, found in held.items() if found in (None, BENCHMARKS[key].id)]


def _run_model(
    key: str,
    model: Path,
    board: Board,
    pool: Pool,
    devices: Sequence[Device],
    samples: Sequence[Sample],
) -> dict[str, Any]:
    options = Options(io="caller", harness="mlperf-tiny")
    compiled = compile_model(model, board.core, options, board=board)
    found = benchmark_id(compiled.program)
    if found != BENCHMARKS[key].id:
        raise EdgecError(f"{model.name} is not the model {BENCHMARKS[key].id}, but {found}")
    with work_folder("bench") as folder:
        built = deploy(compiled, board, folder / "project")
        assert built.artefact is not None
        firmware = Firmware(board, built.artefact, found)
        answers = pool.spread(
            partial(judge, firmware), [sample.inputs for sample in samples], devices=devices
        )
        ((engine, microseconds),) = pool.spread(
            partial(measure, firmware), [samples[-1].inputs[-1]], devices=devices
        )
        cycles = _modelled_cycles(built)
    metric, accuracy = _score(samples, answers)
    return {
        "model": key,
        "board": board.name,
        "engine": pool.name,
        "id": found,
        "samples": len(samples),
        "metric": metric,
        "accuracy": accuracy,
        # QEMU's clock: an instruction is a nanosecond.
        "instructions": round(microseconds * 1000) if engine == "qemu" else None,
        "measured_ms": microseconds / 1000 if engine == "serial" else None,
        "modelled_ms": cycles / PUBLISHED_CLOCK_HZ * 1000 if cycles else None,
    }


def _score(
    samples: Sequence[Sample], answers: Sequence[tuple[tuple[float, ...], ...]]
) -> tuple[str, float | None]:
    """The area under the curve for models with one score, else the fraction of right classes."""
    labels = [sample.label for sample in samples if sample.label is not None]
    if not labels:
        return "", None
    if len(answers[0][0]) == 1:
        scores = [float(np.mean([result[0] for result in answer])) for answer in answers]
        return "auc", area_under_curve(scores, labels)
    right = sum(
        int(np.argmax(answer[0])) == label for answer, label in zip(answers, labels, strict=True)
    )
    return "top1", right / len(labels)


def _modelled_cycles(built: Built) -> int | None:
    """Cycles of one inference on the simulated core; None for cores that are not modelled."""
    if built.board is None or not built.board.core.is_simulated:
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
            "" if row["accuracy"] is None else f"{100 * row['accuracy']:.1f} %",
            {"auc": "AUC", "top1": "top 1"}.get(row["metric"], ""),
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
    echo_lines(lines)


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
