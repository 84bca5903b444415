"""Measure the sample models on simulated cores and compare with `baselines.json`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.boards.board import Board, load_board
from edgec.build.staging import work_folder
from edgec.deploy.project import deploy
from edgec.errors import EdgecError
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.report.bench_layers import layer_rows, layer_table, operator_names
from edgec.report.figures import count, decimal, picked
from edgec.report.table import Column, format_table, number
from edgec.report.terminal import echo_lines
from edgec.runners.engine import RunResult, default_engine, open_session
from edgec.runners.pool import Pool
from edgec.runners.samples import generate_inputs

#: Baselines are named by core; ours by board. The M33 has the M4's instructions.
BASELINE_CORE = {"cortex-m4": "m4", "cortex-m7": "m7", "cortex-m33": "m4", "cortex-m55": "m55"}
#: The boards measured by default: one of each core that baselines and published results know.
EVERY_CORE = (
    "sim_m0", "mps2_an385", "mps2_an386", "mps2_an500", "mps2_an505", "mps3_an547",
)  # fmt: skip


@dataclass(frozen=True)
class Published:
    """Results of others on a board with this core: its clock, and whose columns they are in."""

    clock_hz: int
    st: str = ""
    other: str = ""


#: By core; the names in the file of baselines.
PUBLISHED = {
    "cortex-m0": Published(64_000_000, other="m0plus_64mhz_bosch"),
    "cortex-m4": Published(120_000_000, "x_cube_ai_9_v1_2", "plumerai_v1_1"),
    "cortex-m7": Published(280_000_000, "m7_280mhz_x_cube_ai_9"),
    "cortex-m33": Published(160_000_000, "m33_160mhz_st_v1_3"),
}


def measure_models(
    baselines: Path,
    boards: Sequence[str],
    names: Sequence[str],
    *,
    layers: bool,
    pool: Pool | None = None,
) -> list[dict[str, Any]]:
    """One row per model and board. Raises EdgecError without a baselines file, or for models
    that it does not name.

    pool: spreads the rows. instructions and cycles are of one inference on generated input,
    seed 1; cycles are modelled.
    """
    stated = read_baselines(baselines)
    models = {key: baselines.parent / "models" / e["file"] for key, e in stated["models"].items()}
    unknown = [name for name in names if name not in models]
    if unknown:
        raise EdgecError(
            f"{baselines.name} has no model {', '.join(unknown)}",
            details=(f"it has: {', '.join(models)}",),
        )
    chosen = [load_board(name) for name in boards]
    for board in chosen:
        if board.is_host:
            raise EdgecError(
                f"the board {board.name} cannot be measured: instructions are counted in simulation"
            )
    jobs = [
        (key, model, board, stated, layers)
        for key, model in models.items()
        if not names or key in names
        for board in chosen
    ]
    return pool.map(_measure_job, jobs) if pool is not None else list(map(_measure_job, jobs))


def _measure_job(job: tuple[str, Path, Board, dict[str, Any], bool]) -> dict[str, Any]:
    return _measure(*job)


def measure_help_s() -> float:
    """Seconds that `edgec --help` takes on this machine, the best of three."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        command = [sys.executable, "-m", "edgec", "--help"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return min(times)


def read_baselines(path: Path) -> dict[str, Any]:
    """The measurements of a baselines file, with every part that is looked up, or EdgecError."""
    hint = "give --baselines FILE, or set EDGEC_SHARED to the folder that holds it"
    try:
        stated: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for part in ("models", "tflm_cmsis_nn", "tflm_reference_kernels", "published_ms",
                     "layers_instructions"):  # fmt: skip
            if not isinstance(stated[part], dict):
                raise ValueError(f"{part} is not an object")
        return stated
    except OSError as error:
        raise EdgecError(f"cannot read {path}: {error.strerror}", hint=hint) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise EdgecError(f"{path} is not a file of baselines: {reason}", hint=hint) from None


def _measure(
    key: str, model: Path, board: Board, stated: dict[str, Any], layers: bool
) -> dict[str, Any]:
    started = time.perf_counter()
    compiled = compile_model(model, board.core, Options(), board=board)
    compile_s = time.perf_counter() - started
    row: dict[str, Any] = {"model": key, "board": board.name, "core": board.core.name,
                           "macs": compiled.macs, "compile_s": round(compile_s, 3),
                           "arena_bytes": compiled.program.arena_bytes, "layers": []}  # fmt: skip
    with work_folder("bench") as folder:
        try:
            built = deploy(compiled, board, folder / "project", traced=layers)
        except EdgecError as error:
            return {**row, "error": error.message}
        engine = default_engine(board)
        engine = "core" if engine == "qemu" and board.core.is_simulated else engine
        types = [(port.shape, port.dtype) for port in built.manifest.inputs]
        with open_session(engine, built) as session:
            inputs = generate_inputs(1, types)
            result = session.run(inputs)
            traced = session.run(inputs, profile=True) if layers else None
    assert built.image is not None
    row |= {
        "instructions": result.instructions,
        "cycles": result.cycles,
        "stack_bytes": result.stack_bytes,
        **picked(built.image, "code_bytes", "flash_bytes", "ram_bytes"),
        "per_mac": (result.instructions or 0) / compiled.macs,
        "cycles_per_mac": result.cycles / compiled.macs if result.cycles else None,
        **_beside(key, board, stated, result),
    }
    if traced is not None:
        theirs = stated["layers_instructions"].get(key, [])
        core = BASELINE_CORE.get(board.core.name)
        row["layers"] = layer_rows(built.manifest, traced, operator_names(model), theirs, core)
    return row


def _beside(key: str, board: Board, stated: dict[str, Any], result: RunResult) -> dict[str, Any]:
    """Known figures of other tools for this model on this core."""
    row: dict[str, Any] = {}
    core = BASELINE_CORE.get(board.core.name)
    for label, group in (("cmsis_nn", "tflm_cmsis_nn"), ("reference", "tflm_reference_kernels")):
        base = stated[group].get(core, {}).get(key)
        if base:
            row[f"{label}_instructions"] = base["instructions"]
            row[f"{label}_ratio"] = (result.instructions or 0) / base["instructions"]
            row[f"{label}_code_bytes"] = base["code_bytes"]
            row[f"{label}_arena_bytes"] = base["arena_planned_bytes"]
            row[f"{label}_ram_bytes"] = base["ram_bytes"]
            row[f"{label}_flash_bytes"] = base["flash_bytes"]
    published = PUBLISHED.get(board.core.name)
    if published is not None:
        if result.cycles:
            row["modelled_ms"] = result.cycles / published.clock_hz * 1000
        row["published_ms"] = {
            name: stated["published_ms"][name][key]
            for name in (published.st, published.other)
            if key in stated["published_ms"].get(name, {})
        }
    return row


def print_bench(rows: Sequence[dict[str, Any]], help_s: float) -> None:
    """Show the rows as one table, then one of the layers of each model.

    help_s: seconds that `edgec --help` takes.
    """
    lines: list[str] = []
    measured = [row for row in rows if "error" not in row]
    if measured:
        lines += ["One inference, beside TFLite Micro with CMSIS-NN (theirs)", ""]
        lines += [*_table_lines(measured), "", *_LEGEND, ""]
    for model in dict.fromkeys(row["model"] for row in measured if row["layers"]):
        lines += [f"{model}, layer by layer: instructions, and their part of CMSIS-NN's", ""]
        lines += [*layer_table([row for row in measured if row["model"] == model]), ""]
    lines += [f"{row['model']} on {row['board']}: {row['error']}" for row in rows if "error" in row]
    slowest = max((row["compile_s"] for row in rows), default=0.0)
    lines.append(f"edgec --help: {help_s:.2f} s; slowest compilation: {slowest:.2f} s")
    echo_lines(lines)


_LEGEND = (
    "RAM and flash: bytes of the whole program. The M33 is beside the baselines' M4.",
    "ms: modelled cycles at the clock of the published results (M4 120, M0 64,",
    "M7 280, M33 160 MHz). ST: X-CUBE-AI; other: Plumerai (M4), Bosch (M0+).",
)


def _table_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    columns = (
        Column("model"), Column("core"), number("instructions"), number("ratio"),
        number("a MAC", 8), number("Mcycles", 4), number("a MAC", 7), number("ms", 3),
        number("ST", 3), number("other", 6), number("RAM"), number("theirs"), number("flash"),
        number("theirs"), number("code", 9), number("stack", 10), number("compile s", 11),
    )  # fmt: skip
    cells = []
    for row in rows:
        published = PUBLISHED.get(row["core"], Published(0))
        theirs = row.get("published_ms", {})
        cycles = row["cycles"]
        cells.append(
            (
                row["model"],
                row["core"].removeprefix("cortex-").upper(),
                count(row["instructions"]),
                decimal(row.get("cmsis_nn_ratio"), 3),
                decimal(row["per_mac"], 2),
                decimal(cycles / 1e6 if cycles else None, 2),
                decimal(row["cycles_per_mac"], 2),
                decimal(row.get("modelled_ms"), 1),
                decimal(theirs.get(published.st), 1),
                decimal(theirs.get(published.other), 1),
                count(row["ram_bytes"]),
                count(row.get("cmsis_nn_ram_bytes")),
                count(row["flash_bytes"]),
                count(row.get("cmsis_nn_flash_bytes")),
                count(row["code_bytes"]),
                count(row["stack_bytes"]),
                decimal(row["compile_s"], 2),
            )
        )
    return format_table(columns, cells)
