"""The search in one group: generations of candidates by mutation and crossover of the best.

1. The rules' schedules are measured first: the best one is the default.
2. A generation is drawn from the best so far: mostly mutations of one or two decisions, some
   mixtures of two parents, some random ones. A candidate is dropped if its estimate is far slower
   than its generation's (`edgec.loop.cost`), or if it takes much more scratch than the default.
3. Measurements decide which are the best.

All is decided by the seed and the figures: who measures, and how many at once, changes nothing. A
figure that is known is not measured again, so an interrupted search goes on where it was.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgec.loop.tuned import Figures, TunedGroup
from edgec.passes.tuned_variants import is_frugal, is_lean, is_leaner
from edgec.tune.candidates import Candidates, Found
from edgec.tune.decisions import crossed, mutated

#: Candidates of a generation, how many are drawn for each of them, and parents of the next.
GENERATION, DRAWN, PARENTS = 16, 2, 8
#: Draws of a generation, at most: small spaces are soon exhausted.
MOST_DRAWS = 150
#: Shares of mutated candidates, and of mixed ones; the others are drawn anew.
MUTATED, MIXED = 0.6, 0.25
#: Who is estimated at more times the least of a generation is left out.
FAR_SLOWER = 1.6
#: Scratch that a candidate may take more than the default: a part of inputs and outputs, and bytes.
SCRATCH_SHARE, SCRATCH_BYTES = 0.25, 256
#: A candidate that takes more times the default's instructions is given up.
PATIENCE, _MOST_INSTRUCTIONS = 4, 10**10
#: Of schedules with hardly more instructions than the best, the one with the least code wins.
AS_FAST = 1.01


class GroupSearch:
    """The search of one group. trials: candidates in addition to the rules' schedules. lean: some
    parents take no more bytes of any kind than the default.

    `batch` returns the next candidates to measure; `learn` takes their measurements.
    """

    def __init__(
        self,
        candidates: Candidates,
        group: TunedGroup,
        *,
        seed: int,
        trials: int,
        lean: bool = False,
    ) -> None:
        self.candidates = candidates
        self.group = group
        self.lean = lean
        self.trials = trials if candidates.has_space else 0
        self.met: dict[str, Found] = {}
        self._rng = random.Random(f"{seed} {candidates.nest}")
        self.trials_done = 0
        self._is_exhausted = False
        self._frugal: dict[str, bool] = {}
        self._lean: dict[str, bool] = {}
        self.batch: tuple[Found, ...] = _distinct(candidates.defaults)
        #: Whether a finished search had these candidates and the rules' current schedules.
        self.is_settled = group.trials > 0 and not self.unknown
        self._note()

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to be measured."""
        return not self.batch

    @property
    def unknown(self) -> tuple[Found, ...]:
        """The candidates of the batch without figures."""
        return tuple(f for f in self.batch if f.digest not in self.group.figures)

    def learn(self, figures: Mapping[str, Figures | None]) -> None:
        """Take the figures of the batch, by digest, and draw the next one."""
        self.group = replace(self.group, figures={**self.group.figures, **figures})
        if any(f.made for f in self.batch):
            self.trials_done += len(self.batch)
        self.batch = (
            self._next() if self.trials_done < self.trials and not self._is_exhausted else ()
        )
        self._note()

    def best(self) -> Figures | None:
        """The figures of the fastest so far."""
        ranked = self._ranked()
        return self.figures_of(ranked[0]) if ranked else None

    def figures_of(self, found: Found) -> Figures | None:
        """The measured figures of a candidate."""
        return self.group.figures.get(found.digest)

    @property
    def default(self) -> Found | None:
        """The fastest measured schedule of the rules."""
        ranked = [f for f in self._ranked() if f.winner is None]
        return ranked[0] if ranked else None

    @property
    def budget(self) -> int:
        """Instructions after which a candidate is aborted."""
        default = self.default
        figures = None if default is None else self.figures_of(default)
        return _MOST_INSTRUCTIONS if figures is None else PATIENCE * figures.instructions + 10_000

    def winners(self) -> tuple[Found, ...]:
        """The fastest, the fastest with hardly more memory than the default, and the one with no
        more bytes of any kind, if they are faster than the default.
        """
        default = self.default
        if default is None:
            return ()
        base = _takes(self, default)
        faster = [f for f in self._ranked() if f.winner and _takes(self, f) < base]
        frugal = [f for f in faster if self._is_frugal(f)]
        lean = [f for f in faster if self._is_lean(f)]
        found = (*self._least_code(faster), *self._least_code(frugal), *lean[:1])
        return _distinct(found)

    def _is_frugal(self, found: Found) -> bool:
        """Whether it takes hardly more memory than the default."""
        default = self.default
        if found.digest not in self._frugal:
            is_one = default is None or is_frugal(found.variant, default.variant)
            self._frugal[found.digest] = is_one
        return self._frugal[found.digest]

    def _is_lean(self, found: Found) -> bool:
        """Whether it takes no more bytes of any kind than the default."""
        default, figures = self.default, self.figures_of(found)
        base = None if default is None else self.figures_of(default)
        if default is None or figures is None or base is None or not is_leaner(figures, base):
            return False
        if found.digest not in self._lean:
            self._lean[found.digest] = is_lean(found.variant, default.variant)
        return self._lean[found.digest]

    def _parents(self) -> list[Found]:
        """The best candidates; half of them take hardly more memory than the default."""
        ranked = [f for f in self._ranked() if f.made]
        frugal = [f for f in ranked[: 4 * PARENTS] if self._is_frugal(f)]
        lean = [f for f in ranked if self._is_lean(f)] if self.lean else []
        half = PARENTS // 2
        return list(_distinct((*ranked[:half], *frugal[:half], *lean[:half])))

    def _least_code(self, ranked: Sequence[Found]) -> tuple[Found, ...]:
        """The candidate with the least code among those as fast as the first."""
        near = [f for f in ranked if _takes(self, f) <= AS_FAST * _takes(self, ranked[0])]
        code = {f.digest: figures.code_bytes for f in near if (figures := self.figures_of(f))}
        return (min(near, key=lambda f: code[f.digest]),) if near else ()

    def _ranked(self) -> list[Found]:
        """The measured candidates, the fastest first; of equals, the earliest."""
        known = [f for f in self.met.values() if self.figures_of(f) is not None]
        return sorted(known, key=lambda f: _takes(self, f))

    def _note(self) -> None:
        for found in self.batch:
            self.met.setdefault(found.digest, found)
        tried = dict.fromkeys((*self.group.tried, *(f.digest for f in self.batch)))
        self.group = replace(self.group, tried=tuple(tried))

    def _next(self) -> tuple[Found, ...]:
        wanted = min(GENERATION, self.trials - self.trials_done)
        parents = self._parents()
        drawn: dict[str, Found] = {}
        for _ in range(MOST_DRAWS):
            found = self._draw(parents)
            if found is not None and found.digest not in self.met and self._is_small(found):
                drawn.setdefault(found.digest, found)
            if len(drawn) >= DRAWN * wanted:
                break
        self._is_exhausted = not drawn
        return self._pruned(list(drawn.values()))[:wanted]

    def _draw(self, parents: Sequence[Found]) -> Found | None:
        chance = self._rng.random()
        if not parents or chance > MUTATED + MIXED:
            return self.candidates.draw({}, self._rng)
        first = self._rng.choice(parents)
        if chance < MUTATED:
            given = mutated(first.made, first.choices, self._rng)
        else:
            given = crossed(first.made, self._rng.choice(parents).made, self._rng)
        return self.candidates.draw(given, self._rng)

    def _is_small(self, found: Found) -> bool:
        """Whether it needs not much more scratch than the default."""
        default, variant = self.default, found.variant
        base = 0 if default is None else default.variant.scratch_bytes
        arrays = sum(v.type.nbytes for v in variant.args if v is not None)
        return variant.scratch_bytes <= base + SCRATCH_SHARE * arrays + SCRATCH_BYTES

    @staticmethod
    def _pruned(drawn: list[Found]) -> tuple[Found, ...]:
        """Drop candidates whose estimates are far slower than the others'."""
        least = min((f.variant.instructions for f in drawn), default=0)
        return tuple(f for f in drawn if f.variant.instructions <= FAR_SLOWER * least)


def _takes(search: GroupSearch, found: Found) -> float:
    figures = search.figures_of(found)
    return float("inf") if figures is None else figures.instructions


def _distinct(found: Sequence[Found]) -> tuple[Found, ...]:
    return tuple({f.digest: f for f in found}.values())
