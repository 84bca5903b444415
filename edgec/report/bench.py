"""Measure the sample models on simulated cores and compare with `baselines.json`."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgec.deploy import deploy
from edgec.errors import EdgecError, ImportFailed
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.report.run import short_title
from edgec.runners.engine import default_engine, open_session
from edgec.runners.samples import generate_inputs
from edgec.target.board import Board, load_board

#: Baselines are named by core; ours by board. The M33 has the M4's instructions.
BASELINE_CORE = {"cortex-m4": "m4", "cortex-m7": "m7", "cortex-m33": "m4", "cortex-m55": "m55"}
PUBLISHED = ("x_cube_ai_9_v1_2", "plumerai_v1_1")
#: Clock of the board that the published results were measured on (NUCLEO-L4R5ZI).
PUBLISHED_CLOCK_HZ = 120_000_000


def measure_models(
    baselines: Path, boards: Sequence[str], names: Sequence[str], *, layers: bool
) -> list[dict[str, Any]]:
    """One row per model and board. Raises ImportFailed without a baselines file.

    instructions and cycles are of one inference on generated input, seed 1; cycles are modelled.
    """
    try:
        stated = json.loads(baselines.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ImportFailed(
            f"cannot read {baselines}: {error}",
            hint="give --baselines FILE, or set EDGEC_SHARED to the folder that holds it",
        ) from None
    rows = []
    for key, entry in stated["models"].items():
        if names and key not in names:
            continue
        model = baselines.parent / "models" / entry["file"]
        for board_name in boards:
            rows.append(_measure(key, model, load_board(board_name), stated, layers))
    return rows


def _measure(
    key: str, model: Path, board: Board, stated: dict[str, Any], layers: bool
) -> dict[str, Any]:
    started = time.perf_counter()
    compiled = compile_model(model, board.core, Options(), board_name=board.name)
    compile_s = time.perf_counter() - started
    row: dict[str, Any] = {"model": key, "board": board.name, "core": board.core.name,
                           "macs": compiled.macs, "compile_s": round(compile_s, 3),
                           "arena_bytes": compiled.program.arena_bytes, "layers": []}  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="edgec_bench_") as folder:
        try:
            built = deploy(compiled, board, Path(folder) / "project", traced=layers)
        except EdgecError as error:
            return {**row, "error": error.message}
        # The M55 is emulated by QEMU only.
        engine = "qemu" if board.core.has("mve") else default_engine(board)
        engine = "core" if engine == "qemu" and not board.core.has("mve") else engine
        types = [(port.shape, port.dtype) for port in built.manifest.inputs]
        with open_session(engine, built) as session:
            inputs = generate_inputs(1, types)
            result = session.run(inputs)
            traced = session.run(inputs, trace=True) if layers else None
    assert built.image is not None
    row |= {
        "instructions": result.instructions,
        "cycles": result.cycles,
        "stack_bytes": result.stack_bytes,
        "code_bytes": built.image.code_bytes,
        "flash_bytes": built.image.flash_bytes,
        "per_mac": (result.instructions or 0) / compiled.macs,
        "cycles_per_mac": result.cycles / compiled.macs if result.cycles else None,
    }
    core = BASELINE_CORE.get(board.core.name)
    for label, group in (("cmsis_nn", "tflm_cmsis_nn"), ("reference", "tflm_reference_kernels")):
        base = stated[group].get(core, {}).get(key)
        if base:
            row[f"{label}_instructions"] = base["instructions"]
            row[f"{label}_ratio"] = (result.instructions or 0) / base["instructions"]
            row[f"{label}_code_bytes"] = base["code_bytes"]
            row[f"{label}_arena_bytes"] = base["arena_planned_bytes"]
    if result.cycles and board.core.name == "cortex-m4":
        row["modelled_ms"] = result.cycles / PUBLISHED_CLOCK_HZ * 1000
        row["published_ms"] = {
            name: stated["published_ms"][name][key]
            for name in PUBLISHED
            if key in stated["published_ms"][name]
        }
    if traced is not None:
        theirs = stated["layers_instructions"].get(key, [])
        row["layers"] = _layer_rows(built, traced, theirs, core)
    return row


def _layer_rows(
    built: Any, traced: Any, theirs: Sequence[dict[str, Any]], core: str | None
) -> list[dict[str, Any]]:
    """Our steps beside the baseline's layers; reshapes have no step with us."""
    counted = [layer for layer in theirs if not layer["op"].startswith("RESHAPE")]
    rows = []
    for position, (entry, cost) in enumerate(zip(built.manifest.steps, traced.steps, strict=True)):
        base = counted[position].get(core) if core and position < len(counted) else None
        rows.append(
            {
                "layer": short_title(entry.title),
                "function": entry.function,
                "shapes": entry.shapes,
                "macs": entry.macs,
                "instructions": cost.instructions,
                "cmsis_nn_instructions": base,
                "ratio": cost.instructions / base if base and cost.instructions else None,
            }
        )
    return rows


def print_bench(rows: Sequence[dict[str, Any]]) -> None:
    """Show the rows as tables."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.width = max(console.width, 150)
    table = Table(title="one inference; ratios to TFLite Micro with CMSIS-NN")
    for heading in ("model", "board", "instructions", "ratio", "a MAC", "cycles a MAC", "ms at "
                    "120 MHz", "ST", "Plumerai", "arena", "theirs", "code", "theirs", "stack",
                    "compile s"):  # fmt: skip
        table.add_column(heading, justify="left" if heading in ("model", "board") else "right")
    for row in rows:
        if "error" in row:
            table.add_row(row["model"], row["board"], row["error"])
            continue
        published = row.get("published_ms", {})
        table.add_row(
            row["model"],
            row["board"],
            _number(row["instructions"]),
            _decimal(row.get("cmsis_nn_ratio"), 3),
            _decimal(row["per_mac"], 2),
            _decimal(row["cycles_per_mac"], 2),
            _decimal(row.get("modelled_ms"), 2),
            *(_decimal(published.get(name), 2) for name in PUBLISHED),
            _number(row["arena_bytes"]),
            _number(row.get("cmsis_nn_arena_bytes")),
            _number(row["code_bytes"]),
            _number(row.get("cmsis_nn_code_bytes")),
            _number(row["stack_bytes"]),
            f"{row['compile_s']:.2f}",
        )
    console.print(table)
    for row in rows:
        if not row["layers"]:
            continue
        detail = Table(title=f"{row['model']} on {row['board']}, layer by layer")
        for heading in ("layer", "function", "shapes", "MACs", "instructions", "CMSIS-NN", "ratio"):
            detail.add_column(heading)
        for layer in row["layers"]:
            detail.add_row(
                layer["layer"], layer["function"], layer["shapes"], _number(layer["macs"]),
                _number(layer["instructions"]), _number(layer["cmsis_nn_instructions"]),
                _decimal(layer["ratio"], 3),
            )  # fmt: skip
        console.print(detail)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _decimal(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
