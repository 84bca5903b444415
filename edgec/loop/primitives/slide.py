"""slide: run each step of a consumer as soon as the rows that it reads exist."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.access import reads, writes
from edgec.loop.ir import Block, Buffer, For, PrimFunc, Seq, Stmt
from edgec.loop.primitives.lookup import find_loop, reduce_vars, with_changes
from edgec.loop.rewrite import sequence, statements
from edgec.loop.row_order import touches
from edgec.loop.simplify import lower_blocks
from edgec.loop.step_term import step_term
from edgec.numerics.term import as_term


def slide(func: PrimFunc, loop: str, into: str) -> tuple[PrimFunc, None]:
    """Run the steps of `loop` inside `into`, each when the last row that it reads was written.

        for i in 0..9 {                            for i in 0..9 {
          t[i] = f(x[i])                             t[i] = f(x[i])
        }                                    ->      for j in e(i)..e(i + 1) {
        for j in 0..7 {                                u[j] = g(t[j], t[j + 1], t[j + 2])
          u[j] = g(t[j], t[j + 1], t[j + 2])         }
        }                                          }

    e(i) is the number of steps that the rows made before step i suffice for, here
    max(i - 2, 0). Every row is made once, and `fold_storage` can then keep the last few only.

    Requires: `loop` stands on its own after the nest that holds `into`, steps from 0 and does not
    carry a reduction; nothing between the two uses its output or writes its inputs; `into` runs
    through its steps once, and `e` has a closed form. A row that both write, such as a sum in place
    of an operand, is made after the nest's last use of it.
    """
    consumer, path = find_loop(func, loop)
    producer, above = find_loop(func, into)
    tops = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    if not all(isinstance(s, Seq) for s in path) or len(path) > 1:
        raise ScheduleError(f"slide: loop {loop} stands inside another statement")
    around = (*above, producer)
    root = next(s for s in around if not isinstance(s, Seq))
    positions = {id(s): i for i, s in enumerate(tops)}
    first, last = positions.get(id(root)), positions.get(id(consumer))
    if first is None or last is None or first >= last:
        raise ScheduleError(f"slide: loop {loop} does not run after loop {into}")
    steps = consumer.extent
    if consumer.start.constant != 0 or steps is None:
        raise ScheduleError(f"slide: loop {loop} does not step from 0 to a number")
    for stmt in statements(consumer):
        if isinstance(stmt, Block) and consumer.var in reduce_vars(stmt):
            raise ScheduleError(f"slide: block {stmt.name} reduces over loop {loop}")
    rows = _require_order(root, tops[first + 1 : last], consumer)
    ready = _ready(root, producer, consumer, rows)
    done = [sum(1 for r in ready if r < step) for step in range(_steps(producer) + 1)]
    start, stop = (step_term(done, as_term(producer.var) + i) for i in (0, 1))
    moved = replace(consumer, start=start, stop=stop)
    inside = replace(producer, body=sequence(producer.body, moved))
    return with_changes(func, [(consumer, None), (producer, inside)]), None


def _steps(producer: For) -> int:
    return producer.var.stop


def _require_order(root: Stmt, between: tuple[Stmt, ...], consumer: For) -> frozenset[Buffer]:
    """The buffers by whose rows nest and consumer depend on each other, or ScheduleError."""
    taken, given = reads(consumer), writes(consumer)
    for stmt in between:
        clash = (writes(stmt) & taken) | ((writes(stmt) | reads(stmt)) & given)
        if clash:
            names = ", ".join(sorted(b.name for b in clash))
            raise ScheduleError(f"slide: {names} is used before loop {consumer.var.name}")
    if not taken & writes(root):
        raise ScheduleError(f"slide: loop {consumer.var.name} reads nothing that is made there")
    return frozenset((taken & writes(root)) | (given & (reads(root) | writes(root))))


def _ready(root: Stmt, producer: For, consumer: For, rows: frozenset[Buffer]) -> list[int]:
    """Return, for each iteration of the consumer, the producer's iteration after which it may run.

    By then its input rows are written, and its output rows have no other use.
    """
    name = producer.var.name
    written: dict[tuple[Buffer, int], int] = {}
    used: dict[tuple[Buffer, int], int] = {}
    step = -1
    for touch in touches(lower_blocks(root), rows):
        at = touch.at.get(name)
        if at is not None and at != step:
            if at != step + 1:
                raise ScheduleError(f"slide: loop {name} does not run through its steps once")
            step = at
        for row in range(touch.first, touch.stop):
            # Work after the loop runs at its next iteration.
            used[touch.buffer, row] = step + (at is None)
            if touch.is_write:
                written[touch.buffer, row] = used[touch.buffer, row]
    ready = [0] * consumer.var.stop
    own: set[tuple[Buffer, int]] = set()
    for touch in touches(lower_blocks(consumer), rows):
        at = touch.at[consumer.var.name]
        for row in range(touch.first, touch.stop):
            place = touch.buffer, row
            if touch.is_write:
                own.add(place)
                ready[at] = max(ready[at], used.get(place, 0))
            elif place in written:
                ready[at] = max(ready[at], written[place])
            elif place not in own:
                raise ScheduleError(f"slide: row {row} of {touch.buffer.name} is never written")
    for at in range(1, len(ready)):
        ready[at] = max(ready[at], ready[at - 1])
    if step + 1 != _steps(producer) or max(ready) > step:
        raise ScheduleError(f"slide: the result of loop {name} is incomplete at its last step")
    return ready
