"""Find the order of groups with the smallest live peak.

1. The given order is measured; if it already meets the bound that every order has (the largest
   single step), or leaves no choice, it stays.
2. Otherwise a best-first search over sets of executed steps looks for a strictly smaller peak. The
   bytes live after a set do not depend on its order, so each set is visited once.
3. A ready step that fits under the peak so far and does not add live bytes is taken at once: doing
   it later can only keep more bytes alive.
4. Steps that differ only in their names run in the given order: other orders of them are
   equivalent.
5. After `state_limit` sets, or 40 * `state_limit` tries of a step, the given order stays, and the
   result is marked as not exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from edgec.errors import PlanError

DEFAULT_STATE_LIMIT = 50_000
#: Tries of a step for each set that may be visited: wide graphs of hundreds of steps have more.
_TRIES = 40


@dataclass(frozen=True)
class Step:
    """One group: the values it reads and writes, and its scratch.

    `savings` lists (input, output, bytes) that are shared if the input dies in this step.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch_bytes: int = 0
    savings: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class Order:
    """Positions into the given steps, the live peak, and whether no order is better."""

    positions: tuple[int, ...]
    peak_bytes: int
    is_exact: bool


def smallest_order(
    steps: Sequence[Step],
    size_bytes: Mapping[str, int],
    *,
    inputs: Collection[str] = (),
    results: Collection[str] = (),
    state_limit: int = DEFAULT_STATE_LIMIT,
) -> Order:
    """Return the order with the smallest live peak; the given one wins among equals.

    `steps` must be in a legal order. `inputs` are live from before the first step to their last
    use; `results` from their step to the end. Raises PlanError if a step reads what nothing wrote
    yet, or two steps write one value.
    """
    graph = _Graph(steps, size_bytes, inputs, results)
    given = tuple(range(len(steps)))
    given_peak = graph.peak(given)
    if given_peak <= graph.largest_step():
        return Order(given, given_peak, True)
    found, is_exact = graph.search(given_peak, state_limit)
    if found is None:
        return Order(given, given_peak, is_exact)
    return Order(found, graph.peak(found), is_exact)


class _Graph:
    """The steps with sets of values as bit masks over steps."""

    def __init__(
        self,
        steps: Sequence[Step],
        size_bytes: Mapping[str, int],
        inputs: Collection[str],
        results: Collection[str],
    ) -> None:
        self.steps = steps
        self.size = size_bytes
        self.count = len(steps)
        self.readers: dict[str, int] = {}  # value -> mask of the steps that read it
        self.is_kept = set(results)
        self.needs = [0] * self.count  # step -> mask of the steps that must come before
        writer: dict[str, int] = {}
        for i, step in enumerate(steps):
            for value in step.reads:
                if value not in writer and value not in inputs:
                    raise PlanError(f"step {step.name} reads {value}, which nothing wrote before")
                self.readers[value] = self.readers.get(value, 0) | 1 << i
                if value in writer:
                    self.needs[i] |= 1 << writer[value]
            for value in step.writes:
                if value in writer or value in inputs:
                    raise PlanError(f"step {step.name} writes {value}, which exists already")
                writer[value] = i
        self.input_bytes = sum(size_bytes[v] for v in inputs)
        twins = self._twins()
        self.waits = [needs | twin for needs, twin in zip(self.needs, twins, strict=True)]
        self.followers: list[list[int]] = [[] for _ in steps]
        for i, mask in enumerate(self.waits):
            while mask:
                self.followers[(mask & -mask).bit_length() - 1].append(i)
                mask &= mask - 1
        self.tries = 0

    def _twins(self) -> list[int]:
        """Return, for each step, the mask of the last earlier step that differs only in names."""
        last: dict[object, int] = {}
        twins = []
        for i, step in enumerate(self.steps):
            written = ((self.size[v], self.readers.get(v), v in self.is_kept) for v in step.writes)
            savings = ((first, step.writes.index(v), b) for first, v, b in step.savings)
            own = self.needs[i], step.reads, step.scratch_bytes, tuple(written), tuple(savings)
            twins.append(1 << last[own] if own in last else 0)
            last[own] = i
        return twins

    def run(self, done: int, live: int, i: int) -> tuple[int, int]:
        """Return (bytes during step i, bytes after it) if `done` ran before with `live` bytes."""
        self.tries += 1
        step = self.steps[i]
        after = done | 1 << i
        dying = {v for v in step.reads if v not in self.is_kept and self.readers[v] & ~after == 0}
        written = sum(self.size[v] for v in step.writes)
        saved = sum(b for first, _, b in step.savings if first in dying)
        during = live + written + step.scratch_bytes - min(saved, written)
        unread = sum(
            self.size[v] for v in step.writes if v not in self.readers and v not in self.is_kept
        )
        return during, live + written - unread - sum(self.size[v] for v in dying)

    def peak(self, order: Sequence[int]) -> int:
        """Return the live peak of an order."""
        done, live, peak = 0, self.input_bytes, self.input_bytes
        for i in order:
            during, live = self.run(done, live, i)
            peak = max(peak, during)
            done |= 1 << i
        return peak

    def largest_step(self) -> int:
        """Return the bytes of the largest step in every order: its values and scratch."""
        everything = (1 << self.count) - 1
        largest = self.input_bytes
        for i, step in enumerate(self.steps):
            own = sum(self.size[v] for v in {*step.reads})
            during, _ = self.run(everything & ~(1 << i), own, i)
            largest = max(largest, during)
        return largest

    def first(self) -> list[int]:
        """Return the steps that may come first; of equal steps only the first."""
        return [i for i, mask in enumerate(self.waits) if not mask]

    def ready(self, before: Sequence[int], i: int, done: int) -> list[int]:
        """Return the steps that may come after `i`; before: steps that were ready together with it.

        done: the steps that have run, including `i`.
        """
        freed = [j for j in self.followers[i] if self.waits[j] & ~done == 0]
        return sorted([*(j for j in before if j != i), *freed])

    def search(self, limit_bytes: int, state_limit: int) -> tuple[tuple[int, ...] | None, bool]:
        """Return (an order with the smallest peak below the limit or None, whether exact)."""
        everything = (1 << self.count) - 1
        came_from: dict[int, tuple[int, tuple[int, ...]]] = {}
        # Smallest peak first, then the furthest; the counter keeps the given order among equals.
        heap: list[tuple[int, int, int, int, int, list[int]]] = []
        tickets = 0

        def push(
            origin: int, peak: int, live: int, done: int, taken: list[int], ready: list[int]
        ) -> None:
            nonlocal tickets
            progressing = True
            while progressing:
                progressing = False
                for i in ready:
                    during, after = self.run(done, live, i)
                    if during <= peak and after <= live:
                        live, done, progressing = after, done | 1 << i, True
                        taken.append(i)
                        ready = self.ready(ready, i, done)
                        break
            if done not in came_from:
                tickets += 1
                heapq.heappush(heap, (peak, -done.bit_count(), tickets, done, live, ready))
                pending.setdefault((done, tickets), (origin, tuple(taken)))

        pending: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        push(-1, self.input_bytes, self.input_bytes, 0, [], self.first())
        self.tries = 0
        while heap:
            peak, _, ticket, done, live, ready = heapq.heappop(heap)
            link = pending.pop((done, ticket))
            if done in came_from:
                continue
            came_from[done] = link
            if done == everything:
                return self._trace(came_from, done), True
            if len(came_from) > state_limit or self.tries > _TRIES * state_limit:
                return None, False
            for i in ready:
                during, after = self.run(done, live, i)
                if during < limit_bytes:
                    now = done | 1 << i
                    push(done, max(peak, during), after, now, [i], self.ready(ready, i, now))
        return None, True

    @staticmethod
    def _trace(came_from: Mapping[int, tuple[int, tuple[int, ...]]], done: int) -> tuple[int, ...]:
        order: list[int] = []
        while done != -1:
            done, taken = came_from[done]
            order = [*taken, *order]
        return tuple(order)
