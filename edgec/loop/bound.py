"""Loops bound to the indices of a GPU's blocks and threads: their meaning and their contract.

    block_x for i in 0..4 {                    4 blocks of 32 threads run this at once:
      thread_x for j in 0..32 {                  i = blockIdx.x, j = threadIdx.x
        y[i, j] = x[i, j] + 1          ->        if (j < 32) y[i, j] = x[i, j] + 1
    } }

Every thread of every block runs the whole body of the function. A bound loop does not repeat: its
variable is the thread's index, and threads that have no step in it skip its body. So statements
outside of all thread loops are run by every thread. `register` buffers belong to one thread,
`shared` buffers to one block, all others to the grid.

A barrier must be uniform: all threads of its scope come to it, and equally often.
`edgec.loop.threads` runs such functions and finds accesses that no barrier puts in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from math import gcd, prod
from typing import get_args

from edgec.loop.access import accesses
from edgec.loop.dtype import bits
from edgec.loop.ir import (
    Block,
    BoundKind,
    Branch,
    Buffer,
    Call,
    For,
    If,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Sync,
    SyncScope,
    While,
    remembered,
)
from edgec.loop.microkernel import get_microkernel, is_microkernel, kernels_of
from edgec.loop.rewrite import statements, walk
from edgec.numerics.term import Term, Var

BOUND: tuple[BoundKind, ...] = get_args(BoundKind)
BLOCKS, THREADS = BOUND[:3], BOUND[3:]
#: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
MOST_THREADS = 1024
MOST_STEPS: Mapping[BoundKind, int] = dict(
    zip(BOUND, (2**31 - 1, 65_535, 65_535, 1024, 1024, 64), strict=True)
)
#: Bytes of shared memory that a block may have without a request of its own.
MOST_SHARED_BYTES = 48 * 1024
WARP = 32


@dataclass(frozen=True)
class Launch:
    """Numbers of blocks and threads of a function: the largest extent of each bound kind."""

    extents: tuple[int, int, int, int, int, int]

    def of(self, kind: BoundKind) -> int:
        """Steps of a kind; 1 if no loop is bound to it."""
        return self.extents[BOUND.index(kind)]

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return prod(self.extents[:3])

    @property
    def threads(self) -> int:
        """Threads of each block."""
        return prod(self.extents[3:])


ONE_THREAD = Launch((1, 1, 1, 1, 1, 1))


@remembered
def launch_of(func: PrimFunc) -> Launch | None:
    """Blocks and threads of a function; None if no loop of it is bound."""
    loops = [stmt for stmt in statements(func.body) if isinstance(stmt, For) and stmt.kind in BOUND]
    if not loops:
        return None
    x, y, z, *threads = (
        max((s.extent or 1 for s in loops if s.kind == kind), default=1) for kind in BOUND
    )
    return Launch((x, y, z, threads[0], threads[1], threads[2]))


@remembered
def kernel_parts(func: PrimFunc) -> tuple[PrimFunc, ...]:
    """The function cut at the barriers of its grid; each part with the buffers that it uses."""
    parts: list[list[Stmt]] = [[]]
    for stmt in func.body.stmts if isinstance(func.body, Seq) else (func.body,):
        if isinstance(stmt, Sync) and stmt.scope == "grid":
            parts.append([])
        else:
            parts[-1].append(stmt)
    return tuple(_part(func, tuple(stmts)) for stmts in parts if stmts)


def _part(func: PrimFunc, stmts: tuple[Stmt, ...]) -> PrimFunc:
    body = stmts[0] if len(stmts) == 1 else Seq(stmts)
    used = {access.buffer for access in accesses(body)}
    return replace(
        func, body=body, params=tuple(p for p in func.params if p in used),
        allocs=tuple(b for b in func.allocs if b in used),
    )  # fmt: skip


def shared_bytes(func: PrimFunc) -> int:
    """Bytes of shared memory that each block takes."""
    own = (b for b in func.allocs if b.scope == "shared")
    return sum(b.elements * bits(b.dtype) // 8 for b in own)


def shared_places(func: PrimFunc) -> tuple[tuple[Buffer, int], ...]:
    """The buffers of a function that threads share, and where each lies in one piece of memory."""
    own = [buffer for buffer in func.allocs if buffer.scope == "shared"]
    return tuple(zip(own, accumulate(map(_aligned_bytes, own), initial=0), strict=False))


def group_bytes(func: PrimFunc) -> int:
    """Bytes of that piece."""
    return sum(_aligned_bytes(buffer) for buffer, _ in shared_places(func))


def _aligned_bytes(buffer: Buffer) -> int:
    """Return the buffer's bytes, rounded up to a multiple of 16."""
    return -(-buffer.elements * bits(buffer.dtype) // 128) * 16


@remembered
def does_wait(func: PrimFunc) -> bool:
    """Whether threads wait for each other, at a barrier or in a call of a whole scope."""
    together = any(get_microkernel(name).together for name in kernels_of(func))
    return together or any(isinstance(stmt, Sync) for stmt in statements(func.body))


def in_warps(launch: Launch) -> Launch:
    """The launch with threads in whole warps: more steps of their outermost index, which skip."""
    outermost = max((n for n in (3, 4, 5) if launch.extents[n] > 1), default=3)
    inside = prod(launch.extents[3:outermost])
    multiple = WARP // gcd(WARP, inside)
    extents = list(launch.extents)
    extents[outermost] = -(-extents[outermost] // multiple) * multiple
    x, y, z, *threads = extents
    return Launch((x, y, z, threads[0], threads[1], threads[2]))


def why_not_bound(func: PrimFunc) -> Iterator[str]:
    """The violations of the contract of bound loops and barriers, each as a phrase."""
    if launch_of(func) is None:
        if any(isinstance(stmt, Sync) for stmt in statements(func.body)):
            yield "a barrier, but no loop is bound"
        if any(buffer.scope == "shared" for buffer in func.allocs):
            yield "shared memory, but no loop is bound"
        return
    for part in kernel_parts(func):  # each has its own launch
        launch = launch_of(part) or ONE_THREAD
        if launch.threads > MOST_THREADS:
            yield f"{launch.threads} threads in a block; the limit is {MOST_THREADS}"
        if shared_bytes(part) > MOST_SHARED_BYTES:
            yield f"{shared_bytes(part)} bytes of shared memory, more than {MOST_SHARED_BYTES}"
        yield from _statement_faults(part, launch)
    yield from _register_faults(func)


def _statement_faults(func: PrimFunc, launch: Launch) -> Iterator[str]:
    for stmt, path in walk(func.body):
        around = {s.kind for s in path if isinstance(s, For) and s.kind in BOUND}
        if isinstance(stmt, For) and stmt.kind in BOUND:
            yield from _loop_faults(stmt, around)
        elif isinstance(stmt, Store):
            yield from _store_faults(stmt, around, launch)
        elif isinstance(stmt, (Sync, Call)):
            yield from _together_faults(stmt, path, launch)


def _together_faults(stmt: Sync | Call, path: tuple[Stmt, ...], launch: Launch) -> Iterator[str]:
    """Barriers, and calls of a whole scope, that only some of the scope's threads reach."""
    if isinstance(stmt, Sync):
        yield from _barrier_faults(stmt.scope, path, launch)
        return
    together = get_microkernel(stmt.callee).together if is_microkernel(stmt.callee) else None
    if together is not None:
        for why in _barrier_faults(together, path, launch):
            yield f"{stmt.callee} is called by threads together, but: {why}"


def _loop_faults(loop: For, around: Collection[str]) -> Iterator[str]:
    name = loop.var.name
    extent = loop.extent
    if extent is None:
        yield f"loop {name} is bound, but its extent is not constant"
    elif extent > MOST_STEPS[_kind(loop)]:
        yield f"loop {name} has {extent} steps, {loop.kind} at most {MOST_STEPS[_kind(loop)]}"
    if loop.kind in around:
        yield f"loop {name} is inside another one bound to {loop.kind}"


def _kind(loop: For) -> BoundKind:
    (kind,) = (kind for kind in BOUND if kind == loop.kind)
    return kind


def _store_faults(store: Store, around: Collection[str], launch: Launch) -> Iterator[str]:
    """An element outside the registers is stored by one thread, not by each at once."""
    if store.buffer.scope == "register":
        return
    kinds = THREADS if store.buffer.scope == "shared" else BOUND
    missing = [kind for kind in kinds if launch.of(kind) > 1 and kind not in around]
    if missing:
        yield f"every {' and '.join(missing)} stores {store.buffer.name} at once"


def _register_faults(func: PrimFunc) -> Iterator[str]:
    """Registers are a thread's own: their place does not depend on the thread, once simplified."""
    if any(isinstance(stmt, Block) for stmt in statements(func.body)):
        return
    for access in accesses(func.body):
        if access.buffer.scope == "register":
            bound = {loop.var for loop in access.loops if loop.kind in BOUND}
            if any(index.variables() & bound for index in access.indices or ()):
                yield f"a thread reaches for registers {access.buffer.name} of others"


def _barrier_faults(scope: SyncScope, path: tuple[Stmt, ...], launch: Launch) -> Iterator[str]:
    """Reasons why some threads of the scope may not come to the barrier."""
    kinds = BOUND if scope == "grid" else THREADS
    bound = _bound_variables(path, kinds)
    if any(isinstance(stmt, (Branch, While)) for stmt in path):
        yield f"sync {scope} under a condition that data decide"
    for stmt in path:
        if isinstance(stmt, For) and stmt.kind in kinds:
            if stmt.extent != launch.of(_kind(stmt)):
                yield f"sync {scope} in loop {stmt.var.name}, which not all threads enter"
        elif any(term.variables() & bound for term in _deciding(stmt)):
            yield f"sync {scope} where threads part"


def _bound_variables(path: tuple[Stmt, ...], kinds: Collection[str]) -> set[Var]:
    return {stmt.var for stmt in path if isinstance(stmt, For) and stmt.kind in kinds}


def _deciding(stmt: Stmt) -> tuple[Term, ...]:
    """The terms that decide whether, and how often, a statement's body runs."""
    if isinstance(stmt, If):
        return stmt.left, stmt.right
    return (stmt.start, stmt.stop) if isinstance(stmt, For) else ()
