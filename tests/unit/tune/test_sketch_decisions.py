"""Decisions: given or drawn, changed, mixed."""

from __future__ import annotations

import random

from edgec.tune.decisions import Decisions, crossed, mutated


def test_what_is_given_is_kept_and_what_is_no_choice_is_drawn_anew() -> None:
    ask = Decisions({"a": 2, "b": 9, "c": 1}, random.Random(1))
    assert ask.choose("a", [1, 2, 3]) == 2
    assert ask.choose("b", [1, 2]) in (1, 2)
    assert ask.choose("c", [True, False]) in (True, False)  # 1 is no truth value
    assert ask.choose("d", [7]) == 7
    assert ask.made.keys() == ask.choices.keys() == {"a", "b", "c", "d"}


def test_a_mutation_changes_one_or_two_decisions_to_other_choices() -> None:
    made, choices = {"a": 1, "b": "x", "c": 5}, {"a": (1, 2), "b": ("x", "y", "z"), "c": (5,)}
    for seed in range(30):
        changed = mutated(made, choices, random.Random(seed))
        others = [name for name in made if changed[name] != made[name]]
        assert others and len(others) <= 2 and "c" not in others
        assert all(changed[name] in choices[name] for name in others)


def test_a_mixture_has_decisions_of_both_parents() -> None:
    first, second = {"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "d": 2}
    found = {tuple(sorted(crossed(first, second, random.Random(s)).items())) for s in range(40)}
    assert len(found) == 4  # of a and b; c and d are of one parent
    assert {dict(each)["c"] for each in found} == {1}
