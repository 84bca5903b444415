"""Races of a kernel, found by the addresses that all threads access; no value is computed.

The interpreter notes each access of each thread as it runs, which takes minutes for a convolution.
Here loops are unrolled as rows of an array, one for each step of each thread, and an access is the
array of its addresses. Between two barriers the order of accesses does not matter: for each element
it is known who touched it first, whether another one did, and whether it was written. So a race is
found exactly where the interpreter finds it; reads of what nothing has written are found but where
the same thread writes the element later, before the next barrier. Where data decide an address or
what runs, the interpreter has to look (`Undecided`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, product
from types import CodeType
from typing import Any

import numpy as np

from edgec.errors import ContractError
from edgec.loop.access import flat_address, term_range
from edgec.loop.bound import BOUND, ONE_THREAD, WARP, Launch, kernel_parts, launch_of
from edgec.loop.dtype import bits
from edgec.loop.interpret import python_term
from edgec.loop.ir import (
    Buffer,
    BufferRef,
    Call,
    Const,
    For,
    Gather,
    If,
    IndexValue,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Sync,
)
from edgec.loop.microkernel import Microkernel, get_microkernel, is_microkernel, meaning_of
from edgec.loop.overlap import written_buffers
from edgec.loop.rewrite import expressions, statements, subexpressions
from edgec.loop.simplify import lower_blocks
from edgec.numerics.term import Term, as_term

#: Most rows of an array.
MOST_ROWS = 1 << 20
_CHOICES = {"min": np.minimum, "max": np.maximum}


class Undecided(Exception):
    """Data decide what is touched."""


def require_no_race(func: PrimFunc, addresses: Mapping[Buffer, range] | None = None) -> None:
    """Raises ContractError as the interpreter does; Undecided where data decide what is touched.

    addresses: the bytes of parameters in memory; parameters may overlap.
    """
    filled: dict[Buffer, np.ndarray] = {}
    for part in kernel_parts(func):
        _Kernel(part, filled, addresses or {}).check()


def meeting(part: PrimFunc, addresses: Mapping[Buffer, range]) -> dict[Buffer, range]:
    """The parameters of which some write into the bytes of others."""
    own = {param: addresses[param] for param in part.params if param in addresses}
    written = written_buffers(part)
    pairs = [
        (a, b)
        for a, b in product(own, own)
        if a is not b and a in written and own[a].start < own[b].stop and own[b].start < own[a].stop
    ]
    return {param: own[param] for pair in pairs for param in pair}


@dataclass
class Rows:
    """Steps of threads: the value of each variable of the interpreter's source, and the thread."""

    values: dict[str, np.ndarray]
    thread: np.ndarray

    def __len__(self) -> int:
        return len(self.thread)

    def taken(self, which: np.ndarray | slice) -> Rows:
        """Some of them."""
        return Rows({n: v[which] for n, v in self.values.items()}, self.thread[which])

    def of(self, term: Term) -> np.ndarray:
        """A term in each row."""
        found = np.asarray(eval(_code(term), _CHOICES, self.values))
        return np.broadcast_to(found, len(self))


@lru_cache(maxsize=4096)
def _code(term: Term) -> CodeType:
    return compile(python_term(term), "<term>", "eval")


class Walk:
    """Goes through a statement; `note` gets the addresses of each access to memory."""

    def __init__(self) -> None:
        self.loops: list[For] = []

    def note(self, buffer: Buffer, at: np.ndarray, rows: Rows, *, is_write: bool) -> None:
        """Rows of threads touch these elements of a buffer."""
        raise NotImplementedError

    def sync(self, sync: Sync) -> None:
        """All threads come to a barrier."""
        raise NotImplementedError

    def gather(self, buffer: Buffer, rows: Rows) -> None:
        """Data decide which element is read."""
        if buffer.scope not in ("constant", "register"):
            raise Undecided

    def stmt(self, stmt: Stmt, rows: Rows) -> None:
        """Run a statement in some rows."""
        if not len(rows):
            if _has_barrier(stmt):
                raise Undecided
        elif isinstance(stmt, Seq):
            for child in stmt.stmts:
                self.stmt(child, rows)
        elif isinstance(stmt, For):
            self.loops.append(stmt)
            self.loop(stmt, rows)
            self.loops.pop()
        elif isinstance(stmt, If):
            self.branches(stmt, rows)
        elif isinstance(stmt, Store):
            self.loads(stmt, rows)
            self.element(stmt.buffer, stmt.indices, rows, is_write=True)
        elif isinstance(stmt, Call):
            self.loads(stmt, rows)
            self.call(stmt, rows)
        elif isinstance(stmt, Sync):
            self.sync(stmt)
        else:
            raise Undecided

    def loop(self, loop: For, rows: Rows) -> None:
        start, stop = rows.of(loop.start), rows.of(loop.stop)
        name = f"v_{loop.var.name}"
        if loop.kind in BOUND:
            at = start + rows.values[loop.kind]
            inside = np.flatnonzero(at < stop)
            found = rows.taken(inside)
            found.values[name] = at[inside]
            self.stmt(loop.body, found)
        elif _has_barrier(loop.body):
            if start.min() != start.max() or stop.min() != stop.max():
                raise Undecided
            for step in range(start[0], stop[0]):
                self.stmt(
                    loop.body, Rows({**rows.values, name: np.full(len(rows), step)}, rows.thread)
                )
        else:
            for piece in _pieces(np.maximum(stop - start, 0)):
                self.stmt(loop.body, _steps(rows.taken(piece), name, start[piece], stop[piece]))

    def branches(self, stmt: If, rows: Rows) -> None:
        holds = rows.of(stmt.left) < rows.of(stmt.right)
        if _has_barrier(stmt) and holds.min() != holds.max():
            raise Undecided
        for body, which in ((stmt.body, holds), (stmt.otherwise, ~holds)):
            if body is not None and which.any():
                self.stmt(body, rows.taken(np.flatnonzero(which)))

    def loads(self, stmt: Store | Call, rows: Rows) -> None:
        for value in expressions(stmt):
            for each in subexpressions(value):
                if isinstance(each, Gather):
                    self.gather(each.buffer, rows)
                if isinstance(each, Load):
                    self.element(each.buffer, each.indices, rows, is_write=False)

    def element(
        self, buffer: Buffer, indices: tuple[Term, ...], rows: Rows, *, is_write: bool
    ) -> None:
        for index, extent in zip(indices, buffer.shape, strict=True):
            low, high = term_range(index, self.loops)
            if low < 0 or high >= extent:
                at = rows.of(index)
                low, high = at.min(), at.max()
            if low < 0 or high >= extent:
                raise ContractError(f"an index is outside buffer {buffer.name}")
        if buffer.scope not in ("register", "constant"):
            self.note(buffer, rows.of(flat_address(buffer, indices)), rows, is_write=is_write)

    def call(self, call: Call, rows: Rows) -> None:
        """A microkernel touches what its meaning does, after its pointers."""
        if not is_microkernel(call.callee):
            raise Undecided
        kernel = get_microkernel(call.callee)
        refs = [arg for arg in call.args if isinstance(arg, BufferRef)]
        columns = [_number(arg, rows) for arg in call.args if not isinstance(arg, BufferRef)]
        for numbers, which in _alike(kernel, columns, rows):
            for position, offsets, is_write in footprint(kernel, numbers):
                ref = refs[position]
                if ref.buffer.scope in ("register", "constant"):
                    continue
                self.after(ref, offsets, which, is_write=is_write)

    def after(self, ref: BufferRef, offsets: np.ndarray, rows: Rows, *, is_write: bool) -> None:
        start = rows.of(flat_address(ref.buffer, ref.indices))
        if start.min() + offsets[0] < 0 or start.max() + offsets[-1] >= ref.buffer.elements:
            raise ContractError(f"a call reaches outside buffer {ref.buffer.name}")
        for piece in _pieces(np.full(len(rows), len(offsets))):
            at = (start[piece, None] + offsets).reshape(-1)
            thread = np.repeat(rows.thread[piece], len(offsets))
            self.note(ref.buffer, at, Rows({}, thread), is_write=is_write)


def _has_barrier(stmt: Stmt) -> bool:
    return any(isinstance(each, Sync) for each in statements(stmt))


def _pieces(steps: np.ndarray) -> Iterator[slice]:
    """Rows that have together as many steps as an array may have rows, or one row."""
    ends = np.cumsum(steps)
    first = 0
    while first < len(steps):
        before = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, before + MOST_ROWS, "right")), first + 1)
        yield slice(first, last)
        first = last


def _steps(rows: Rows, name: str, start: np.ndarray, stop: np.ndarray) -> Rows:
    """Each row for each step of a loop."""
    counts = np.maximum(stop - start, 0)
    which = np.repeat(np.arange(len(rows)), counts)
    found = rows.taken(which)
    first = np.cumsum(counts) - counts
    found.values[name] = np.arange(len(which)) - first[which] + start[which]
    return found


def _number(arg: Any, rows: Rows) -> np.ndarray:
    if isinstance(arg, Const):
        return np.full(len(rows), int(arg.value))
    if isinstance(arg, IndexValue):
        return rows.of(arg.term)
    raise Undecided


def _alike(
    kernel: Microkernel, columns: Sequence[np.ndarray], rows: Rows
) -> Iterator[tuple[tuple[int, ...], Rows]]:
    """The rows by what the kernel touches in them."""
    if not columns:
        yield (), rows
        return
    numbers, which = np.unique(np.stack(columns), axis=1, return_inverse=True)
    forms: dict[Any, list[int]] = {}
    for position, column in enumerate(numbers.T):
        print_of = footprint(kernel, tuple(map(int, column)))
        key = tuple((number, at.tobytes(), is_write) for number, at, is_write in print_of)
        forms.setdefault(key, []).append(position)
    for positions in forms.values():
        mine = np.isin(which.reshape(-1), positions)
        taken = rows if mine.all() else rows.taken(np.flatnonzero(mine))
        yield tuple(map(int, numbers[:, positions[0]])), taken


@cache
def footprint(
    kernel: Microkernel, numbers: tuple[int, ...]
) -> tuple[tuple[int, np.ndarray, bool], ...]:
    """Of each pointer of a kernel: which elements after it are read, and which are written."""
    meaning = meaning_of(kernel, numbers)
    params = [param.name for param in kernel.pointers(meaning)]
    found = _Footprint()
    found.stmt(lower_blocks(meaning.body), Rows({}, np.zeros(1, np.int32)))
    return tuple(
        (params.index(name), np.unique(np.concatenate(each)), is_write)
        for (name, is_write), each in found.touched.items()
        if name in params
    )


class _Footprint(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.touched: dict[tuple[str, bool], list[np.ndarray]] = {}

    def note(self, buffer: Buffer, at: np.ndarray, rows: Rows, *, is_write: bool) -> None:
        self.touched.setdefault((buffer.name, is_write), []).append(at)


class _Touched:
    """Since a barrier: who touched each element of a buffer first, and whether others did."""

    def __init__(self, elements: int) -> None:
        self.elements = elements
        self._forget()

    def _forget(self) -> None:
        self.first = np.full(self.elements, -1, np.int32)
        self.other = np.full(self.elements, -1, np.int32)
        self.written = np.zeros(self.elements, bool)
        self.is_used = False

    def note(self, at: np.ndarray, who: np.ndarray, *, is_write: bool) -> None:
        self.is_used = True
        fresh = self.first[at] < 0
        if fresh.any():
            self.first[at[fresh]] = who[fresh]
        others = self.first[at] != who
        if others.any():
            self.other[at[others]] = who[others]
        if is_write:
            self.written[at] = True

    def clear(self) -> None:
        if self.is_used:
            self._forget()


class _Kernel(Walk):
    """One launch. `filled`: which elements of scratch memory have been written."""

    def __init__(
        self, func: PrimFunc, filled: dict[Buffer, np.ndarray], addresses: Mapping[Buffer, range]
    ) -> None:
        super().__init__()
        self.func, self.filled, self.addresses = func, filled, meeting(func, addresses)
        end = max((span.stop for span in self.addresses.values()), default=0)
        self.memory = Buffer("memory", (end,), "uint8", "arena")
        self.launch = launch_of(func) or ONE_THREAD
        syncs = {s.scope for s in statements(func.body) if isinstance(s, Sync)}
        if "grid" in syncs:
            raise Undecided
        self.scopes = ("grid", "block", "warp")[: 3 if "warp" in syncs else 1 + len(syncs)]
        threads = self.launch.threads
        warps = -(-threads // WARP)
        whose = {  # what a thread is part of; the narrowest scope has the threads themselves
            "grid": lambda t: t // threads,
            "block": lambda t: t // threads * warps + t % threads // WARP,
        }
        self.who = [whose[scope] for scope in self.scopes[:-1]] + [lambda t: t]
        self.written = written_buffers(func)
        self.touched: dict[Buffer, list[_Touched]] = {}
        self.read: dict[Buffer, np.ndarray] = {}
        self.blocks = range(0)

    def check(self) -> None:
        body = lower_blocks(self.func.body)
        at_once = max(MOST_ROWS // 4 // self.launch.threads, 1)
        for first in range(0, self.launch.blocks, at_once):
            self.blocks = range(first, min(first + at_once, self.launch.blocks))
            self.stmt(body, _threads(self.launch, self.blocks))
            self.sync(Sync("block"))
            for buffer in [b for b in self.touched if b.scope == "shared"]:
                self.require_order(buffer, 0)
                del self.touched[buffer]
                self.filled.pop(buffer, None)
        self.close(0)

    def sync(self, sync: Sync) -> None:
        narrowest = self.scopes.index(sync.scope) if sync.scope in self.scopes else 0
        self.require_filled()
        for level in range(max(narrowest, 1), len(self.scopes)):
            self.close(level)

    def close(self, level: int) -> None:
        """All accesses before a barrier are known."""
        for buffer, levels in self.touched.items():
            self.require_order(buffer, level)
            levels[level].clear()

    def require_order(self, buffer: Buffer, level: int) -> None:
        """No element was written by one and touched by another since the scope's last barrier."""
        touched = self.touched[buffer][level]
        for element in np.flatnonzero((touched.other >= 0) & touched.written):
            kind = "thread" if level == len(self.scopes) - 1 else ("block", "warp")[level]
            raise ContractError(
                f"race: element {element % buffer.elements} of {buffer.name} is written by one of "
                f"{kind} {touched.first[element]} and {touched.other[element]} of the launch and "
                "touched by the other, with no barrier between"
            )

    def is_only_read(self, buffer: Buffer) -> bool:
        """Whether nothing that runs at once writes the buffer."""
        return buffer.scope == "arena" and buffer not in self.written

    def gather(self, buffer: Buffer, rows: Rows) -> None:
        """Any element, where that matters."""
        if not self.is_only_read(buffer):
            super().gather(buffer, rows)
        elif buffer in self.addresses:
            start = BufferRef(buffer, (as_term(0),) * len(buffer.shape))
            self.after(start, np.arange(buffer.elements), rows, is_write=False)

    def note(self, buffer: Buffer, at: np.ndarray, rows: Rows, *, is_write: bool) -> None:
        if buffer in self.addresses:
            self.note_bytes(buffer, at, rows, is_write=is_write)
            return
        if self.is_only_read(buffer):
            return
        elements = buffer.elements
        if buffer.scope == "shared":
            at = at + (rows.thread // self.launch.threads - self.blocks[0]) * elements
            elements *= len(self.blocks)
        if buffer not in self.touched:
            self.touched[buffer] = [_Touched(elements) for _ in self.scopes]
        for touched, who in zip(self.touched[buffer], self.who, strict=True):
            touched.note(at, who(rows.thread), is_write=is_write)
        if buffer.scope != "arena" and not is_write:
            self.read.setdefault(buffer, np.zeros(elements, bool))[at] = True

    def note_bytes(self, buffer: Buffer, at: np.ndarray, rows: Rows, *, is_write: bool) -> None:
        """The bytes of elements, of a buffer that shares them with others."""
        size = bits(buffer.dtype) // 8
        start = self.addresses[buffer].start + at * size
        for offset in range(size):
            self.touched.setdefault(
                self.memory, [_Touched(self.memory.elements) for _ in self.scopes]
            )
            for touched, who in zip(self.touched[self.memory], self.who, strict=True):
                touched.note(start + offset, who(rows.thread), is_write=is_write)

    def require_filled(self) -> None:
        """What was read has been written: before, or by the same thread since the last barrier."""
        for buffer, levels in self.touched.items():
            if buffer.scope == "arena":
                continue
            filled = self.filled.setdefault(buffer, np.zeros(len(levels[0].first), bool))
            filled |= levels[-1].written
            read = self.read.pop(buffer, None)
            if read is not None and (read & ~filled).any():
                raise ContractError(f"{buffer.name}: a thread reads an element that nothing wrote")


def _threads(launch: Launch, blocks: range) -> Rows:
    """All threads of some blocks, with their indices; x runs fastest."""
    thread = np.arange(blocks.start * launch.threads, blocks.stop * launch.threads, dtype=np.int64)
    values = {}
    for numbers, first in ((thread // launch.threads, 0), (thread % launch.threads, 3)):
        sizes = launch.extents[first : first + 3]
        steps = list(accumulate(sizes, lambda a, b: a * b, initial=1))
        for axis in range(3):
            values[BOUND[first + axis]] = numbers // steps[axis] % sizes[axis]
    return Rows(values, thread)
