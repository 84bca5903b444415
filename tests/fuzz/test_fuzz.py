"""More than six hundred damaged model files imported, some compiled; `make fuzz` has more.

Every seed is the same file on every machine that has the same corpus.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzz import TORCH_SEEDS, corpus, damaged, fuzz, try_file
from mutate import mutate_bytes

#: Files that `make test-full` tries, in parts that workers share; `make test` tries the first.
COUNT = 20_000
PARTS = 32
#: Seconds for a part at most; on an idle core it takes 12.
SECONDS = 900


def check(first: int, count: int, seconds: float) -> int:
    tally = fuzz(first, count, seconds, workers=1)
    assert not tally.findings, "\n".join(
        f"seed {seed}:\n{finding}" for seed, finding in sorted(tally.findings.items())
    )
    # A fuzzer whose files are all refused, or all accepted, tests little.
    assert tally.results.get("refused", 0) > tally.cases / 10
    assert tally.cases - tally.results.get("refused", 0) > tally.cases / 20
    return tally.cases


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.full) for part in range(1, PARTS))]
)
def test_damaged_files_are_refused_with_words(part: int) -> None:
    share = COUNT // PARTS
    assert check(part * share, share, SECONDS) == share


@pytest.mark.parametrize("count", [15, pytest.param(1000, marks=pytest.mark.full)])
def test_damaged_programs_of_pytorch_are_refused_with_words(count: int) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")
    assert check(TORCH_SEEDS, count, SECONDS) == count


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


def test_parts_that_stay_are_not_written_again(tmp_path: Path) -> None:
    """What is written in part says the same as what is written whole, and nothing stays changed."""
    pytest.importorskip("ai_edge_litert", reason="ai_edge_litert is not installed (edgec[verify])")
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema
    from mutate_tflite import Source

    def content_of(data: bytes) -> str:
        def plain(value: object) -> object:
            if isinstance(value, np.ndarray):
                return value.tolist()
            if isinstance(value, list):
                return [plain(entry) for entry in value]
            return (
                {k: plain(v) for k, v in vars(value).items()} if hasattr(value, "Pack") else value
            )

        return repr(plain(schema.ModelT.InitFromPackedBuf(data, 0)))

    path = next(path for path in corpus(tmp_path) if path.name == "int16.tflite")
    source = Source(path.read_bytes())
    before = content_of(source.data)
    different = 0
    for seed in range(60):
        # The same changes, written whole by a builder that remembers nothing.
        wholes: list[str] = []
        write = source._write

        def both(
            stale: set[int], write: Callable[[set[int]], bytes] = write, wholes: list[str] = wholes
        ) -> bytes:
            data = write(stale)
            builder = flatbuffers.Builder(1024)
            builder.Finish(source.whole.Pack(builder), file_identifier=b"TFL3")
            wholes.append(content_of(bytes(builder.Output())))
            return data

        source._write = both  # type: ignore[method-assign]
        found = source.mutate(1 + seed % 4, np.random.default_rng(seed))
        source._write = write  # type: ignore[method-assign]
        if wholes:
            assert content_of(found) == wholes[-1], seed
            different += wholes[-1] != before
    assert different > 30
    builder = flatbuffers.Builder(1024)
    builder.Finish(source.whole.Pack(builder), file_identifier=b"TFL3")
    assert content_of(bytes(builder.Output())) == before


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

    def broken(path: Path, compiled: bool, known: set[str] | None) -> str:
        raise IndexError("list index out of range")

    monkeypatch.setattr(harness, "try_file", broken)
    found = harness.run_seed([path], 0, tmp_path)
    assert found["kind"] == "IndexError" and "broken" in found["finding"]
    json.dumps(found)
