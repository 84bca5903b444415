"""The choice of a precision for every layer against all choices there are."""

from __future__ import annotations

import itertools
import random

import pytest

from edgec.quantizer.assign import Option, all_best, front_of, least_loss


def menu(seed: int, layers: int = 7) -> list[list[Option]]:
    rng = random.Random(seed)
    found = []
    for _ in range(layers):
        size, time = rng.randrange(2, 40), rng.randrange(1, 30)
        found.append([
            Option(8, 2 * size, time, 0.0),
            Option(4, size, time + rng.randrange(0, 12), rng.choice([0.0, rng.random()])),
            Option(32, 8 * size, rng.randrange(1, 60), 0.0),
        ])  # fmt: skip
    return found


def every_sum(layers: list[list[Option]]) -> list[tuple[int, int, float]]:
    return [
        (
            sum(o.size_bytes for o in taken), sum(o.instructions for o in taken),
            sum(o.loss for o in taken),
        )
        for taken in itertools.product(*layers)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_best_of_all_within_limits(seed: int) -> None:
    layers = menu(seed)
    points, sums = all_best(layers), every_sum(layers)
    most_bytes, most_time = max(s[0] for s in sums), max(s[1] for s in sums)
    for part, share in itertools.product((0.05, 0.2, 0.3, 0.5, 1.0), (0.2, 0.4, 0.6, 1.0)):
        limits = part * most_bytes, share * most_time
        found = least_loss(points, *limits)
        within = [s[2] for s in sums if s[0] <= limits[0] and s[1] <= limits[1]]
        assert (found is None) == (not within)
        if found is not None:
            assert found.loss == pytest.approx(min(within), abs=1e-4)
            assert found.size_bytes <= limits[0] and found.instructions <= limits[1]


def test_the_front_falls_and_nothing_lies_below_it() -> None:
    layers = menu(3)
    front = front_of(all_best(layers))
    assert [p.size_bytes for p in front] == sorted({p.size_bytes for p in front})
    assert all(a.loss > b.loss for a, b in itertools.pairwise(front))
    for size, _, loss in every_sum(layers):
        assert min(p.loss for p in front if p.size_bytes <= size) <= loss + 1e-4


def test_sums_agree_with_what_is_chosen() -> None:
    layers = menu(5)
    for point in all_best(layers):
        taken = [options[place] for options, place in zip(layers, point.chosen, strict=True)]
        assert point.size_bytes == sum(o.size_bytes for o in taken)
        assert point.loss == sum(o.loss for o in taken)


def test_very_many_sums_are_told_apart_more_coarsely() -> None:
    points = all_best(menu(11, layers=40))
    assert 100 < len(points) <= 10_000
