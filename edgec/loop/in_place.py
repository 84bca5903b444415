"""Which inputs a function's output may replace exactly where they are.

`edgec.loop.overlap` knows outputs that follow their input through memory. This is about functions
that go another way, such as channel after channel: an input qualifies if it has the output's shape
and dtype, and if in every step of the loops around all uses of both

  1. every read of the input comes before the first write of the output, and
  2. what is read and what is written lie inside one slab of the index space that belongs to this
     step alone: no other step reads what this one writes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.loop.access import Region, reads, region, term_range, writes
from edgec.loop.ir import Buffer, For, PrimFunc, Seq, Stmt, Store
from edgec.loop.simplify import drop_decided, lower_blocks
from edgec.numerics.term import Var


def in_place_inputs(func: PrimFunc) -> tuple[str, ...]:
    """The names of the inputs at whose very address the output may be."""
    body = drop_decided(lower_blocks(func.body))
    arena = [p for p in func.params if p.scope == "arena"]
    written = [p for p in arena if p in writes(body)]
    if len(written) != 1:
        return ()
    out = written[0]
    if out in reads(body):
        return ()
    return tuple(p.name for p in arena if p != out and _may_share(body, p, out))


def row_bytes(func: PrimFunc) -> int:
    """The bytes by whose multiples an output in place may lie above the input; 0 if it may not.

    The function goes channel by channel: in all rows a step reads and writes one channel, or a few.
    No other step uses these channels, so the step may write them some rows higher.
    """
    body = drop_decided(lower_blocks(func.body))
    names = in_place_inputs(func)
    if not names:
        return 0
    x = next(p for p in func.params if p.name == names[0])
    out = next(p for p in func.params if p.scope == "arena" and p in writes(body))
    loops, home = _home(body, x, out)
    read = region(x, home, outer=loops, only="reads")
    write = region(out, home, outer=loops, only="writes")
    if not isinstance(home, Seq) or read is None or write is None:
        return 0
    own = _separated(len(x.shape) - 1, read, write, loops)
    channels = x.shape[-1] * np.dtype(x.dtype).itemsize
    return channels if all(loop.var in own or loop.extent == 1 for loop in loops) else 0


def _may_share(body: Stmt, x: Buffer, out: Buffer) -> bool:
    if (x.shape, x.extents, x.dtype) != (out.shape, out.extents, out.dtype):
        return False
    loops, home = _home(body, x, out)
    read = region(x, home, outer=loops, only="reads")
    write = region(out, home, outer=loops, only="writes")
    if read is None or write is None:
        return read is None
    if not _reads_first(home, x, out, read, write):
        return False
    own: set[Var] = set()
    for dimension in range(len(x.shape)):
        own |= _separated(dimension, read, write, loops)
    return all(loop.var in own or loop.extent == 1 for loop in loops)


def _home(stmt: Stmt, x: Buffer, out: Buffer) -> tuple[list[For], Stmt]:
    """The smallest statement that holds all uses of both buffers, and the loops around it."""
    loops: list[For] = []
    while True:
        if isinstance(stmt, For):
            loops.append(stmt)
            stmt = stmt.body
            continue
        if isinstance(stmt, Seq):
            users = [s for s in stmt.stmts if {x, out} & (reads(s) | writes(s))]
            if len(users) == 1:
                stmt = users[0]
                continue
        return loops, stmt


def _reads_first(home: Stmt, x: Buffer, out: Buffer, read: Region, write: Region) -> bool:
    if isinstance(home, Store):
        same = read.starts == write.starts and read.stops == write.stops
        return same and all(extent.constant == 1 for extent in write.extents())
    if not isinstance(home, Seq):
        return False
    last_read = max(i for i, s in enumerate(home.stmts) if x in reads(s))
    first_write = min(i for i, s in enumerate(home.stmts) if out in writes(s))
    return last_read < first_write


def _separated(dimension: int, read: Region, write: Region, loops: Sequence[For]) -> set[Var]:
    """The loops whose iterations access disjoint parts of this dimension."""
    start, stop = write.starts[dimension], write.stops[dimension]
    if (read.starts[dimension], read.stops[dimension]) != (start, stop):
        return set()
    reach = (stop - start).constant
    if reach is None:
        return set()
    # Mixed radix: a loop steps over all that the loops with smaller strides can reach.
    found: set[Var] = set()
    ranges = {loop.var: loop for loop in loops}
    for atom, stride in sorted(start.parts, key=lambda part: abs(part[1])):
        if not isinstance(atom, Var) or atom not in ranges or abs(stride) < reach:
            return set()
        loop = ranges[atom]
        first = term_range(loop.start, loops)[0]
        last = term_range(loop.stop, loops)[1]
        reach += abs(stride) * max(last - first - 1, 0)
        found.add(atom)
    return found
