"""Time models on this computer's GPU beside other programs, in turns: `edgec bench --gpu`.

Each call reads its inputs from the processor's memory and waits until its outputs are there. The
other programs are ONNX Runtime on CUDA and on TensorRT for an ONNX file, and torch.compile
(max-autotune, which records CUDA graphs) for an exported PyTorch module. A program that is absent
or cannot run a model is listed with the reason.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec import __version__
from edgec.boards.board import load_board
from edgec.build.staging import work_folder
from edgec.deploy.project import Built, deploy
from edgec.errors import EdgecError, ToolMissing
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.report.environment import count_gpus, gpu_capability
from edgec.report.figures import decimal
from edgec.report.host_bench import OURS, Array, Call, interleaved
from edgec.report.html import page_environment
from edgec.report.svg import Column as ChartColumn
from edgec.report.svg import column_chart
from edgec.report.table import Column, Table, number
from edgec.report.terminal import echo_lines
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_inputs
from edgec.targets.core import CORES

METHOD = (__doc__ or "").partition("\n\n")[2].replace("\n", " ").strip()


def require_gpu() -> None:
    """Raises ToolMissing if this computer has no GPU to measure."""
    count = count_gpus()
    if not count:
        found = "CUDA's driver is not installed" if count is None else "CUDA's driver finds none"
        raise ToolMissing(
            f"bench --gpu needs an NVIDIA GPU, and {found}",
            hint="run it on a computer with a GPU; without one, `edgec verify --engine"
            " gpu_emulation` checks results, and `edgec build` shows modelled times",
        )


def measure_gpu(
    model: Path, seconds: float | None = None, rivals: Mapping[str, Rival] | None = None
) -> list[dict[str, Any]]:
    """Return the microseconds of one inference by edgec and each other program, or the error."""
    with work_folder("bench") as folder:
        built = _ours(model, folder)
        assert built.artefact is not None
        inputs = generate_inputs(1, [(p.shape, p.dtype) for p in built.manifest.inputs])
        loaded = HostModel(built.artefact, built.manifest)
        calls: dict[str, Call] = {OURS: loaded.repeated(inputs)}
        if calls[OURS]() != 0:
            raise EdgecError(f"{model.name} fails on the GPU", hint="run `edgec verify`")
        refused = {}
        for name, start in (RIVALS if rivals is None else rivals).items():
            try:
                calls[name] = start(model, inputs)
            except (ImportError, ValueError, RuntimeError) as error:
                refused[name] = str(error).strip().splitlines()[0][:80]
        times = interleaved(calls, seconds)
        loaded.call("close")
    mine = min(times[OURS])
    rows: list[dict[str, Any]] = [
        {
            "model": model.name, "by": name, "us": min(found) * 1e6, "ratio": mine / min(found),
            "median_us": statistics.median(found) * 1e6,
        }
        for name, found in times.items()
    ]  # fmt: skip
    return rows + [{"model": model.name, "by": n, "error": why} for n, why in refused.items()]


def _ours(model: Path, folder: Path) -> Built:
    """Build the model for this GPU's architecture, or for the newest older one that edgec knows."""
    board = load_board("cuda_host")
    known = [core for core in CORES.values() if core.has_gpu and core.isa == board.core.isa]
    order = sorted(known, key=lambda core: int(core.gpu_architecture.removeprefix("sm_")))
    capability = gpu_capability()
    fitting = [c for c in order if int(c.gpu_architecture.removeprefix("sm_")) <= capability]
    board = replace(board, core=fitting[-1] if fitting else order[0])
    return deploy(compile_model(model, board.core, Options(), board=board), board, folder / "m")


#: Loads a model into a program; returns a function that runs one inference on these inputs. Raises
#: ImportError, ValueError or RuntimeError if the program is absent or cannot run the model.
Rival = Callable[[Path, Sequence[Array]], Call]


def _onnx_runtime(provider: str) -> Rival:
    def start(model: Path, inputs: Sequence[Array]) -> Call:
        if model.suffix != ".onnx":
            raise ValueError("it runs .onnx files")
        import onnxruntime

        if provider not in onnxruntime.get_available_providers():
            raise ImportError(f"the installed onnxruntime has no {provider}")
        session = onnxruntime.InferenceSession(str(model), providers=[provider])
        if provider not in session.get_providers():
            raise RuntimeError(f"{provider} does not start on this computer")
        names = [entry.name for entry in session.get_inputs()]
        given = dict(zip(names, inputs, strict=True))
        return lambda: session.run(None, given)

    return start


def _torch_compile(model: Path, inputs: Sequence[Array]) -> Call:
    """Each call copies inputs to the GPU and outputs back, as edgec's does."""
    if model.suffix != ".pt2":
        raise ValueError("it runs .pt2 files")
    if importlib.util.find_spec("torch") is None:
        raise ImportError("torch is not installed")
    import torch

    from edgec.frontends.torch_archive import checked_archive

    if not torch.cuda.is_available():
        raise ImportError("the installed torch has no CUDA")
    module = torch.export.load(checked_archive(model)).module().cuda()
    compiled = torch.compile(module, mode="max-autotune")
    given = [torch.from_numpy(array) for array in inputs]

    def call() -> object:
        with torch.no_grad():
            found = compiled(*[value.cuda() for value in given])
        return [value.cpu() for value in (found if isinstance(found, tuple) else (found,))]

    return call


RIVALS: Mapping[str, Rival] = {
    "torch.compile": _torch_compile,
    "ONNX Runtime, CUDA": _onnx_runtime("CUDAExecutionProvider"),
    "ONNX Runtime, TensorRT": _onnx_runtime("TensorrtExecutionProvider"),
}


def gpu_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return one row for each model and program; ratio: edgec's time to the program's."""
    columns = Column("model"), Column("by"), number("us"), number("median"), number("ratio")
    cells = [
        (row["model"], row["by"], *(decimal(row[k], 3) for k in ("us", "median_us", "ratio")))
        for row in rows if "error" not in row
    ]  # fmt: skip
    return Table(columns, cells)


def refusals(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the programs that cannot run a model, once for each reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if "error" in row:
            by_reason.setdefault((row["by"], row["error"]), []).append(row["model"])
    return [f"{by} cannot run {', '.join(of)}: {why}" for (by, why), of in by_reason.items()]


def print_gpu(rows: Sequence[dict[str, Any]]) -> None:
    lines = ["One inference on this GPU, from call to result; ratio: edgec's time to theirs", ""]
    echo_lines([*lines, *gpu_table(rows).text(), "", *refusals(rows)])


def render_gpu(rows: Sequence[dict[str, Any]]) -> str:
    """Return the same as one page, with a bar for each program's time."""
    names = dict.fromkeys(row["model"] for row in rows)
    charts = [
        (name, "Microseconds of one inference, by program.", column_chart(
            [ChartColumn(row["by"], f"{row['by']}: {row['us']:.1f} us", (row["us"],))
             for row in rows if row["model"] == name and "us" in row],
            ("cost",), "us", f"{name} by program"))
        for name in names
    ]  # fmt: skip
    return page_environment().get_template("peers.html.j2").render(
        title="edgec beside others on a GPU", subtitle="One inference of each model on this GPU.",
        charts=charts, table=gpu_table(rows), refused=refusals(rows), version=__version__,
        versions="all on one GPU, in turns", method=METHOD,
    )  # fmt: skip
