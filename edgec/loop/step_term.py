"""Closed forms of sequences that grow in steps, as index terms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import ScheduleError
from edgec.numerics.term import Term, TermLike, as_term, maximum, minimum

#: Strides of sliding windows, and rows that one step makes, up to this.
MOST = 8


def step_term(values: Sequence[int], at: TermLike) -> Term:
    """A term that is values[i] where `at` is i: `((at + b) // a) * c + d` between its ends.

    The values must not decrease. The last one may be higher than the term, for example when the
    padding at the end of an image completes several windows at once. ScheduleError if there is no
    term.
    """
    at = as_term(at)
    least, most = values[0], values[-1]
    for end in (len(values), len(values) - 1):
        found = _fit(np.asarray(values[:end], np.int64), least, most)
        if found is not None:
            a, b, c, d = found
            term = maximum((at + b) // a * c + d, least)
            if end < len(values):  # a term that is `most` at the last place and no higher before
                term = maximum(term, (at - (len(values) - 2)) * most)
            return minimum(term, most)
    raise ScheduleError(f"{list(values)} does not grow in even steps")


def _fit(values: np.ndarray, least: int, most: int) -> tuple[int, int, int, int] | None:
    places = np.arange(len(values))
    if len(values) == 0 or values.min() == values.max() == most == least:
        return 1, 0, 0, least
    # The first value above the lower limit determines d.
    grown = int(np.argmax(values > least)) if (values > least).any() else len(values)
    if grown == len(values):
        return (1, -len(values), most - least, most) if most > least else None
    for a in range(1, MOST + 1):
        for c in range(1, MOST + 1):
            for b in range(a):
                steps = (places + b) // a * c
                d = int(values[grown] - steps[grown])
                if np.array_equal(np.clip(steps + d, least, most), values):
                    return a, b, c, d
    return None
