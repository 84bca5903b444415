"""The gaps between spans, and the words for them."""

import random

from edgec.sim.guard import Span, describe_place, forbidden_gaps


def test_gaps_are_the_complement():
    spans = [Span("a", 10, 10, True), Span("b", 20, 5, False), Span("c", 40, 10, True)]
    assert forbidden_gaps([(0, 50)], spans) == [(0, 10, "rw"), (20, 40, "w"), (25, 40, "r")]
    assert forbidden_gaps([(0, 8), (8, 60)], []) == [(0, 60, "rw")]
    assert forbidden_gaps([(12, 18)], spans) == []


def test_gaps_of_random_spans_byte_by_byte():
    choose = random.Random(3)
    for _ in range(200):
        mapped = [(s := choose.randrange(100), s + choose.randrange(60)) for _ in range(3)]
        spans = [
            Span(str(i), choose.randrange(150), choose.randrange(30), choose.random() < 0.5)
            for i in range(choose.randrange(6))
        ]
        gaps = forbidden_gaps(mapped, spans)
        for byte in range(200):
            is_mapped = any(start <= byte < stop for start, stop in mapped)
            can_read = any(s.address <= byte < s.end for s in spans)
            can_write = any(s.address <= byte < s.end for s in spans if s.write)
            kinds = {
                kind for start, stop, access in gaps if start <= byte < stop for kind in access
            }
            assert kinds == {
                kind
                for kind, allowed in (("r", can_read), ("w", can_write))
                if is_mapped and not allowed
            }


def test_words():
    spans = [Span("arena", 100, 20, True), Span("weights", 200, 8, False)]
    assert describe_place(132, 4, True, spans) == "12 bytes past the end of arena"
    assert describe_place(120, 1, False, spans) == "right after the end of arena"
    assert describe_place(118, 4, False, spans) == "2 bytes over the end of arena"
    assert describe_place(98, 4, False, spans) == "2 bytes before the start of arena"
    assert describe_place(190, 4, False, spans) == "10 bytes before the start of weights"
    assert describe_place(204, 4, True, spans) == "inside weights, which is read-only"
    assert describe_place(0, 1, True, []) == "no memory is allowed"
