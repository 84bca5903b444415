"""Time models on this computer, in turns with the frameworks that run them: `edgec bench --host`.

All run on one thread. Each round calls every program a few times in turn, so that a slow phase of
the machine slows all of them; the least time of a call is what noise adds least to.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.boards.board import load_board
from edgec.build.staging import work_folder
from edgec.deploy.project import deploy
from edgec.errors import EdgecError
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.report.bench import read_baselines
from edgec.report.figures import count
from edgec.report.table import Column, format_table, number
from edgec.report.terminal import echo_lines
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_inputs

Array = npt.NDArray[Any]
#: One inference on the inputs that were given before.
Call = Callable[[], object]

#: Calls of one program in a row; more than one, since the first finds caches that others filled.
CALLS = 5
#: How long a model and its rival are measured, in seconds.
DEFAULT_SECONDS = 3.0


def find_models(baselines: Path, names: Sequence[str]) -> list[Path]:
    """Model files of these names: of the file of baselines, or paths; all of the file for none.

    Raises EdgecError for a name that is neither.
    """
    paths = [Path(name) for name in names]
    if names and all(path.is_file() for path in paths):
        return paths
    stated = read_baselines(baselines)["models"]
    unknown = [name for name in names if name not in stated and not Path(name).is_file()]
    if unknown:
        raise EdgecError(
            f"{', '.join(unknown)} is no file, and {baselines.name} has no such model",
            details=(f"it has: {', '.join(stated)}",),
        )
    folder = baselines.parent / "models"
    return [folder / stated[n]["file"] if n in stated else Path(n) for n in names or stated]


def measure_host(model: Path, seconds: float | None = None) -> dict[str, Any]:
    """Microseconds of one inference by edgec and by the model's own framework.

    The rival of a TFLite file is LiteRT with XNNPACK, of an ONNX file ONNX Runtime. `rival_us` is
    None, and `rival` says why, where it is not installed or refuses the model.
    """
    board = load_board("host")
    # Inputs that no run destroys, as a framework has them.
    compiled = compile_model(model, board.core, Options(io="caller"), board=board)
    with work_folder("bench") as folder:
        built = deploy(compiled, board, folder / "project")
        assert built.artefact is not None
        ours = HostModel(built.artefact, built.manifest)
        types = [(port.shape, port.dtype) for port in built.manifest.inputs]
        inputs = generate_inputs(1, types)
        calls: dict[str, Call] = {"edgec": ours.repeated(inputs)}
        try:
            rival, call = _rival(model, inputs)
            calls[rival] = call
        except (ImportError, ValueError, RuntimeError) as error:
            rival = f"none: {str(error).strip().splitlines()[0][:60]}"
        times = _interleaved(calls, DEFAULT_SECONDS if seconds is None else seconds)
    found = times.get(rival)
    least = min(times["edgec"])
    return {
        "model": model.name, "core": board.core.name, "macs": compiled.macs,
        "edgec_us": least * 1e6, "edgec_median_us": statistics.median(times["edgec"]) * 1e6,
        "rival": rival,
        "rival_us": min(found) * 1e6 if found else None,
        "rival_median_us": statistics.median(found) * 1e6 if found else None,
        "gmacs": compiled.macs / least / 1e9,
    }  # fmt: skip


def _rival(model: Path, inputs: Sequence[Array]) -> tuple[str, Call]:
    """The framework's name and a call of one inference. Raises what its package raises."""
    if model.suffix == ".tflite":
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(str(model), num_threads=1)
        interpreter.allocate_tensors()
        for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], value)
        return "LiteRT", interpreter.invoke
    if model.suffix != ".onnx":
        raise ValueError(f"no rival runs {model.suffix} files")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    given = dict(zip(names, (np.ascontiguousarray(value) for value in inputs), strict=True))
    return "ONNX Runtime", lambda: session.run(None, given)


def _interleaved(calls: dict[str, Call], seconds: float) -> dict[str, list[float]]:
    """Seconds of each call, of programs that take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()  # caches, and whatever a framework makes at its first run
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in calls.items():
            for _ in range(CALLS):
                started = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - started)
    return times


def print_host_bench(rows: Sequence[dict[str, Any]]) -> None:
    columns = (
        Column("model", least=12), number("edgec µs"), number("median", optional=2),
        Column("beside"), number("µs"), number("median", optional=2), number("ratio"),
        number("GMAC/s", optional=1),
    )  # fmt: skip
    lines = format_table(columns, [_cells(row) for row in rows])
    cores = ", ".join(sorted({row["core"] for row in rows}))
    ends = ("", f"one thread of this computer, built as {cores}; µs: the least of all calls")
    echo_lines([*lines, *ends])


def _cells(row: dict[str, Any]) -> list[str]:
    has_rival = row["rival_us"] is not None
    ratio = f"{row['edgec_us'] / row['rival_us']:.2f}" if has_rival else ""
    return [
        row["model"], _us(row["edgec_us"]), _us(row["edgec_median_us"]), row["rival"],
        _us(row["rival_us"]), _us(row["rival_median_us"]), ratio, f"{row['gmacs']:.1f}",
    ]  # fmt: skip


def _us(value: float | None) -> str:
    """Microseconds with three digits at least."""
    if value is None:
        return ""
    return count(round(value)) if value >= 1000 else f"{value:.1f}"
