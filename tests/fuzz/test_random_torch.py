"""Random modules of PyTorch give what torch computes, as graphs, compiled and in C."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (edgec[torch])")

from random_torch import run

pytestmark = pytest.mark.filterwarnings("ignore")
#: Modules of `make test`, and of `make test-full`; one in C_EVERY runs in C.
COUNT, FULL, C_EVERY = 10, 300, 5


@pytest.mark.parametrize("seeds", [
    range(COUNT), pytest.param(range(COUNT, FULL), marks=pytest.mark.full),
], ids=str)  # fmt: skip
def test_modules_give_what_torch_computes(seeds: range) -> None:
    findings, results = run(seeds, c_every=C_EVERY)
    assert not findings, "\n\n".join(findings.values())
    # A generator whose modules are refused tests nothing.
    assert results["compared"] >= len(seeds) * 9 // 10, results
