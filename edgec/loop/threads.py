"""Runs functions with bound loops: barriers part time into epochs, and races are errors.

The interpreter's source of such a function (`edgec.loop.interpret`) is a generator for one thread,
which stops at each barrier. Threads run one after the other up to a barrier of their warp, warps up
to one of their block, blocks up to one of the grid. Every access is recorded with its epoch, so
that each run finds a missing barrier, whatever the order of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, SupportsIndex

from edgec.errors import ContractError
from edgec.loop.bound import BOUND, WARP, Launch
from edgec.loop.ir import PrimFunc

#: A thread, or a group of threads; yields the scope of each barrier that it reaches.
Run = Iterator[str]


def run_grid(
    func: PrimFunc,
    launch: Launch,
    start: Callable[..., Run],
    lists: Mapping[str, list[Any]],
    numbers: Mapping[str, int],
) -> None:
    """Run a function on flat lists, by names of the interpreter's source, in place.

    start: makes one thread. numbers: the function's index arguments. Raises ContractError for a
    race (two accesses of one element, at least one a write, without a barrier between them) and for
    barriers that only some threads of the scope reach.
    """
    clock = _Clock()
    constant = {f"b_{b.name}" for b in func.params if b.scope == "constant"}
    memory = {
        name: values if name in constant else _Memory(name, values, clock)
        for name, values in lists.items()
    }
    blocks = []
    for block in range(launch.blocks):
        shared = {
            f"b_{b.name}": _Memory(b.name, [None] * b.elements, clock)
            for b in func.allocs
            if b.scope == "shared"
        }
        given = {**memory, **shared, **numbers}
        warps = [
            _together([_thread(func, launch, start, given, clock, block, t) for t in warp], "warp")
            for warp in _warps(launch.threads)
        ]
        blocks.append(_together(warps, "block"))
    for _ in _together(blocks, "grid"):
        raise ContractError(f"{func.name}: a barrier of no scope")
    for name, values in lists.items():
        values[:] = list(memory[name])


def _warps(threads: int) -> list[range]:
    return [range(first, min(first + WARP, threads)) for first in range(0, threads, WARP)]


def _thread(
    func: PrimFunc, launch: Launch, start: Callable[..., Run], given: Mapping[str, Any],
    clock: _Clock, block: int, thread: int,
) -> Run:  # fmt: skip
    """One thread, which sets the clock to its own time before it goes on."""
    places = [*_place(block, launch.extents[:3]), *_place(thread, launch.extents[3:])]
    own = {f"b_{b.name}": [None] * b.elements for b in func.allocs if b.scope == "register"}
    steps = start(**given, **own, **dict(zip(BOUND, places, strict=True)))
    now = _Time(block, thread)
    while True:
        clock.now = now
        scope = next(steps, "")
        if not scope:
            return
        now = now.after(scope)
        yield scope


def _place(number: int, extents: tuple[int, ...]) -> tuple[int, ...]:
    """The x, y and z of a block or thread; x runs fastest."""
    z, y, x = list(product(*(range(extent) for extent in reversed(extents))))[number]
    return x, y, z


def _together(members: list[Run], scope: str) -> Run:
    """Run members of a scope from barrier to barrier; yields barriers of wider scopes."""
    while True:
        met = {next(member, "") for member in members}
        if len(met) > 1:
            words = " and ".join(f"sync {s}" if s else "the end" for s in sorted(met))
            raise ContractError(f"threads of one {scope} part: they come to {words}")
        (where,) = met
        if not where:
            return
        if where != scope:
            yield where


@dataclass(frozen=True)
class _Time:
    """The thread of an access, and the number of barriers of each scope before it."""

    block: int
    thread: int
    grids: int = 0
    in_block: int = 0
    in_warp: int = 0

    def after(self, scope: str) -> _Time:
        if scope == "grid":
            return _Time(self.block, self.thread, self.grids + 1)
        if scope == "block":
            return _Time(self.block, self.thread, self.grids, self.in_block + 1)
        return _Time(self.block, self.thread, self.grids, self.in_block, self.in_warp + 1)

    def is_ordered_with(self, other: _Time) -> bool:
        """Whether a barrier lies between two accesses, or one thread does both."""
        if self.block != other.block:
            return self.grids != other.grids
        if (self.grids, self.in_block) != (other.grids, other.in_block):
            return True
        same_warp = self.thread // WARP == other.thread // WARP
        return self.thread == other.thread or (same_warp and self.in_warp != other.in_warp)

    def __str__(self) -> str:
        return f"thread {self.thread} of block {self.block}"


class _Clock:
    now: _Time = _Time(0, 0)


class _Memory(list[Any]):
    """A flat list that notes who read and wrote each element since it was last written."""

    def __init__(self, name: str, values: list[Any], clock: _Clock) -> None:
        super().__init__(values)
        self.name = name.removeprefix("b_")
        self.clock = clock
        self.written: dict[int, _Time] = {}
        self.read: dict[int, set[_Time]] = {}

    def __getitem__(self, index: Any) -> Any:
        for element in range(*index.indices(len(self))) if isinstance(index, slice) else (index,):
            self._require_order(element, self.written.get(element), "written", "read")
            self.read.setdefault(element, set()).add(self.clock.now)
        return super().__getitem__(index)

    def __setitem__(self, index: SupportsIndex | slice, value: Any) -> None:
        if isinstance(index, slice):  # from a kernel, which writes back unchanged elements too
            for element, new in zip(range(*index.indices(len(self))), value, strict=True):
                if super().__getitem__(element) != new:
                    self[element] = new
            return
        element = int(index)
        self._require_order(element, self.written.get(element), "written", "written")
        for reader in self.read.pop(element, ()):
            self._require_order(element, reader, "read", "written")
        self.written[element] = self.clock.now
        super().__setitem__(element, value)

    def _require_order(self, element: int, before: _Time | None, first: str, then: str) -> None:
        now = self.clock.now
        if before is not None and not before.is_ordered_with(now):
            raise ContractError(
                f"race: element {element} of {self.name} is {first} by {before} and {then} by "
                f"{now}, with no barrier between"
            )
