"""Cores with the same DSP instructions take about as many of them: M7 and M33 as the M4."""

from __future__ import annotations

import shutil

import pytest
from built_models import DIGITS, build

from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

#: Of the M4's instructions, at most.
MOST_SHARE = 1.05


def instructions_on(board: str) -> int:
    _, built = build(DIGITS, board, "gcc", optimize="time")
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session("core", built) as session:
        result = session.run(generate_inputs(1, types))
    assert result.instructions is not None
    return result.instructions


def test_m7_and_m33_take_no_more_than_the_m4() -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    most = MOST_SHARE * instructions_on("mps2_an386")
    assert instructions_on("mps2_an500") <= most
    assert instructions_on("mps2_an505") <= most
