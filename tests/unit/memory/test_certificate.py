"""The certificate says what is live at the peak, as text and as plain values."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgec.memory.certificate import Certificate, RegionCertificate, certify_region
from edgec.memory.problem import Buffer, Problem
from edgec.memory.solve import plan_memory


def test_certificate_reads_well() -> None:
    buffers = (Buffer("x", 96, 0, 2), Buffer("y", 50, 1, 3), Buffer("z", 60, 2, 4))
    certificate = plan_memory(Problem(buffers)).certificate
    assert certificate.text() == (
        "arena: peak 146 bytes, lower bound 146 (optimal, by live bytes)\n"
        "  live at the peak (step 1): x 96, y 50"
    )
    values = json.loads(json.dumps(certificate.to_dict()))
    assert values["optimal"] is True
    assert values["regions"][0]["gap_bytes"] == 0
    assert values["regions"][0]["live_at_peak"][0] == {"buffer": "x", "bytes": 96}


def test_open_gap_is_said() -> None:
    """Greedy leaves a hole here and proves nothing about it."""
    buffers = (
        Buffer("a", 48, 0, 2),
        Buffer("b", 64, 1, 3),
        Buffer("c", 48, 2, 4),
        Buffer("d", 32, 3, 5),
        Buffer("e", 80, 4, 6),
    )
    best = plan_memory(Problem(buffers)).certificate.region("arena")
    greedy = plan_memory(Problem(buffers), solver="greedy").certificate
    assert best.is_optimal
    assert greedy.region("arena").lower_bound_bytes <= best.peak_bytes
    if not greedy.is_optimal:
        assert "gap" in greedy.text() and greedy.region("arena").proof == "open"
    with pytest.raises(KeyError):
        greedy.region("moon")


def region(
    name: str, peak: int, bound: int, live: tuple[tuple[str, int], ...]
) -> RegionCertificate:
    proof = "search" if peak == bound else "open"
    return RegionCertificate(name, peak, bound, proof, 7, live)


def test_regions_gaps_and_waiting_are_said() -> None:
    fast = region("fast", 1200, 1200, (("x", 1000), ("y", 200)))
    slow, empty = region("slow", 50, 40, ()), region("empty", 0, 0, ())
    both = Certificate("own", 3, (fast, slow, empty), cost=1234.4, is_cheapest=True)
    text = (
        "fast: peak 1,200 bytes, lower bound 1,200 (optimal, by search)\n"
        "  live at the peak (step 7): x 1,000, y 200\n"
        "slow: peak 50 bytes, lower bound 40 (gap 10 bytes: best found within the time limit)\n"
        "waiting for memories: about 1,234 cycles, the least"
    )
    assert both.text() == text
    assert replace(both, is_cheapest=False).text() == f"{text} that was found"
    assert not both.is_optimal and replace(both, regions=(fast, empty)).is_optimal
    assert replace(both, regions=(empty,)).text().startswith("empty: peak 0 bytes")
    assert replace(both, regions=(fast,)).text() == "\n".join(text.splitlines()[:2])
    found = both.to_dict()
    assert (found["wait_cycles"], found["cheapest_regions"], found["nodes"]) == (1234, True, 3)
    assert [r["gap_bytes"] for r in found["regions"]] == [0, 10]  # type: ignore[attr-defined]
    assert both.region("slow") is slow


def test_the_peak_is_named_with_what_is_live_there() -> None:
    buffers = (
        Buffer("low", 20, 0, 9), Buffer("top", 30, 2, 6), Buffer("side", 5, 4, 5),
        Buffer("late", 10, 7, 9), Buffer("none", 0, 4, 5), Buffer("other", 99, 4, 5),
    )  # fmt: skip
    offsets = {"low": 0, "top": 32, "side": 24, "late": 32, "none": 500, "other": 0}
    regions = dict.fromkeys(offsets, "a") | {"other": "b"}
    problem = Problem(buffers)
    found = certify_region(problem, offsets, regions, "a", 62, "live bytes")
    assert (found.peak_bytes, found.peak_step, found.proof) == (62, 4, "live bytes")
    assert found.live_at_peak == (("top", 30), ("low", 20), ("side", 5))
    found = certify_region(problem, {**offsets, "side": 100}, regions, "a", 62, "live bytes")
    assert (found.peak_bytes, found.proof, found.gap_bytes) == (105, "open", 43)
    without = certify_region(problem, {**offsets, "low": 40}, regions, "a", 62, "x")
    assert (without.peak_bytes, without.peak_step) == (62, 4)
    nothing = certify_region(problem, offsets, regions, "moon", 0, "live bytes")
    assert (nothing.peak_bytes, nothing.peak_step, nothing.live_at_peak) == (0, 0, ())
