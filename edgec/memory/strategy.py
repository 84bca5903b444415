"""How a search chooses where to go first; every strategy is complete, none is always fast.

Searches are heavy-tailed: an order that fails in a million nodes on one problem solves it in two
hundred when slightly changed. So many strategies get a few nodes each. They are deterministic:
the perturbed ones are drawn from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from edgec.memory.instance import NEVER, Instance, IntArray


class SectionRule(Enum):
    """Which section a node branches in. "Fewest": the one with the fewest candidates."""

    FEWEST_THEN_FULLEST = "fewest, then most to place"
    FEWEST_THEN_TIGHTEST = "fewest, then least slack"
    FEWEST_THEN_FIRST = "fewest, then first in time"
    LOWEST = "lowest floor"
    FORCED_THEN_LOWEST = "one candidate only, else lowest floor"
    FULLEST = "most to place"
    BLAMED = "forced, else fewest per failure seen there"


@dataclass(frozen=True)
class Strategy:
    """A section rule, and a rank [n] in which equally low buffers are tried."""

    name: str
    section_rule: SectionRule
    rank: IntArray


# Letters: Total bytes at the buffer's worst moment, Width in steps, Area, siZe, Birth; largest
# first. Birth: an output must be placed before (below) the input that it may overlap.
_RANK_KEYS = ("TWA", "TAW", "WAT", "AWT", "ZWT", "BTA")
PLAIN_STRATEGIES = len(SectionRule) * len(_RANK_KEYS)
_SPREADS = (0.05, 0.2, 0.5)
_SEED = 1


def strategies(instance: Instance) -> Iterator[Strategy]:
    """Yield strategies without end: the PLAIN_STRATEGIES combinations, then perturbed ones."""
    keys = _keys(instance)
    has_overlap = bool(((instance.sep > NEVER) & (instance.sep < instance.size[:, None])).any())
    ranks = _RANK_KEYS[::-1] if has_overlap else _RANK_KEYS
    for rule in SectionRule:
        for letters in ranks:
            rank = _rank([keys[letter] for letter in letters])
            yield Strategy(f"{rule.value}; {letters}", rule, rank)
    random = np.random.default_rng(_SEED)
    while True:
        # Half of them learn from the failures of all searches before.
        for rule in [r for plain in SectionRule for r in (plain, SectionRule.BLAMED)]:
            for letters in ranks:
                spread = float(random.choice(_SPREADS))
                noisy = [
                    keys[letter] * np.exp(spread * random.standard_normal(len(instance)))
                    for letter in letters
                ]
                yield Strategy(f"{rule.value}; {letters} ± {spread}", rule, _rank(noisy))


def _keys(instance: Instance) -> dict[str, IntArray]:
    total = np.zeros(len(instance), dtype=np.int64)
    for section in instance.sections:
        members = list(section.members)
        total[members] = np.maximum(total[members], sum(section.weights))
    width = np.array([b.stop - b.start for b in instance.buffers], dtype=np.int64)
    start = np.array([b.start for b in instance.buffers], dtype=np.int64)
    birth = start - start.min(initial=0) + 1
    area = instance.size * width
    return {"T": total, "W": width, "A": area, "Z": instance.size, "B": birth}


def _rank(keys: list[IntArray]) -> IntArray:
    order = np.lexsort([-key for key in reversed(keys)])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank
