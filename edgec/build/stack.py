"""Bound the stack of an image from its machine code: frames along the deepest chain of calls.

1. Frames: the compiler's figure (gcc `-fstack-usage`, clang `.stack_sizes`), or the sum that a
   function's instructions subtract from the stack pointer, if that is larger (inline assembly).
2. Calls: every BL or JAL, and every branch that leaves its function (a tail call, counted as if the
   caller's frame stayed). A call through a register may reach any function whose address is stored
   anywhere in data or code, except in the vector table; a jump through a table stays in its
   function. A veneer, which a linker puts where code is far away, branches to the address that it
   holds.
3. One interrupt may come at the deepest point: the frame that Arm's hardware pushes (RISC-V's
   pushes none), and its handler's own chain. All interrupts have one priority, so they do not nest;
   faults are fatal and not counted.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from edgec.build.elf import Elf, Symbol
from edgec.build.vectors import interrupt_handlers
from edgec.targets.core import Core


@dataclass(frozen=True)
class FunctionSize:
    """One function: its bytes of code, its own frame, and its deepest chain of calls.

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
    """The stack of a program: `total_bytes` is None if it cannot be bounded; `notes` have the
    reason, or the omissions of the bound.
    """

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


class _Edge(IntEnum):
    """A kind of jump from one function to another; of several the largest counts."""

    BRANCH = 0
    POINTER = 1
    CALL = 2


class _Analysis:
    def __init__(self, elf: Elf, stated: dict[str, int]) -> None:
        self.elf = elf
        self.functions = elf.functions()
        self.starts = [f.address for f in self.functions]
        self.frames: dict[int, int | None] = {}
        self.edges: dict[int, dict[int, _Edge]] = {}
        self.through_pointers: list[Symbol] = []
        self.depths: dict[int, int | None] = {}
        self.open_loops: set[int] = set()
        self.cycles: dict[str, None] = {}
        self.pointer_cycles: dict[str, None] = {}
        self.unknown: dict[str, None] = {}
        for function in self.functions:
            self._scan(function, stated)
        self.pointed_at = find_pointed_at(elf, self.functions) if self.through_pointers else ()
        for function in self.through_pointers:
            edges = self.edges[function.address]
            for target in self.pointed_at:
                known = edges.get(target.address, _Edge.POINTER)
                edges[target.address] = max(_Edge.POINTER, known)

    def at(self, address: int) -> Symbol | None:
        index = bisect_right(self.starts, address) - 1
        if index < 0:
            return None
        function = self.functions[index]
        return function if address < function.address + function.length else None

    def _scan(self, function: Symbol, stated: dict[str, int]) -> None:
        end = function.address + function.length
        grown: int | None = 0
        edges: dict[int, _Edge] = {}
        is_indirect = False
        code = self.elf.instruction_set
        instructions = list(self.elf.instructions(function))
        for growth in map(code.frame_growth, instructions):
            grown = None if grown is None or growth is None else grown + growth
        for kind, target in code.transfers(instructions):
            if kind == "indirect_call":
                is_indirect = True
            elif kind == "indirect_branch":
                is_indirect = is_indirect or not _has_jump_table(self.elf, function)
            elif kind in ("call", "branch") and not function.address < target < end:
                # A call into a function's own body is a local subroutine of hand-written code.
                edge = _Edge.CALL if kind == "call" else _Edge.BRANCH
                callee = self.at(target)
                if callee is not None and (callee is not function or edge is _Edge.CALL):
                    edges[callee.address] = max(edge, edges.get(callee.address, edge))
        if is_veneer(function):
            held = _held_by(self.elf, function)
            bit = code.FUNCTION_BIT
            edges |= {f.address: _Edge.BRANCH for f in self.functions if f.address | bit in held}
        elif is_indirect:
            self.through_pointers.append(function)
        base = function.name.split(".", 1)[0]
        frame = self.elf.stack_sizes.get(function.address)
        if frame is None:
            frame = stated.get(function.name, stated.get(base))
        if grown is None and code.holds_vectors(instructions):
            frame = None
        if frame is None or grown is None:
            self.frames[function.address] = grown if frame is None else frame
        else:  # compilers do not see pushes of assembly inside a function
            self.frames[function.address] = max(frame, grown)
        self.edges[function.address] = edges

    def depth(self, address: int, path: tuple[tuple[int, _Edge], ...] = ()) -> int | None:
        """Return the bytes of the deepest chain from the function at `address`.

        `path` holds the functions above it, each with its edge down.
        """
        if address in self.depths:
            return self.depths[address]
        function = self.at(address)
        assert function is not None
        above = [caller for caller, _ in path]
        if address in above:
            return self._close_loop(function, [edge for _, edge in path[above.index(address) :]])
        result = self.frames[address]
        if result is None:
            self.unknown[function.name] = None
        below = [
            self.depth(callee, (*path, (address, edge)))
            for callee, edge in self.edges[address].items()
        ]
        if result is None or any(depth is None for depth in below):
            total = None
        else:
            total = result + max((depth for depth in below if depth is not None), default=0)
        self.open_loops.discard(address)
        if not self.open_loops:  # inside a loop that was cut, a sum holds for this path only
            self.depths[address] = total
        return total

    def _close_loop(self, function: Symbol, edges: list[_Edge]) -> int | None:
        if _Edge.POINTER in edges:
            self.pointer_cycles[function.name] = None
        elif _Edge.CALL in edges:
            self.cycles[function.name] = None
            return None
        # Otherwise branches between two names for one piece of code: the stack does not grow.
        self.open_loops.add(function.address)
        return 0

    def notes(self) -> tuple[str, ...]:
        """Return why there is no bound, and the assumptions of a bound."""
        lines = [f"recursion through {name}" for name in self.cycles]
        lines += [f"the frame of {name} is not known" for name in self.unknown]
        if self.through_pointers:
            callers = ", ".join(function.name for function in self.through_pointers)
            targets = ", ".join(function.name for function in self.pointed_at)
            lines.append(
                f"{callers} may call through a pointer any of: {targets}"
                if targets
                else f"{callers} call through a pointer, and no function's address is stored"
            )
        lines += [
            f"{name} is assumed not to call itself through a pointer"
            for name in self.pointer_cycles
        ]
        return tuple(lines)


def find_pointed_at(elf: Elf, functions: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """Return the functions whose address the image holds, other than in the vector table.

    Looks at the words of constant and variable data, at literals in code, and at addresses that
    pairs of instructions make. Weights are numbers, not pointers, and are left out.
    """
    held: set[int] = set()
    for section in elf.sections:
        if section.is_code or not section.is_stored or section.name == ".vectors":
            continue
        if section.name.startswith(".ec_weights"):
            continue
        first = -section.address % 4
        for at in range(first, section.length - 3, 4):
            held.add(int.from_bytes(section.content[at : at + 4], "little"))
    for function in functions:
        if not is_veneer(function):
            held |= _held_by(elf, function)
    bit = elf.instruction_set.FUNCTION_BIT
    called = (f for f in functions if f.section != ".vectors")  # only the hardware goes there
    return tuple(function for function in called if function.address | bit in held)


def _has_jump_table(elf: Elf, function: Symbol) -> bool:
    """Whether a jump through a register in `function` goes to one of its own places.

    So it is where the function makes the address of a table whose words point into its middle, by
    themselves or as distances from the table.
    """
    inside = range(function.address + 1, function.address + function.length)
    for table in _made_by(elf, function):
        word = elf.word(table)
        if word is not None and (word in inside or (table + word) % (1 << 32) in inside):
            return True
    return False


def is_veneer(function: Symbol) -> bool:
    """Whether a linker made this function, to reach one that a BL does not."""
    return function.name.endswith("_veneer") or "Thunk_" in function.name


def _held_by(elf: Elf, function: Symbol) -> set[int]:
    """The literals of a function, and the addresses that its instructions make."""
    return set(elf.literals(function)) | _made_by(elf, function)


def _made_by(elf: Elf, function: Symbol) -> set[int]:
    """The addresses that instructions of a function make, or load from a place outside of it."""
    instructions = list(elf.instructions(function))
    places = elf.instruction_set.loaded_places(instructions)
    loaded = {elf.word(place) or 0 for place in places}
    return elf.instruction_set.made_constants(instructions) | loaded


def _interrupt_frame_bytes(core: Core) -> int:
    """The bytes that the hardware pushes on an interrupt.

    On Cortex-M 8 words, or 26 with the FPU's, and a word to align to 8 bytes (DDI 0403E B1.5.6
    and B1.5.7); on RISC-V and Xtensa nothing. On ARMv7-A and -R the handler itself stores two words
    (SRS), and may leave one to align.
    """
    if core.isa in ("rv32", "xtensa"):
        return 0
    if core.has("v7ar"):
        return 3 * 4
    return (26 if core.has("fpu") else 8) * 4 + 4


def bound_stack(elf: Elf, core: Core, stated: dict[str, int]) -> StackBound:
    """Return the bound for the program in `elf`; `stated` are frames that gcc wrote down."""
    analysis = _Analysis(elf, stated)
    reset = analysis.at(elf.entry & ~elf.instruction_set.FUNCTION_BIT)
    main_bytes = analysis.depth(reset.address) if reset is not None else None
    handlers = dict.fromkeys(
        function.address for function in map(analysis.at, interrupt_handlers(elf)) if function
    )
    entry_bytes = _interrupt_frame_bytes(core)
    depths = [analysis.depth(handler) for handler in handlers]
    total: int | None = None
    if main_bytes is not None and all(depth is not None for depth in depths):
        total = main_bytes
        if depths:
            total += entry_bytes + max(depth for depth in depths if depth is not None)
        total = (total + 7) // 8 * 8
    notes = analysis.notes()
    if reset is None:
        notes += ("the entry point is in no function",)
    if analysis.through_pointers and not analysis.pointed_at:
        total = None
    names = {f.address: f.name for f in analysis.functions}
    return StackBound(
        total_bytes=total,
        notes=notes,
        functions=tuple(
            FunctionSize(
                name=f.name,
                file=f.file,
                address=f.address,
                code_bytes=f.length,
                frame_bytes=analysis.frames[f.address],
                stack_bytes=analysis.depth(f.address),
                calls=tuple(names[callee] for callee in analysis.edges[f.address]),
            )
            for f in analysis.functions
        ),
    )
