"""How a program looks on a GPU: the text of its kernels, and the launches of each step."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgec import __version__
from edgec.codegen.c_data import Weights, comment_text
from edgec.codegen.c_function import emit_function
from edgec.codegen.c_kernel import Kernel, emit_parts, without_traces
from edgec.codegen.foreign_text import foreign_texts
from edgec.codegen.graph_launches import KernelTexts, LaunchText, graph_texts
from edgec.codegen.names import identifier, unique
from edgec.codegen.one_launch import Plan, maps_ports, one_kernel, plan_of
from edgec.codegen.port_text import Pointers
from edgec.codegen.program import Port, Program
from edgec.codegen.runtime_source import needed_functions
from edgec.codegen.segments import segments_of
from edgec.codegen.share import share, share_callees
from edgec.errors import BuildFailed
from edgec.loop.bound import Launch
from edgec.resources import resource_dir, text_templates
from edgec.targets.core import CORES
from edgec.targets.cuda.crew import BLOCK_THREADS


@dataclass(frozen=True)
class Images:
    """The machine code of a model's kernels.

    compiler: its name. ptx: for the driver to compile, for this architecture or newer ones. cubin:
    machine code for the model's architecture; empty without an assembler.
    """

    compiler: str
    architecture: str
    ptx: str
    cubin: bytes = b""

    @property
    def ptx_lines(self) -> tuple[str, ...]:
        """The PTX as string literals of C."""
        escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in self.ptx.splitlines())
        return tuple(f'"{line}\\n"' for line in escaped if line)

    @property
    def cubin_lines(self) -> tuple[str, ...]:
        """The machine code as numbers of 64 bits."""
        data = self.cubin + bytes(-len(self.cubin) % 8)
        words = [data[at : at + 8][::-1].hex() for at in range(0, len(data), 8)]
        return tuple(
            ", ".join(f"0x{word}u" for word in words[at : at + 4]) + ","
            for at in range(0, len(words), 4)
        )


@dataclass(frozen=True)
class CopyText:
    """A copy of bytes: their offset from the context's pointers in both memories, and their number.

    is_spared: whether one launch does without, which uses the host's arena where it may.
    """

    place: str
    bytes: str
    is_spared: bool = False


@dataclass(frozen=True)
class SegmentText:
    """Steps on one side: their numbers, and the copies before them.

    graph: the number of the context's graph with its kernels; -1 for none.
    """

    on_processor: bool
    graph: int
    start: int
    stop: int
    copies: tuple[CopyText, ...]


@dataclass(frozen=True)
class GpuText:
    """The values of the GPU's templates.

    source: the kernels. launches: by step. step_functions: by step, the first kernel. segments: of
    a run, in order. is_graph: every run has the same launches, which are recorded once. whole: one
    launch of the model instead of a launch per step. maps_ports: it reads inputs from the host's
    arena and writes outputs there, if the driver allows it.
    """

    architecture: str
    source: str
    launches: Mapping[int, tuple[LaunchText, ...]]
    step_functions: Mapping[int, str]
    segments: tuple[SegmentText, ...]
    callees: Mapping[str, str]
    weights_bytes: int
    is_graph: bool
    whole: LaunchText | None = None
    maps_ports: bool = False

    @property
    def libraries(self) -> tuple[LaunchText, ...]:
        """The launches that a library starts."""
        return tuple(each for step in self.launches.values() for each in step if each.numbers)

    @property
    def library_names(self) -> tuple[str, ...]:
        """The libraries: each has a struct and a header of its name after `ec_`."""
        return tuple(sorted({each.library for each in self.libraries}))

    @property
    def together(self) -> tuple[tuple[int, ...], ...]:
        """The steps of each launch of a graph, in order; none where a run is one launch."""
        every = (each for _, step in sorted(self.launches.items()) for each in step)
        return () if self.whole else tuple(each.steps for each in every)


def make_gpu_text(program: Program, weights: Weights, taken: Sequence[str]) -> GpuText:
    """Write the kernels of a program; `taken` are names that its C has already.

    Raises BuildFailed for C of the user's own, which no GPU runs.
    """
    _require_own(program)
    silent = replace(
        program,
        steps=tuple(replace(s, function=without_traces(s.function)) for s in program.steps),
        callees={name: without_traces(f) for name, f in program.callees.items()},
    )
    device, callees = _device_functions(silent, taken)
    used = [*taken, *callees.values()]
    plan = plan_of(silent)
    if plan.driver == "graph":
        texts = graph_texts(silent, plan, weights, callees, used)
    else:
        texts = _whole(silent, plan, weights, callees, used)
    return GpuText(
        architecture=CORES[program.target].gpu_architecture,
        source=_source(program, device, texts),
        launches=texts.launches,
        step_functions=texts.step_functions,
        segments=_segments(program, weights),
        callees=callees,
        weights_bytes=weights.stored_bytes,
        is_graph=not program.sizes,
        whole=texts.whole,
        maps_ports=maps_ports(program, plan),
    )


def _whole(
    program: Program, plan: Plan, weights: Weights, callees: Mapping[str, str],
    taken: Sequence[str],
) -> KernelTexts:  # fmt: skip
    """One kernel, which runs the steps of a launch's last two arguments."""
    shared = share(program, "gpu")
    wanted = (f"{program.model}_{identifier(item.function.name)}" for item in shared)
    name, *names = unique([f"{program.model}_{plan.driver}", *wanted], taken=taken)
    parts = [
        emit_parts(item.function, part, callees, item.known, plan.crew)
        for part, item in zip(names, shared, strict=True)
    ]
    by_step = {step: p for p, item in zip(parts, shared, strict=True) for step in item.steps}
    size = (plan.crew.blocks, 1, 1, BLOCK_THREADS, 1, 1)
    arena = ("gpu->arena",) if plan.driver == "grid" else ()
    ports = ("gpu->ports",) if plan.driver == "block" or maps_ports(program, plan) else ()

    def launch(start: int, stop: int) -> LaunchText:
        places = *arena, *ports, "gpu->state", "gpu->weights", f"{start}u", f"{stop}u"
        is_cluster = plan.crew.is_cluster
        return LaunchText(name, size, places, plan.shared_bytes, plan.driver == "grid", is_cluster)

    kernel = one_kernel(program, plan, name, weights, by_step)
    return KernelTexts(
        tuple(part.text for each in parts for part in each),
        (Kernel(name, kernel, Launch(size), (), waits=True),),
        {step: (launch(step, step + 1),) for step in by_step},
        {step: parts[0].name for step, parts in by_step.items()},
        launch(0, len(program.general_steps)),
    )


def _segments(program: Program, weights: Weights) -> tuple[SegmentText, ...]:
    """The segments of a run, in order. A program only for a GPU copies the ports' buffers."""
    pointers, graphs = Pointers(program, weights), itertools.count()
    found = segments_of(program)
    if not any(step.on_processor for step in program.general_steps):
        copies = [_ports(program, ports, pointers) for ports in (program.inputs, program.outputs)]
        steps = len(program.general_steps)
        return (
            SegmentText(False, 0, 0, steps, copies[0]),
            SegmentText(True, -1, steps, steps, copies[1]),
        )
    return tuple(
        SegmentText(
            segment.on_processor,
            -1 if segment.on_processor or segment.start == segment.stop else next(graphs),
            segment.start, segment.stop,
            tuple(
                CopyText(f"{'state' if c.is_state else 'arena'} + {c.start}", f"{c.nbytes}u")
                for c in segment.copies
            ),
        )
        for segment in found
    )  # fmt: skip


def _ports(program: Program, ports: Sequence[Port], pointers: Pointers) -> tuple[CopyText, ...]:
    is_one = maps_ports(program, plan_of(program))
    return tuple(
        CopyText(
            pointers.raw(p.buffer), pointers.used_bytes(p),
            is_one and p.buffer not in program.state_buffers,
        )
        for p in ports
        if p.buffer in program.offsets
    )  # fmt: skip


def _require_own(program: Program) -> None:
    steps = tuple(step for step in program.steps if not step.on_processor)
    foreign = foreign_texts(replace(program, steps=steps))
    if foreign:
        raise BuildFailed(
            f"{foreign[0].name} is C of your own, which runs on processors alone",
            hint="build with --offload auto, which leaves it to the processor",
        )


def _device_functions(program: Program, taken: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The texts of functions that kernels call, and their C names by their names in the program."""
    called = share_callees(program, "gpu")
    wanted = (f"{program.model}_{identifier(s.function.name)}_row" for s in called)
    names = unique(wanted, taken=taken)
    callees = {callee: name for name, s in zip(names, called, strict=True) for callee in s.callees}
    texts = [
        emit_function(s.function, name, callees=callees, known=s.known).text
        for name, s in zip(names, called, strict=True)
    ]
    return texts, callees


def _source(program: Program, device: Sequence[str], texts: KernelTexts) -> str:
    functions = (*device, *texts.functions)
    every = [*functions, *(kernel.text for kernel in texts.kernels)]
    start = resource_dir("runtime_c") / "cuda" / "ec_cuda_kernel.h"
    return text_templates().get_template("kernels.cu.j2").render(
        version=__version__,
        model=program.model,
        source_file=comment_text(program.source_file),
        start=start.read_text(encoding="utf-8"),
        whole=texts.whole,
        helpers=tuple(function.text for function in needed_functions(every)),
        functions=functions,
        kernels=texts.kernels,
    )  # fmt: skip
