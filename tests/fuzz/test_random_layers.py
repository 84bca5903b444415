"""Random layers compile for every core, and run on simulated ones with the reference's bytes."""

from __future__ import annotations

import pytest
from random_layers import BOARDS, DTYPES, check, compiled, failures

#: Models that are compiled, and models that run, of each dtype; `make test-full` tries more.
COMPILED, RUN = 60, 3
MORE_COMPILED, MORE_RUN = 2000, 100
#: Seeds of int8 that were refused: windows in the padding alone, neighbours with other taps, rows
#: of four-bit weights two pixels at a time, one factor for a whole layer.
FOUND = (45, 95, 234, 541)


def sizes(few: int, many: int) -> list[object]:
    return [range(few), pytest.param(range(few, many), marks=pytest.mark.full)]


@pytest.mark.parametrize("seeds", sizes(COMPILED, MORE_COMPILED))
@pytest.mark.parametrize("dtype", DTYPES)
def test_layers_compile_for_every_core(dtype: str, seeds: range) -> None:
    assert not failures(lambda seed: compiled(seed, dtype, BOARDS), seeds)


@pytest.mark.parametrize("seeds", sizes(RUN, MORE_RUN))
@pytest.mark.parametrize("dtype", DTYPES)
def test_layers_run_on_simulated_cores(dtype: str, seeds: range) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    assert not failures(lambda seed: check(seed, dtype), seeds)


@pytest.mark.parametrize("seed", FOUND)
def test_layers_that_were_refused_run(seed: int) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    compiled(seed, "int8", BOARDS)
    check(seed, "int8")
