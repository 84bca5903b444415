"""The launches of a graph: each step's kernels, some of them side by side with other steps'
kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgec.codegen.c_data import Weights
from edgec.codegen.c_kernel import Kernel, emit_beside, emit_kernels
from edgec.codegen.names import identifier, unique
from edgec.codegen.one_launch import Plan
from edgec.codegen.port_text import Pointers
from edgec.codegen.program import Program
from edgec.codegen.share import SharedFunction, share
from edgec.loop.bound import kernel_parts
from edgec.loop.foreign import library_call
from edgec.loop.ir import BufferRef, Const

#: A kernel: the number of its step, and which of the step's it is.
StepKernel = tuple[int, int]


@dataclass(frozen=True)
class LaunchText:
    """One launch: the kernel's name, blocks and threads, and its arguments as C expressions.

    shared_bytes: of its blocks, in addition to the kernel's declarations. waits: blocks wait for
    each other, so that all of them must fit. is_cluster: they are one cluster. numbers: arguments
    of a library's function, which is `kernel` then; library: its name, such as "cudnn". steps: with
    kernels in it.
    """

    kernel: str
    size: tuple[int, ...]
    arguments: tuple[str, ...]
    shared_bytes: int = 0
    waits: bool = False
    is_cluster: bool = False
    numbers: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    library: str = ""


@dataclass(frozen=True)
class KernelTexts:
    """Functions and kernels, each step's launches, and the function with the step's name.

    whole: the launch of all steps, if there is one; a step then launches a part of it.
    """

    functions: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    launches: Mapping[int, tuple[LaunchText, ...]]
    step_functions: Mapping[int, str]
    whole: LaunchText | None = None


def graph_texts(
    program: Program, plan: Plan, weights: Weights, callees: Mapping[str, str],
    taken: Sequence[str],
) -> KernelTexts:  # fmt: skip
    """Kernels for each step; kernels that share a launch are listed with the first of its steps."""
    made = _Kernels(program, callees, taken)
    launches: dict[int, list[LaunchText]] = {step: [] for step in made.steps}
    names: dict[int, str] = {}
    for members in _together(program, plan):
        kernel = made.kernel(members)
        arguments = [text for member in members for text in made.arguments(member, weights)]
        steps = tuple(dict.fromkeys(step for step, _ in members))
        launches[members[0][0]].append(
            LaunchText(kernel.name, kernel.launch.extents, tuple(arguments), steps=steps)
        )
        for step in steps:
            names.setdefault(step, kernel.name)
    for step in made.called:
        launches[step] = [_by_library(program, weights, step)]
        names[step] = program.steps[step].function.name
    return KernelTexts(
        (), tuple(made.kernels.values()), {s: tuple(each) for s, each in launches.items()}, names
    )


def _together(program: Program, plan: Plan) -> Iterator[list[StepKernel]]:
    """The kernels of each launch on the GPU."""
    starts, found = iter(plan.waits), list[list[StepKernel]]()
    for number, step in enumerate(program.general_steps):
        for part in range(len(kernel_parts(step.function))):
            if next(starts):
                found.append([])
            found[-1].append((number, part))
    for members in found:
        step = program.steps[members[0][0]]
        if not step.on_processor and library_call(step.function) is None:
            yield members


class _Kernels:
    """The kernels of a program's steps, each once; `called`: steps that a library runs."""

    def __init__(self, program: Program, callees: Mapping[str, str], taken: Sequence[str]) -> None:
        self.program, self.callees, self.taken = program, callees, list(taken)
        found = share(program, "gpu")
        shared = [item for item in found if library_call(item.function) is None]
        self.called = [step for item in found if item not in shared for step in item.steps]
        wanted = (f"{program.model}_{identifier(item.function.name)}" for item in shared)
        names = unique(wanted, taken=taken)
        self.taken += names
        self.steps: dict[int, tuple[SharedFunction, str]] = {
            step: (item, name)
            for item, name in zip(shared, names, strict=True)
            for step in item.steps
        }
        self.kernels: dict[tuple[tuple[str, int], ...], Kernel] = {}

    def kernel(self, members: Sequence[StepKernel]) -> Kernel:
        """The kernel of a launch."""
        key = tuple((self.steps[step][1], part) for step, part in members)
        if key not in self.kernels:
            self.kernels[key] = (
                self._alone(*members[0]) if len(members) == 1 else self._beside(members)
            )
        return self.kernels[key]

    def _alone(self, step: int, part: int) -> Kernel:
        item, name = self.steps[step]
        return emit_kernels(item.function, name, self.callees, item.known)[part]

    def _beside(self, members: Sequence[StepKernel]) -> Kernel:
        (name,) = unique([f"{self.steps[members[0][0]][1]}_beside"], taken=self.taken)
        self.taken.append(name)
        items = [self.steps[step][0] for step, _ in members]
        parts = [
            (kernel_parts(item.function)[part], item.known)
            for item, (_, part) in zip(items, members, strict=True)
        ]
        return emit_beside(name, parts, self.callees)

    def arguments(self, member: StepKernel, weights: Weights) -> Iterator[str]:
        """The arguments of a kernel, as C."""
        number, part = member
        step, pointers = self.program.steps[number], DevicePointers(self.program, weights)
        for param in kernel_parts(step.function)[part].params:
            yield pointers.raw(step.args[step.function.params.index(param)])
        yield from (f"(uint64_t)(uint32_t){each}" for each in pointers.indices(step.function))


def _by_library(program: Program, weights: Weights, number: int) -> LaunchText:
    """A call of a library's function: addresses on the device, and numbers."""
    step = program.steps[number]
    found, pointers = library_call(step.function), DevicePointers(program, weights)
    assert found is not None
    call, foreign = found
    addresses = [
        pointers.raw(step.args[step.function.params.index(argument.buffer)])
        for argument in call.args
        if isinstance(argument, BufferRef)
    ]
    numbers = tuple(int(each.value) for each in call.args if isinstance(each, Const))
    return LaunchText(
        foreign.symbol, (), tuple(addresses), numbers=numbers, steps=(number,),
        library=foreign.source.stem.removeprefix("ec_"),
    )  # fmt: skip


class DevicePointers(Pointers):
    """Addresses on the device: the plan's offsets in its own arena, state and weights."""

    def raw(self, name: str) -> str:
        """The address of a buffer or constant, as an expression of 64 bits."""
        if name in self._program.constants:
            member = self._weights.names[name].partition(".")[2]
            return f"gpu->weights + offsetof({self._program.model}_constants, {member})"
        return f"gpu->{super().raw(name)}u"
