"""How a search chooses where to go first; every strategy is complete, none is always fast.

Searches are heavy-tailed: an order that fails in a million nodes on one problem solves it in two
hundred when slightly changed. So every strategy gets a few nodes: first plain ones, then
changed ones, drawn from a fixed seed. A strategy is the better, the fewer buffers still waited
where its search came furthest. Mostly one of the best strategies is changed; the changed one takes
its place if it is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice, product

import numpy as np
import numpy.typing as npt

from edgec.memory.instance import Instance, IntArray

KeyArray = npt.NDArray[np.float64]


class SectionRule(Enum):
    """The rule that selects the section to branch in. "Fewest": with the fewest candidates."""

    FEWEST_THEN_FULLEST = "fewest, then most to place"
    FEWEST_THEN_TIGHTEST = "fewest, then least slack"
    FEWEST_THEN_FIRST = "fewest, then first in time"
    LOWEST = "lowest floor"
    FORCED_THEN_LOWEST = "one candidate only, else lowest floor"
    FULLEST = "most to place"
    BLAMED = "forced, else fewest per failure seen there"


@dataclass(frozen=True)
class Strategy:
    """A section rule, and a rank [n] in which equally low buffers are tried, made from `keys`."""

    name: str
    section_rule: SectionRule
    rank: IntArray
    keys: tuple[KeyArray, ...]


# Letters: Total bytes at the buffer's worst moment, Width in steps, Area, siZe, Birth; largest
# first. Birth: an output must be placed before (below) the input that it may overlap.
_RANK_KEYS = ("TWA", "TAW", "WAT", "AWT", "ZWT", "BTA")
# Spread of a change to a rank's keys, probability of changing the rule too, and mean rank among the
# kept strategies, best first, of the one that is changed.
_SPREADS = (0.02, 0.05, 0.2, 0.5)
_OTHER_RULE = 0.15
_MEAN_PLACE = 5.0
_SEED = 1


def plain_strategies(instance: Instance, most: int | None = None) -> list[Strategy]:
    """Every section rule with every order of the keys, or at most `most` of them."""
    values = _keys(instance)
    has_overlap = any(
        gap < instance.size[low] for low, of in enumerate(instance.gaps) for gap in of.values()
    )
    orders = {}
    for letters in (_RANK_KEYS[::-1] if has_overlap else _RANK_KEYS)[:most]:
        keys = tuple(values[letter] for letter in letters)
        orders[letters] = _rank(keys), keys
    made = product(SectionRule, orders.items())
    return [
        Strategy(f"{rule.value}; {letters}", rule, *of)
        for rule, (letters, of) in islice(made, most)
    ]


@dataclass
class _Kept:
    """A strategy that others are made from. score: the lower, the better."""

    strategy: Strategy
    score: int


class Breeder:
    """Makes strategies out of the most successful ones; deterministic."""

    def __init__(self, plain: Sequence[Strategy]) -> None:
        """`plain`: the initial strategies, at least one."""
        self._random = np.random.default_rng(_SEED)
        self._kept = [_Kept(strategy, len(strategy.rank)) for strategy in plain]
        self._parents = {kept.strategy.name: kept for kept in self._kept}
        self._made = 0

    def make(self) -> Strategy:
        """Return a new strategy: one of the best, changed."""
        self._kept.sort(key=lambda kept: kept.score)
        place = min(int(self._random.exponential(_MEAN_PLACE)), len(self._kept) - 1)
        parent = self._kept[place]
        spread = float(self._random.choice(_SPREADS))
        rule = parent.strategy.section_rule
        if self._random.random() < _OTHER_RULE:
            rule = list(SectionRule)[int(self._random.integers(len(SectionRule)))]
        first, *others = parent.strategy.keys
        keys = (first * np.exp(spread * self._random.standard_normal(len(first))), *others)
        self._made += 1
        made = Strategy(f"changed {self._made}", rule, _rank(keys), keys)
        self._parents[made.name] = parent
        return made

    def learn(self, strategy: Strategy, waiting: int) -> None:
        """Take note that a search by `strategy` came as far as `waiting` buffers to place."""
        parent = self._parents[strategy.name]
        if waiting <= parent.score or strategy is parent.strategy:
            parent.strategy, parent.score = strategy, waiting
        else:
            parent.score += 1  # useless strategies are dropped at the end


def _keys(instance: Instance) -> dict[str, KeyArray]:
    total = np.zeros(len(instance), dtype=np.int64)
    for section in instance.sections:
        members = list(section.members)
        total[members] = np.maximum(total[members], sum(section.weights))
    width = np.array([b.stop - b.start for b in instance.buffers], dtype=np.int64)
    start = np.array([b.start for b in instance.buffers], dtype=np.int64)
    birth = start - start.min(initial=0) + 1
    area = instance.size * width
    whole = {"T": total, "W": width, "A": area, "Z": instance.size, "B": birth}
    return {letter: key.astype(np.float64) for letter, key in whole.items()}


def _rank(keys: Sequence[KeyArray]) -> IntArray:
    order = np.lexsort([-key for key in reversed(keys)])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank
