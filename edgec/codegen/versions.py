"""Programs of one model for certain sizes, as versions of the program for all sizes.

    if (context->sizes[0] == 8u) {        /* the steps of the program for batch 8 */
    } else {                              /* the steps for all sizes */
    }

One memory serves all: the arena is as large as the largest plan, and inputs, outputs and states lie
at the same offsets, which `fix_offsets` asks of the plan of each version. Equal constants are kept
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgec.codegen.assemble import Constants, renamed_calls
from edgec.codegen.program import Area, Part, Program, Step, Trace, Version
from edgec.errors import ContractError
from edgec.memory.problem import Plan, Problem

#: The label of steps that run without a GPU.
WITHOUT_GPU = "no GPU"


@dataclass(frozen=True)
class Special:
    """A program for certain sizes. words: the sizes as text, such as `batch=8`."""

    sizes: Mapping[str, int]
    words: str
    program: Program


def special_name(words: str, name: str) -> str:
    """The name in the program for all sizes of a value of the program for certain sizes."""
    return f"{words}: {name}"


def fix_offsets(problem: Problem, plan: Plan, names: Mapping[str, str]) -> Problem:
    """The problem with buffers where a plan has others. names: by buffer of the problem."""

    def placed(name: str) -> tuple[int, str]:
        other = names[name]
        return plan.offsets[other], plan.region_of[other]

    buffers = []
    for buffer in problem.buffers:
        if names.get(buffer.name) in plan.offsets:
            offset, region = placed(buffer.name)
            buffer = replace(buffer, fixed_offset=offset, regions=(region,), costs=())
        buffers.append(buffer)
    return replace(problem, buffers=tuple(buffers))


def has_same_outputs(program: Program, other: Program) -> bool:
    """Whether the outputs of two programs lie in the same places."""
    pairs = zip(program.outputs, other.outputs, strict=True)
    return all(_place(program, p.buffer) == _place(other, q.buffer) for p, q in pairs)


def _place(program: Program, buffer: str) -> tuple[int | None, str | None]:
    return program.offsets.get(buffer), program.area_of.get(buffer)


def with_versions(general: Program, specials: Sequence[Special]) -> Program:
    """The program with a version for each of the others."""
    found = general
    for special in specials:
        found = _with_version(found, special)
    return found


def without_gpu(program: Program, other: Program) -> Program:
    """The program for a GPU with the program that runs without one."""
    start = len(program.steps)
    joined = _joined(program, other, WITHOUT_GPU, "without a GPU")
    steps = tuple(
        replace(step, on_processor=True) if position >= start else step
        for position, step in enumerate(joined.steps)
    )
    return replace(joined, steps=steps, without_gpu=Version((), start, len(steps)))


def _with_version(program: Program, special: Special) -> Program:
    start = len(program.steps)
    joined = _joined(program, special.program, special.words, f"at {special.words}")
    sizes = tuple(special.sizes[size.name] for size in program.sizes)
    version = Version(sizes, start, len(joined.steps))
    return replace(joined, versions=(*program.versions, version))


def _joined(program: Program, other: Program, words: str, where: str) -> Program:
    """The program with the steps of another one after its own; `where` ends their titles."""
    names = _Names(program, other, words, where)
    steps = tuple(names.step(step) for step in other.steps)
    own = {name: names.buffer(name) for name in other.buffers}
    new = {name: own[name] for name in own if own[name] not in program.buffers}
    return replace(
        program,
        steps=(*program.steps, *steps),
        constants=names.constants.arrays,
        buffers={**program.buffers, **{new[n]: other.buffers[n] for n in new}},
        offsets={
            **program.offsets,
            **{new[n]: other.offsets[n] for n in new if n in other.offsets},
        },
        arena_bytes=max(program.arena_bytes, other.arena_bytes),
        arena_lower_bound=max(program.arena_lower_bound, other.arena_lower_bound),
        callees={**program.callees, **{names.own(n): f for n, f in other.callees.items()}},
        areas=_areas(program, other),
        area_of={**program.area_of, **{new[n]: r for n, r in other.area_of.items() if n in new}},
        golden=other.golden or program.golden,  # the self-test runs at the largest sizes
    )


def _areas(one: Program, other: Program) -> tuple[Area, ...]:
    """The areas of memory that are large enough for both programs."""
    sizes = {area.region: area.nbytes for area in one.areas}
    for area in other.areas:
        sizes[area.region] = max(area.nbytes, sizes.get(area.region, 0))
    return tuple(Area(region, nbytes) for region, nbytes in sizes.items())


class _Names:
    """The names in the program of a version's buffers; inputs and states keep theirs."""

    def __init__(self, program: Program, other: Program, words: str, where: str) -> None:
        self.words, self.where = words, where
        self.known: dict[str, str] = {}
        self.constants = Constants(program.constants)
        pairs = list(zip(program.inputs, other.inputs, strict=True))
        if program.io == "caller":
            pairs += zip(program.outputs, other.outputs, strict=True)
        for mine, port in pairs:
            self.known[port.buffer] = mine.buffer
        for state, own in zip(program.states, other.states, strict=True):
            if (state.dtype, state.shape) != (own.dtype, own.shape):
                raise ContractError(f"the state {state.name!r} is another one at {words}")
            self.known[own.buffer] = state.buffer
            self.known[own.after] = state.after
        self.arrays = other.constants
        self.callees = {name: self.own(name) for name in other.callees}

    def own(self, name: str) -> str:
        return special_name(self.words, name)

    def buffer(self, name: str) -> str:
        return self.known.get(name) or self.own(name)

    def argument(self, name: str) -> str:
        """A buffer's name, or a constant's; a new constant is kept."""
        if name in self.arrays:
            return self.constants.add(self.own(name), self.arrays[name])
        return self.buffer(name)

    def step(self, step: Step) -> Step:
        return replace(
            step,
            function=renamed_calls(step.function, self.callees),
            args=tuple(map(self.argument, step.args)),
            title=f"{step.title} {self.where}",
            parts=tuple(map(self.part, step.parts)),
            traces=tuple(map(self.trace, step.traces)),
        )

    def part(self, part: Part) -> Part:
        return replace(
            part,
            title=f"{part.title} {self.where}",
            callee=self.own(part.callee),
            constants=tuple(map(self.argument, part.constants)),
        )

    def trace(self, trace: Trace) -> Trace:
        return replace(trace, value=self.own(trace.value), buffer=self.buffer(trace.buffer))
