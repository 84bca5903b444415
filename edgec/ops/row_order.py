"""Rows of a tensor in order: the first few of it picked, or all of it merged.

Equal elements come in the order of their indices. A NaN is before nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.loop.define import Tensor
from edgec.loop.dtype import is_float
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, index, maximum, minimum, select

#: A comparison of a merge costs two of a pick, because it reads indices first.
_MERGE_COST = 2


def merge_levels(extent: int) -> int:
    """The number of levels in which a merge sort orders a row of `extent` elements."""
    return max(extent - 1, 0).bit_length()


def most_picked(extent: int) -> int:
    """The largest count at which picking needs no more comparisons than a merge sort."""
    levels = merge_levels(extent)
    return max(_MERGE_COST * levels * (levels + 1) // 2, 1)


@dataclass(frozen=True)
class RowOrder:
    """The order along an axis of x: from its largest element on, or from its smallest."""

    target: Lowering
    x: Tensor
    axis: int
    largest: bool

    @property
    def extent(self) -> int:
        """Elements of a row."""
        return self.x.shape[self.axis]

    def read(self, at: Sequence[Any], k: Any) -> Value:
        """The element k of the row of an index."""
        return self.x[(*at[: self.axis], k, *at[self.axis + 1 :])]

    def before(self, one: Value, other: Value) -> Value:
        """Whether one element comes before the other by its value."""
        return one > other if self.largest else one < other

    def pick(self, count: int, values: Tensor, indices: Tensor) -> None:
        """Write the first `count` elements of each row, and their positions.

        Each round looks for the first of the elements that come after the last one picked.
        """
        define, axis = self.target.definition, self.axis
        shape = tuple(1 if a == axis else e for a, e in enumerate(self.x.shape))
        last = define.compute(self.target.unique("last"), lambda *at: -1, shape=shape,
                              dtype="int32")  # fmt: skip

        def better(acc: Value, *at: Any) -> Value:
            own, k = at[1:-1], at[-1]
            value, first = self.read(own, k), self.read(own, maximum(acc, 0))
            wins = (acc < 0) | self.before(value, first)
            return select(wins & self._is_after(last[own], own, value, k), index(k), acc)

        def at_step(*at: Any) -> tuple[Any, ...]:
            return (*at[1 : axis + 1], at[0], *at[axis + 2 :])

        with define.steps(self.target.unique("picks"), count):
            best = define.reduce(
                self.target.unique("best"), [("k", 0, self.extent)], init=lambda *at: -1,
                update=better, shape=shape, dtype="int32",
            )  # fmt: skip

            def place(at: Sequence[Any]) -> Value:
                found: Value = maximum(best[at[1:]], 0)
                return found

            define.compute(
                values, lambda *at: self.read(at[1:], place(at)), shape=shape, at=at_step
            )
            define.compute(
                indices, lambda *at: cast(place(at), indices.dtype), shape=shape, at=at_step
            )
            define.compute(last, lambda *at: best[at[1:]], name=self.target.unique("next"))

    def _is_after(self, last: Value, own: Sequence[Any], value: Value, k: Any) -> Value:
        """Whether an element comes after the last one picked, if there is one."""
        before = self.read(own, maximum(last, 0))
        later = self.before(before, value) | (before.equals(value) & (last < index(k)))
        is_first = last < 0
        if is_float(self.x.dtype):
            is_first = is_first & value.equals(value)
        return is_first | later

    def merged(self) -> Tensor:
        """Return for each place of a row the index of its element, int32.

        Runs of 1, 2, 4 … elements that are in order are merged in pairs. For a place of a pair of
        runs a bisection finds how many of the first run stand before it; the others are of the
        second.
        """
        define, shape = self.target.definition, self.x.shape
        order = define.compute(
            self.target.unique("order"), lambda *at: index(at[self.axis]), shape=shape,
            dtype="int32",
        )  # fmt: skip
        other: Tensor | str = self.target.unique("other")
        for level in range(merge_levels(self.extent)):
            made = self._merge(_Merge(self, order, level), other)
            order, other = made, order
        return order

    def _merge(self, merge: _Merge, into: Tensor | str) -> Tensor:
        define, shape = self.target.definition, self.x.shape
        split = define.reduce(
            self.target.unique("split"), [("b", 0, merge.level + 1)], init=lambda *at: 0,
            update=merge.more, shape=shape, dtype="int32",
        )  # fmt: skip
        return define.compute(
            into, lambda *at: merge.next(split[at], at), shape=shape, dtype="int32",
            name=self.target.unique(f"merge{merge.level}"),
        )  # fmt: skip


@dataclass(frozen=True)
class _Merge:
    """Pairs of runs of 2**level elements become one run each; the last of a row may be shorter.

    order: the indices of the elements as the runs have them.
    """

    rows: RowOrder
    order: Tensor
    level: int

    def more(self, found: Value, *at: Any) -> Value:
        """One step of the bisection: how many elements of the first run stand before a place.

        One more if the first run's element does not come after the second run's next element.
        """
        own, bit = at[:-1], index(at[-1])
        rest, first, second = self._sizes(own)
        trial = found + ((bit * 0 + 1) << (bit * -1 + self.level))
        late = self._is_before(own, rest - trial, trial - 1)
        is_late = late & (rest - trial < second)
        inside = (trial <= first) & (trial <= rest)
        return select(inside, select(is_late, found, trial), found)

    def next(self, taken: Value, at: Sequence[Any]) -> Value:
        """The index of the element at a place, with `taken` of the first run before it."""
        rest, first, second = self._sizes(at)
        left = rest - taken
        is_late = self._is_before(at, left, taken) & (left < second)
        is_second = is_late | (taken >= first)
        return select(is_second, self._index(at, left + self._run), self._index(at, taken))

    @property
    def _run(self) -> int:
        return 1 << self.level

    def _sizes(self, at: Sequence[Any]) -> tuple[Value, Value, Value]:
        """The place within its pair of runs, and how many elements each of them has."""
        place = at[self.rows.axis]
        rest = place % (2 * self._run)
        left = self.rows.extent - (place - rest)
        first = minimum(left, self._run)
        return index(rest), index(first), index(minimum(left, 2 * self._run) - first)

    def _index(self, at: Sequence[Any], place: Value) -> Value:
        """The index of the element that stands at a place of the pair of runs."""
        position = at[self.rows.axis]
        start = index(position - position % (2 * self._run))
        inside = minimum(maximum(start + place, 0), self.rows.extent - 1)
        axis = self.rows.axis
        return self.order[(*at[:axis], inside, *at[axis + 1 :])]

    def _is_before(self, at: Sequence[Any], second: Value, first: Value) -> Value:
        """Whether an element of the second run comes before one of the first."""
        one = self.rows.read(at, self._index(at, second + self._run))
        other = self.rows.read(at, self._index(at, first))
        return self.rows.before(one, other)
