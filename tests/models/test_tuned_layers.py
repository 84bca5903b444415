"""Layers that no rule was written for: tuned ones are never slower than what the rules offer."""

from __future__ import annotations

import pytest
from measure_tuned import CORES, SHAPES, tuned_layer

DTYPES = {core: dtype for core, (dtype, _) in CORES.items()} | {"rv32imc": "int8"}


def share(number: int, core: str, trials: int) -> float:
    """Instructions of a tuned layer, as a part of the default's."""
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    found = tuned_layer(SHAPES[number], core, DTYPES[core], trials)
    assert found.default is not None and found.best is not None
    return found.best.instructions / found.default.instructions


def test_an_odd_number_of_channels_takes_far_fewer_instructions() -> None:
    assert share(1, "cortex-m3", 16) < 0.9


@pytest.mark.full
@pytest.mark.parametrize("core", DTYPES)
def test_ten_layers_take_a_tenth_less_on_average_and_none_takes_more(core: str) -> None:
    shares = [share(number, core, 32) for number in range(len(SHAPES))]
    assert max(shares) <= 1
    assert sum(shares) / len(shares) < 0.9
