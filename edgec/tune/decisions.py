"""A sketch's decisions by name: given, or drawn.

    ask = Decisions({"pixels": 2}, random.Random(1))
    ask.choose("pixels", [1, 2, 4])     # 2: given
    ask.choose("channels", [1, 2, 4])   # drawn
    ask.made                            # both, to be given to another run

A sketch is run again with other decisions: its questions may then differ, and a given decision that
is no longer a choice is drawn again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

#: Types that JSON keeps.
Answer = TypeVar("Answer", int, str, bool)
Made = dict[str, int | str | bool]


class Decisions:
    """Answers the questions of one run of a sketch. `made` has all answers, `choices` the possible
    ones.
    """

    def __init__(self, given: Mapping[str, int | str | bool], rng: random.Random) -> None:
        self.given = given
        self.rng = rng
        self.made: Made = {}
        self.choices: dict[str, tuple[int | str | bool, ...]] = {}

    def choose(self, name: str, choices: Sequence[Answer]) -> Answer:
        """The given choice for this name, or a drawn one."""
        answer = self.given.get(name)
        found = next((c for c in choices if c == answer and type(c) is type(answer)), None)
        if found is None:
            found = choices[0] if len(choices) == 1 else self.rng.choice(choices)
        self.made[name], self.choices[name] = found, tuple(choices)
        return found


def mutated(
    made: Mapping[str, int | str | bool],
    choices: Mapping[str, Sequence[int | str | bool]],
    rng: random.Random,
) -> Made:
    """The decisions with one or two of them made otherwise."""
    changed = dict(made)
    free = [name for name, known in choices.items() if len(known) > 1]
    for name in rng.sample(free, min(len(free), rng.choice((1, 1, 2)))):
        changed[name] = rng.choice([c for c in choices[name] if c != made[name]])
    return changed


def crossed(
    first: Mapping[str, int | str | bool],
    second: Mapping[str, int | str | bool],
    rng: random.Random,
) -> Made:
    """Each decision as one of two parents made it."""
    return {
        name: rng.choice((first.get(name, value), value))
        for name, value in {**first, **second}.items()
    }
