"""The parts of a model that run on the GPU and on the processor, with modelled times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgec.build import nvrtc
from edgec.codegen.one_launch import plan_of
from edgec.codegen.segments import segments_of
from edgec.loop.cost import estimate
from edgec.report.figures import plural
from edgec.report.table import Column, format_table, number
from edgec.targets.core import CORES
from edgec.targets.cuda.costs import GPUS, Gpu, copy_us, kernels_us, on_processor_us

if TYPE_CHECKING:
    from edgec.codegen.program import Program, Step


_DRIVERS = {
    "block": "one launch: all kernels as one block of threads",
    "grid": "one launch: all kernels run as one grid, and its blocks wait for each other",
}


def segment_rows(program: Program) -> list[dict[str, Any]]:
    """Return, for each segment of a run with a GPU: side, layers, copies before it, microseconds of
    layers and copies by the models of `edgec.targets.cuda.costs`.
    """
    core = CORES.get(program.target)
    if core is None or not core.has_gpu:
        return []
    gpu = GPUS[core.gpu_architecture]
    has_copies = gpu.has_own_memory and driver_of(program) in ("", "graph")
    return [
        {
            "on": "processor" if segment.on_processor else "gpu",
            "layers": [step.title for step in program.steps[segment.start : segment.stop]],
            "copied_bytes": sum(copy.nbytes for copy in copies),
            "copies": len(copies),
            "model_us": round(
                sum(copy_us(copy.nbytes, gpu) for copy in copies)
                + _steps_us(program, program.steps[segment.start : segment.stop], gpu),
                1,
            ),
        }
        for segment in segments_of(program)
        for copies in [segment.copies if has_copies else ()]
        if segment.start < segment.stop or copies
    ]


def _steps_us(program: Program, steps: tuple[Step, ...], gpu: Gpu) -> float:
    """The time of one side's steps, with a start of the GPU."""
    if not steps:
        return 0.0
    if steps[0].on_processor:
        costs = (estimate(step.function, callees=program.callees) for step in steps)
        return sum(on_processor_us(cost.instructions, gpu) for cost in costs)
    if any(step.on_processor for step in program.general_steps):
        return gpu.start_us + sum(kernels_us(s.function, gpu, program.callees) for s in steps)
    plan = plan_of(program)
    return gpu.start_us + plan.us + (plan.ports_us if plan.driver != "graph" else 0)


def driver_of(program: Program) -> str:
    """The driver that runs the kernels on a GPU; "" without one, or if a processor runs a part."""
    core = CORES.get(program.target)
    on_processor = any(step.on_processor for step in program.general_steps)
    return plan_of(program).driver if core and core.has_gpu and not on_processor else ""


def spare_layers(program: Program) -> int:
    """The number of layers that run only without a GPU."""
    version = program.without_gpu
    return 0 if version is None else version.stop - version.start


def kernel_words(program: Program) -> str:
    """The kernels that the installed compiler cannot compile for a GPU; "" if it makes machine
    code.
    """
    core = CORES.get(program.target)
    return nvrtc.what_is_missing(core.gpu_architecture) if core and core.has_gpu else ""


def segment_lines(report: dict[str, Any]) -> list[str]:
    """The segments of a report as a table, with remarks; empty without a GPU."""
    rows, spare, kernels = (report[key] for key in ("segments", "layers_without_gpu", "kernels"))
    if not rows:
        return []
    columns = (
        Column("runs on"), Column("layers"), number("bytes copied before"), number("us (modelled)"),
    )  # fmt: skip
    cells = [
        (row["on"], _words(row["layers"]), f"{row['copied_bytes']:,}", f"{row['model_us']:,}")
        for row in rows
    ]
    layers = plural(spare, "layer")
    note = [f"without a GPU, {layers} run on the processor instead"] if spare else []
    note += [_DRIVERS[report["driver"]]] if report["driver"] in _DRIVERS else []
    return ["", *format_table(columns, cells), *note, *filter(None, [kernels])]


def _words(titles: list[str]) -> str:
    if not titles:
        return "copies alone"
    names = [title.partition('"')[2].rstrip('"') or title for title in titles]
    ends = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return f"{plural(len(names), 'layer')}: {ends}"
