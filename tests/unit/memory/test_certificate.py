"""The certificate says what is live at the peak, as text and as plain values."""

from __future__ import annotations

import json

import pytest

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
