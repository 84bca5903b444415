"""Whatever sketches decide, the nest keeps its meaning, and its trace makes it again."""

from __future__ import annotations

import random

import pytest
from small_groups import LAYERS, candidates

from edgec.loop.rescale_lines import by_line
from edgec.loop.schedule import replay
from edgec.loop.simplify import simplify
from edgec.passes.lower_groups import lowering_of
from edgec.tune.candidates import Found
from edgec.tune.prove import is_proven


def drawn(name: str, count: int, core: str = "cortex-m3") -> list[Found]:
    """Different candidates of a layer."""
    space, rng = candidates(name, core), random.Random(5)
    found: dict[str, Found] = {}
    for _ in range(20 * count):
        each = space.draw({}, rng)
        if each is not None:
            found.setdefault(each.digest, each)
        if len(found) == count:
            break
    return list(found.values())


@pytest.mark.parametrize("name", LAYERS)
def test_candidates_mean_the_nest_that_they_came_from(name: str) -> None:
    space, found = candidates(name), drawn(name, 12)
    assert len(found) == 12
    for each in found:
        assert is_proven(space, each), each.made
        assert each.winner is not None
        lowered = lowering_of(space.group)[0]
        start, _ = by_line(
            lowered.build(), lowered.tables, lowered.accumulators, each.winner.rescaling
        )
        assert simplify(replay(start, each.winner.trace).func) == each.variant.function


def test_a_wrong_candidate_is_not_proven() -> None:
    """The proof compares: constants of another layer make other outputs."""
    space, (found,) = candidates("dense"), drawn("dense", 1)
    for array in found.variant.constants.values():
        array.setflags(write=True)
    name = next(n for n, a in found.variant.constants.items() if a.dtype == "int32")
    found.variant.constants[name][...] += 12345
    assert not is_proven(space, found)
