"""Time models on this computer, in turns with the frameworks that run them: `edgec bench --host`.

All run on the same number of threads. Each round calls every program a few times in turn, so that a
slow phase of the machine slows all of them; noise adds the least to the shortest time of a call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.boards.board import load_board
from edgec.build.staging import work_folder
from edgec.deploy.project import Built, deploy
from edgec.errors import EdgecError
from edgec.options import Options
from edgec.pipeline import Compiled, compile_model
from edgec.report.bench import read_baselines
from edgec.report.figures import count
from edgec.report.table import Column, format_table, number
from edgec.report.terminal import echo_lines
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_inputs
from edgec.targets.core import Core

Array = npt.NDArray[Any]
#: One inference on the inputs that were given before.
Call = Callable[[], object]

#: Calls of one program in a row; more than one, since the first finds caches that others filled.
CALLS = 5
#: How long a model and its rival are measured, in seconds.
DEFAULT_SECONDS = 3.0
OURS = "edgec"
#: The scalar that detectors of speech take beside their samples, in Hz.
DEFAULT_RATE = 16000


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
            f"{', '.join(unknown)} is not a file, and {baselines.name} has no such model",
            details=(f"it has: {', '.join(stated)}",),
        )
    folder = baselines.parent / "models"
    return [folder / stated[n]["file"] if n in stated else Path(n) for n in names or stated]


@dataclass(frozen=True)
class Setup:
    """The options of timing.

    seconds: duration; None: DEFAULT_SECONDS. core: for our builds, None for all features of this
    computer. threads: of every program. options: more words of `Options`.
    """

    seconds: float | None = None
    core: Core | None = None
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


def measure_host(
    model: Path, setup: Setup | None = None, rivals: Sequence[Path] | None = None
) -> dict[str, Any]:
    """Microseconds of one inference by edgec and by the fastest of the rivals' frameworks.

    rivals: files of the same model; None for `model` itself. The framework of a TFLite file is
    LiteRT with XNNPACK, of an ONNX file ONNX Runtime. `rival_us` is None, and `rival` says why,
    where none is installed or takes its file.
    """
    setup = setup or Setup()
    paths = (model,) if rivals is None else rivals
    with ours(model, setup) as (compiled, built):
        assert built.artefact is not None
        types = [(port.shape, port.dtype) for port in built.manifest.inputs]
        inputs = generate_inputs(1, types)
        loaded = HostModel(built.artefact, built.manifest)  # whose memory the call uses
        calls: dict[str, Call] = {OURS: loaded.repeated(inputs)}
        status = calls[OURS]()
        if status != 0:
            raise EdgecError(f"{model.name} returns ec_status {status}", hint="run `edgec verify`")
        given = [(path, inputs if path == model else None) for path in paths]
        refusal = _add_rivals(calls, given, setup.threads)
        times = interleaved(calls, setup.seconds)
    return _row(model, compiled, times, refusal)


def _row(
    model: Path, compiled: Compiled, times: dict[str, list[float]], refusal: str
) -> dict[str, Any]:
    """Ours beside the fastest of the others."""
    mine = times.pop(OURS)
    rival = min(times, key=lambda name: min(times[name]), default=refusal)
    found = times.get(rival)
    return {
        "model": model.name, "core": compiled.program.target, "macs": compiled.macs,
        "edgec_us": min(mine) * 1e6, "edgec_median_us": statistics.median(mine) * 1e6,
        "rival": rival,
        "rival_us": min(found) * 1e6 if found else None,
        "rival_median_us": statistics.median(found) * 1e6 if found else None,
        "gmacs": compiled.macs / min(mine) / 1e9,
    }  # fmt: skip


def _add_rivals(
    calls: dict[str, Call], given: Sequence[tuple[Path, Sequence[Array] | None]], threads: int
) -> str:
    """Add the frameworks that run their files; returns why the last failed one does not."""
    refusal = "none"
    for path, inputs in given:
        try:
            name, call = _rival(path, inputs, threads)
            calls[name] = call
        except (ImportError, ValueError, RuntimeError) as error:
            refusal = f"none: {str(error).strip().splitlines()[0][:60]}"
    return refusal


@contextmanager
def ours(model: Path, setup: Setup, *, traced: bool = False) -> Iterator[tuple[Compiled, Built]]:
    """A model built for this computer, with inputs that no run destroys, as frameworks have them.

    traced: also with the trace hook. Raises EdgecError where it cannot be compiled.
    """
    board = load_board("host")
    if setup.core is not None:
        board = replace(board, core=setup.core)
    options = Options(io="caller", threads=setup.threads, **setup.options)
    compiled = compile_model(model, board.core, options, board=board)
    with work_folder("bench") as folder:
        yield compiled, deploy(compiled, board, folder / "project", traced=traced)


def _rival(path: Path, inputs: Sequence[Array] | None, threads: int) -> tuple[str, Call]:
    """The framework's name and a function for one inference; without inputs it chooses some.

    Raises the package's exceptions.
    """
    if path.suffix == ".tflite":
        return "LiteRT", _litert(path, inputs, threads)
    if path.suffix != ".onnx":
        raise ValueError(f"no rival runs {path.suffix} files")
    return "ONNX Runtime", _onnx_runtime(path, inputs, threads)


def _litert(path: Path, inputs: Sequence[Array] | None, threads: int) -> Call:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=threads)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    if inputs is None:
        inputs = generate_inputs(1, [(d["shape"], d["dtype"]) for d in details])
    for detail, value in zip(details, inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    call: Call = interpreter.invoke
    return call


def _onnx_runtime(path: Path, inputs: Sequence[Array] | None, threads: int) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    entries, rate = session.get_inputs(), np.array(DEFAULT_RATE, np.int64)
    if inputs is None:
        shapes = ([d if isinstance(d, int) else 1 for d in e.shape] for e in entries)
        inputs = generate_inputs(1, [(shape, np.float32) for shape in shapes])
    left = iter(inputs)
    # An input that is one number in the file is a constant in our build.
    given = {
        entry.name: np.ascontiguousarray(next(left)) if entry.shape else rate for entry in entries
    }
    return lambda: session.run(None, given)


def interleaved(calls: dict[str, Call], seconds: float | None) -> dict[str, list[float]]:
    """Seconds of each call, of programs that take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()  # caches, and whatever a framework makes at its first run
    end = time.perf_counter() + (DEFAULT_SECONDS if seconds is None else seconds)
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
