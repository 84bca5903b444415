"""Random graphs of blocks: near ONNX Runtime, and the reference's bytes in C; they all compile."""

from __future__ import annotations

import pytest
from compare_graphs import run
from graph_formats import FORMATS
from graph_maker import DTYPES

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")

#: Graphs of each dtype in `make test`, and in `make test-full`; one in RUN_EVERY runs on a core.
COUNT, FULL, RUN_EVERY = 5, 400, 5
#: The same of each format.
FORMAT_COUNT, FORMAT_FULL = 2, 100
#: Seeds that were refused with an internal error, or gave wrong bits.
FOUND = [("mixed", 9), ("int16", 16), ("int8", 107)]


@pytest.mark.parametrize("seeds", [
    range(COUNT), pytest.param(range(COUNT, FULL), marks=pytest.mark.full),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", DTYPES)
def test_graphs_compile_for_boards_and_run(dtype: str, seeds: range) -> None:
    tally = run(seeds, dtype, run_every=RUN_EVERY)
    assert not tally.findings, "\n\n".join(tally.findings.values())
    # A generator whose graphs are refused tests nothing.
    assert tally.results["compared"] >= len(seeds) * 9 // 10, tally.refused


@pytest.mark.parametrize("seeds", [
    range(FORMAT_COUNT), pytest.param(range(FORMAT_COUNT, FORMAT_FULL), marks=pytest.mark.full),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("kind", FORMATS)
def test_graphs_of_other_formats_compile_and_run(kind: str, seeds: range) -> None:
    tally = run(seeds, kind, run_every=FORMAT_COUNT)
    assert not tally.findings, "\n\n".join(tally.findings.values())
    assert tally.results["compared"] >= len(seeds) * 9 // 10, tally.refused


@pytest.mark.parametrize(("dtype", "seed"), FOUND)
def test_graphs_that_failed(dtype: str, seed: int) -> None:
    tally = run(range(seed, seed + 1), dtype)
    assert tally.results["compared"] and not tally.findings, tally
