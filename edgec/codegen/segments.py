"""A program on a GPU and the processor beside it: its segments, and copies at their borders.

    steps 0 to 2   processor        reads its input where the caller wrote it
    steps 3 to 9   GPU              before: the value of step 2 is copied to the GPU
    step 10        processor        before: the values of steps 7 and 9 are copied back

Each has an arena and states with the same plan: a value has the same place in both. The compiler
tracks which memory has the last write of every byte; a segment first copies the bytes that its
steps read and its memory lacks. Values that are live together share no byte, so a copy overwrites
nothing that is still read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from edgec.codegen.c_text import writes_param
from edgec.codegen.program import Program, Step

#: The two memories, as indices.
GPU, PROCESSOR = 0, 1


@dataclass(frozen=True)
class Copy:
    """Bytes `start` to `stop` - 1 of the arena, or with `is_state` of the states."""

    is_state: bool
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Segment:
    """Steps `start` to `stop` - 1 on one side; before them, `copies` come from the other one."""

    on_processor: bool
    start: int
    stop: int
    copies: tuple[Copy, ...]


def segments_of(program: Program) -> tuple[Segment, ...]:
    """The segments of a run with a GPU; the last one is the processor's and may have no steps: it
    copies outputs and states.
    """
    memories = _Memories(program)
    found, start = [], 0
    for on_processor, each in groupby(program.general_steps, lambda step: step.on_processor):
        steps = list(each)
        copies = memories.run(steps, PROCESSOR if on_processor else GPU)
        found.append(Segment(on_processor, start, start + len(steps), copies))
        start += len(steps)
    # A state's new value must be where the next run reads it first.
    home = memories.taken(GPU, memories.states_of(GPU))
    if home:
        found.append(Segment(False, start, start, home))
    outputs = [port.buffer for port in program.outputs if port.buffer in program.offsets]
    copies = memories.taken(PROCESSOR, [*outputs, *memories.states_of(PROCESSOR)])
    found.append(Segment(True, start, start, copies))
    return tuple(found)


class _Memories:
    """Which bytes are up to date in each of the two memories."""

    def __init__(self, program: Program) -> None:
        self.program = program
        arena = np.array([[False], [True]]).repeat(program.arena_bytes, axis=1)
        states = np.zeros((2, program.state_bytes), bool)
        self.has = {False: arena, True: states}
        self.home = {state.buffer: self._home(state.buffer) for state in program.states}
        for state, side in self.home.items():
            start, stop = self._span(state)
            states[side, start:stop] = True

    def _span(self, name: str) -> tuple[int, int]:
        start = self.program.offsets[name]
        return start, start + self.program.buffers[name]

    def _home(self, state: str) -> int:
        """The side of the first step that takes a state."""
        users = (step for step in self.program.general_steps if state in step.args)
        first = next(users, None)
        return PROCESSOR if first is None or first.on_processor else GPU

    def states_of(self, side: int) -> list[str]:
        """The states that a run finds on a side."""
        return [state for state, home in self.home.items() if home == side]

    def run(self, steps: Sequence[Step], side: int) -> tuple[Copy, ...]:
        """Run steps on a side; returns the copies before them."""
        found: list[Copy] = []
        for step in steps:
            read, written = self._used(step)
            found += self.taken(side, read)
            for name in written:
                start, stop = self._span(name)
                memory = self.has[name in self.program.state_buffers]
                memory[side, start:stop] = True
                memory[1 - side, start:stop] = False
        return tuple(_merged(found))

    def _used(self, step: Step) -> tuple[list[str], list[str]]:
        """The buffers that a step reads, and the buffers that it writes."""
        pairs = zip(step.args, step.function.params, strict=True)
        placed = [(name, param) for name, param in pairs if name in self.program.offsets]
        written = [
            name
            for name, param in placed
            if param.scope == "scratch" or writes_param(step.function, param)
        ]
        return [name for name, _ in placed if name not in written], written

    def taken(self, side: int, names: Sequence[str]) -> tuple[Copy, ...]:
        """The copies that bring these buffers to a side."""
        found = []
        for name in names:
            start, stop = self._span(name)
            is_state = name in self.program.state_buffers
            has = self.has[is_state][side, start:stop]
            found += [Copy(is_state, start + a, start + b) for a, b in _runs(~has)]
            has[:] = True
        return tuple(_merged(found))


def _runs(marked: np.ndarray) -> Iterator[tuple[int, int]]:
    """Start and stop of each run of marked elements."""
    edges = np.flatnonzero(np.diff(marked.astype(np.int8), prepend=0, append=0))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _merged(copies: Sequence[Copy]) -> list[Copy]:
    """Neighbours as one copy, in the order of addresses."""
    ordered = sorted(copies, key=lambda copy: (copy.is_state, copy.start))
    starts = [0] + [
        at
        for at, (one, other) in enumerate(pairwise(ordered), 1)
        if one.is_state != other.is_state or one.stop != other.start
    ]
    stops = [*starts[1:], len(ordered)]
    return [
        Copy(ordered[a].is_state, ordered[a].start, ordered[b - 1].stop)
        for a, b in zip(starts, stops, strict=True)
        if a < b
    ]
