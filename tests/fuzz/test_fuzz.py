"""A sample of damaged model files, thousands imported, some compiled; `make fuzz` has more.

Every seed is the same file on every machine that has the same corpus.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fuzz import corpus, damaged, fuzz, try_file
from mutate import mutate_bytes

#: Seconds that `make test` spends here. On two idle cores that is over 4000 files.
SECONDS = 45
COUNT = 4000


def check(first: int, count: int, seconds: float) -> int:
    tally = fuzz(first, count, seconds, workers=1)
    assert not tally.findings, "\n".join(
        f"seed {seed}:\n{finding}" for seed, finding in sorted(tally.findings.items())
    )
    # A fuzzer whose files are all refused, or all accepted, tests little.
    assert tally.results.get("refused", 0) > tally.cases / 10
    assert tally.results.get("imported", 0) > tally.cases / 20
    return tally.cases


def test_damaged_files_are_refused_with_words() -> None:
    assert check(0, COUNT, SECONDS) > 100


@pytest.mark.full
def test_twenty_thousand_damaged_files() -> None:
    assert check(1 << 20, 20_000, 3000) == 20_000


def test_a_seed_stands_for_one_file(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai_edge_litert is not installed (edgec[verify])")
    files = corpus(tmp_path)
    assert [damaged(files, seed) for seed in range(30)] == [
        damaged(files, seed) for seed in range(30)
    ]


def test_what_is_not_damaged_is_taken(tmp_path: Path) -> None:
    for path in corpus(tmp_path):
        if path.parent == tmp_path:
            assert try_file(path, compiled=False) == "imported"


def test_bytes_are_damaged_in_many_ways() -> None:
    rng = np.random.default_rng(1)
    data = bytes(range(256)) * 64
    found = [mutate_bytes(data, rng) for _ in range(300)]
    sizes = {len(entry) - len(data) for entry in found}
    assert mutate_bytes(b"", rng) == b""
    assert data not in found[:10] and min(sizes) < -100 and max(sizes) > 0 and 0 in sizes


def test_a_finding_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness tells a traceback from an EdgecError."""
    import fuzz as harness

    path = harness.corpus(tmp_path)[0]
    monkeypatch.setattr(harness, "damaged", lambda files, seed: (path.read_bytes(), path.suffix))
    assert "result" in harness.run_seed([path], 0, tmp_path)

    def broken(path: Path, compiled: bool) -> str:
        raise IndexError("list index out of range")

    monkeypatch.setattr(harness, "try_file", broken)
    found = harness.run_seed([path], 0, tmp_path)
    assert found["kind"] == "IndexError" and "broken" in found["finding"]
    json.dumps(found)
