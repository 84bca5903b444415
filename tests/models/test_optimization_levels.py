"""Every level of the C compiler gives a program that answers alike: assembly may not rely on what
only some of them do, such as aligning functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import MODELS, build

from edgec.oracle.frameworks import open_oracle
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

CASES = [
    ("kws", "mps2_an386", "gcc", "-Os"),
    ("kws", "mps2_an386", "gcc", "-O1"),
    ("vww", "mps2_an386", "gcc", "-Os"),
    ("kws", "mps3_an547", "gcc", "-Os"),
    ("kws", "mps3_an547", "clang", "-Os"),
    *(
        pytest.param(key, board, compiler, level, marks=pytest.mark.full)
        for key in ("ic", "ad", "sww", "person_detect")
        for board in ("sim_m0", "mps2_an385", "mps2_an386", "mps3_an547")
        for compiler in ("gcc", "clang")
        for level in ("-O1", "-Os")
    ),
]


@pytest.mark.parametrize(("key", "board", "compiler", "level"), CASES)
def test_answers_are_the_frameworks(
    key: str, board: str, compiler: str, level: str, sample_model: Callable[[str], Path]
) -> None:
    model = sample_model(MODELS[key])
    compiled, built = build(model, board, compiler, c_optimize=level)
    inputs = generate_inputs(1, [(v.type.shape, v.type.dtype) for v in compiled.module.main.inputs])
    expected = open_oracle(model).run(inputs).outputs
    with open_session("qemu" if board == "mps3_an547" else "core", built) as session:
        found = session.run(inputs).outputs
    assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]
