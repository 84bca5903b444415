"""How a program looks on a GPU: the text of its kernels, and the launches of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgec import __version__
from edgec.codegen.c_data import Weights, comment_text
from edgec.codegen.c_function import emit_function
from edgec.codegen.c_kernel import Kernel, emit_kernels, without_traces
from edgec.codegen.foreign_text import foreign_texts
from edgec.codegen.names import identifier, unique
from edgec.codegen.port_text import Pointers
from edgec.codegen.program import Program
from edgec.codegen.runtime_source import needed_functions
from edgec.codegen.share import share, share_callees
from edgec.errors import BuildFailed
from edgec.resources import resource_dir, text_templates
from edgec.targets.core import CORES


@dataclass(frozen=True)
class Images:
    """What a model's kernels are compiled to.

    compiler: what made them. ptx: for the driver to compile, of the GPU's architecture or newer.
    cubin: machine code for exactly this architecture; empty where nothing was there to make it.
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
class LaunchText:
    """One launch: the kernel's name, blocks and threads, and its arguments as C expressions."""

    kernel: str
    size: tuple[int, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class GpuText:
    """What the templates say of a GPU.

    source: the kernels. launches: of each step. step_functions: the first kernel of each step.
    is_graph: whether every run starts the same, which is then recorded once.
    """

    architecture: str
    source: str
    launches: tuple[tuple[LaunchText, ...], ...]
    step_functions: tuple[str, ...]
    callees: Mapping[str, str]
    weights_bytes: int
    is_graph: bool


def runs_on_gpu(program: Program) -> bool:
    """Whether the program's target is a GPU."""
    return program.target in CORES and CORES[program.target].has_gpu


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
    shared = share(silent)
    names = unique(
        (f"{program.model}_{identifier(item.function.name)}" for item in shared),
        taken=[*taken, *callees.values()],
    )
    kernels = [
        emit_kernels(item.function, name, callees, item.known)
        for name, item in zip(names, shared, strict=True)
    ]
    by_step = {step: k for k, item in zip(kernels, shared, strict=True) for step in item.steps}
    steps = range(len(program.steps))
    return GpuText(
        architecture=CORES[program.target].gpu_architecture,
        source=_source(program, device, [kernel for each in kernels for kernel in each]),
        launches=tuple(_launches(silent, weights, step, by_step[step]) for step in steps),
        step_functions=tuple(by_step[step][0].name for step in steps),
        callees=callees,
        weights_bytes=weights.stored_bytes,
        is_graph=not program.sizes,
    )


def _require_own(program: Program) -> None:
    foreign = foreign_texts(program)
    if foreign:
        raise BuildFailed(
            f"{foreign[0].name} is C of your own, which runs on processors alone",
            hint="build for the host, or without it",
        )


def _device_functions(program: Program, taken: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The texts of functions that kernels call, and their names by those in the program."""
    called = share_callees(program)
    wanted = (f"{program.model}_{identifier(s.function.name)}_row" for s in called)
    names = unique(wanted, taken=taken)
    callees = {callee: name for name, s in zip(names, called, strict=True) for callee in s.callees}
    texts = [
        emit_function(s.function, name, callees=callees, known=s.known).text
        for name, s in zip(names, called, strict=True)
    ]
    return texts, callees


def _source(program: Program, device: Sequence[str], kernels: Sequence[Kernel]) -> str:
    texts = [*device, *(kernel.text for kernel in kernels)]
    start = resource_dir("runtime_c") / "cuda" / "ec_cuda_kernel.h"
    return text_templates().get_template("kernels.cu.j2").render(
        version=__version__,
        model=program.model,
        source_file=comment_text(program.source_file),
        start=start.read_text(encoding="utf-8"),
        helpers=tuple(function.text for function in needed_functions(texts)),
        functions=device,
        kernels=kernels,
    )  # fmt: skip


def _launches(
    program: Program, weights: Weights, number: int, kernels: Sequence[Kernel]
) -> tuple[LaunchText, ...]:
    step = program.steps[number]
    pointers = DevicePointers(program, weights)
    indices = tuple(f"(uint64_t)(uint32_t){text}" for text in pointers.indices(step.function))
    return tuple(
        LaunchText(
            kernel.name,
            kernel.launch.extents,
            (*(pointers.raw(step.args[param]) for param in kernel.params), *indices),
        )
        for kernel in kernels
    )


class DevicePointers(Pointers):
    """Addresses on the device: the plan's places in its own arena, state and weights."""

    def raw(self, name: str) -> str:
        """The address of a buffer or constant, as an expression of 64 bits."""
        if name in self._program.constants:
            member = self._weights.names[name].partition(".")[2]
            return f"gpu->weights + offsetof({self._program.model}_constants, {member})"
        return f"gpu->{super().raw(name)}u"
