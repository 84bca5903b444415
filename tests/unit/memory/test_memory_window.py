"""A few consecutive sections can prove that nothing fits; more must not be claimed."""

from __future__ import annotations

from edgec.memory.instance import make_instance
from edgec.memory.problem import Buffer, Problem
from edgec.memory.solve import plan_memory
from edgec.memory.window import WindowProver

FOREVER = float("inf")


def chain_with_a_knot() -> list[Buffer]:
    """A long easy chain; in its middle, live bytes fit 4 but no arrangement does."""
    easy = [Buffer(f"v{i}", 1, i, i + 2, align_bytes=1) for i in range(40)]
    knot = [
        Buffer(f"k{i}", size, 50 + start, 50 + stop, align_bytes=1)
        for i, (size, start, stop) in enumerate(
            [(1, 0, 2), (2, 0, 1), (1, 0, 3), (2, 1, 4), (1, 2, 5), (1, 3, 6), (3, 5, 6), (2, 4, 5)]
        )
    ]
    return [*easy, *knot]


def test_windows_exclude_only_what_is_impossible() -> None:
    buffers = chain_with_a_knot()
    peak = plan_memory(Problem(tuple(buffers))).peak_bytes["arena"]
    prover = WindowProver(make_instance(buffers, ()), ())
    assert not prover.excludes(peak, 1000, FOREVER)
    assert prover.excludes(peak - 1, 1000, FOREVER)
    assert prover.excludes(peak - 2, 1000, FOREVER)


def test_no_time_proves_nothing() -> None:
    prover = WindowProver(make_instance(chain_with_a_knot(), ()), ())
    assert not prover.excludes(0, 1000, deadline_s=0.0)
