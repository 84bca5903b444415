"""Bound the stack of an image from its machine code: frames along the deepest chain of calls.

1. Frames: what the compiler states (gcc `-fstack-usage`, clang `.stack_sizes`), else the sum of
   all that a function's instructions take off the stack pointer.
2. Calls: every BL, and every branch that leaves its function (a tail call, counted as if the
   caller's frame stayed). Calls through a register are reported, not followed.
3. One interrupt may come at the deepest point: its hardware frame, and its handler's own chain.
   All interrupts have one priority, so they do not nest; faults are fatal and not counted.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from edgec.build.elf import Elf, Symbol
from edgec.build.thumb import flow, frame_growth
from edgec.target.core import Core

FIRST_INTERRUPT = 15
"""Exceptions from SysTick (15) on are interrupts; those below are reset and faults."""


@dataclass(frozen=True)
class FunctionSize:
    """What one function costs: its code, its own frame, and its deepest chain with all callees.

    `frame_bytes` and `stack_bytes` are None where they cannot be known; `calls` are the names of
    the functions it calls.
    """

    name: str
    file: str
    address: int
    code_bytes: int
    frame_bytes: int | None
    stack_bytes: int | None
    calls: tuple[str, ...]


@dataclass(frozen=True)
class StackBound:
    """The stack of a whole program: `total_bytes` is None where it cannot be known, and `notes`
    say why, or what the bound leaves out."""

    total_bytes: int | None
    notes: tuple[str, ...]
    functions: tuple[FunctionSize, ...]


def read_stack_usage(files: list[Path]) -> dict[str, int]:
    """Return frames by function name from gcc's `.su` files; the largest of equal names."""
    frames: dict[str, int] = {}
    for path in files:
        for line in path.read_text("utf-8", errors="replace").splitlines():
            fields = line.split("\t")
            if len(fields) >= 2 and fields[1].isdigit():
                name = fields[0].rsplit(":", 1)[-1]
                frames[name] = max(int(fields[1]), frames.get(name, 0))
    return frames


class _Analysis:
    def __init__(self, elf: Elf, stated: dict[str, int]) -> None:
        self.elf = elf
        self.functions = elf.functions()
        self.starts = [f.address for f in self.functions]
        self.frames: dict[int, int | None] = {}
        self.calls: dict[int, dict[int, bool]] = {}
        self.indirect: list[str] = []
        self.depths: dict[int, int | None] = {}
        self.open_loops: set[int] = set()
        self.cycles: list[str] = []
        self.unknown: list[str] = []
        for function in self.functions:
            self._scan(function, stated)

    def at(self, address: int) -> Symbol | None:
        """Return the function that holds `address`."""
        index = bisect_right(self.starts, address) - 1
        if index < 0:
            return None
        function = self.functions[index]
        return function if address < function.address + function.length else None

    def _scan(self, function: Symbol, stated: dict[str, int]) -> None:
        end = function.address + function.length
        grown: int | None = 0
        targets: dict[int, bool] = {}
        for instruction in self.elf.instructions(function):
            growth = frame_growth(instruction)
            grown = None if grown is None or growth is None else grown + growth
            kind, target = flow(instruction)
            if kind in ("indirect_call", "indirect_branch"):
                self.indirect.append(function.name)
            elif kind in ("call", "branch") and not function.address < target < end:
                # A call into a function's own body is a local subroutine of hand-written code.
                is_loop = kind == "branch" and target == function.address
                callee = self.at(target)
                if callee is not None and not is_loop:
                    known = targets.get(callee.address, False)
                    targets[callee.address] = known or kind == "call"
        base = function.name.split(".", 1)[0]
        frame = self.elf.stack_sizes.get(function.address)
        if frame is None:
            frame = stated.get(function.name, stated.get(base))
        self.frames[function.address] = grown if frame is None else frame
        self.calls[function.address] = targets

    def depth(self, address: int, path: tuple[tuple[int, bool], ...] = ()) -> int | None:
        """Return the bytes of the deepest chain from the function at `address`.

        `path` holds the functions above it, each with whether its edge down is a call.
        """
        if address in self.depths:
            return self.depths[address]
        name = self.functions[self.starts.index(address)].name
        above = [function for function, _ in path]
        if address in above:
            if not any(is_call for _, is_call in path[above.index(address) :]):
                self.open_loops.add(address)
                return 0  # a loop of branches between two names for one piece of code
            self.cycles.append(name)
            return None
        result = self.frames[address]
        if result is None:
            self.unknown.append(name)
        below = [
            self.depth(callee, (*path, (address, is_call)))
            for callee, is_call in self.calls[address].items()
        ]
        if result is None or any(depth is None for depth in below):
            total = None
        else:
            total = result + max((depth for depth in below if depth is not None), default=0)
        self.open_loops.discard(address)
        if not self.open_loops:  # inside a loop that was cut, a sum holds for this path only
            self.depths[address] = total
        return total


def bound_stack(elf: Elf, core: Core, stated: dict[str, int]) -> StackBound:
    """Return the bound for the program in `elf`; `stated` are frames that gcc wrote down."""
    analysis = _Analysis(elf, stated)
    reset = analysis.at(elf.entry & ~1)
    main_bytes = analysis.depth(reset.address) if reset is not None else None
    vectors = elf.section(".vectors")
    handlers: dict[int, None] = {}
    if vectors is not None:
        for number in range(FIRST_INTERRUPT, vectors.length // 4):
            target = elf.word(vectors.address + 4 * number) or 0
            function = analysis.at(target & ~1) if target else None
            if function is not None:
                handlers[function.address] = None
    # Hardware frame: 8 words, or 26 with the FPU's, and a word to align to 8 bytes (DDI 0403E
    # B1.5.6 and B1.5.7).
    entry_bytes = (26 if core.has("fpu") else 8) * 4 + 4
    depths = [analysis.depth(handler) for handler in handlers]
    total: int | None = None
    if main_bytes is not None and all(depth is not None for depth in depths):
        total = main_bytes
        if depths:
            total += entry_bytes + max(depth for depth in depths if depth is not None)
        total = (total + 7) // 8 * 8
    notes = [f"recursion through {name}" for name in dict.fromkeys(analysis.cycles)]
    notes += [f"the frame of {name} is not known" for name in dict.fromkeys(analysis.unknown)]
    if reset is None:
        notes.append("the entry point is in no function")
    notes += [
        f"{name} calls through a pointer, which is not followed"
        for name in dict.fromkeys(analysis.indirect)
    ]
    names = {f.address: f.name for f in analysis.functions}
    return StackBound(
        total_bytes=total,
        notes=tuple(notes),
        functions=tuple(
            FunctionSize(
                name=f.name,
                file=f.file,
                address=f.address,
                code_bytes=f.length,
                frame_bytes=analysis.frames[f.address],
                stack_bytes=analysis.depth(f.address),
                calls=tuple(names[callee] for callee in analysis.calls[f.address]),
            )
            for f in analysis.functions
        ),
    )
