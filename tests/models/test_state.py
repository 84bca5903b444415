"""State in the generated C: kept from run to run, reset, and each context's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stateful_functions import STATEFUL, Make, delay_line, in_place, module_of

from edgec.boards.board import load_board
from edgec.deploy.project import Built, deploy
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Function
from edgec.options import Options
from edgec.pipeline import Compiled, compile_module
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

STEPS = range(1, 6)
EC_ERR_SELFTEST = -5


def build(make: Make, board_name: str, folder: Path, **options: object) -> tuple[Compiled, Built]:
    board = load_board(board_name)
    ordered = Options(float_sums="ordered", **options)  # type: ignore[arg-type]
    compiled = compile_module(module_of(make), board.core, ordered)
    return compiled, deploy(compiled, board, folder / f"{board_name}{len(options)}", traced=True)


def inputs_of(function: Function, seed: int) -> list[np.ndarray]:
    types = [(v.type.shape, v.type.dtype) for v in function.inputs]
    return list(generate_inputs(seed, types))


@pytest.mark.parametrize("io", ["arena", "caller"])
@pytest.mark.parametrize("make", STATEFUL, ids=lambda make: make.__name__)
def test_steps_and_reset_equal_the_reference(make: Make, io: str, tmp_path: Path) -> None:
    compiled, built = build(make, "host", tmp_path, io=io)
    function = compiled.imported.main
    assert compiled.program.state_bytes == 8 * len(function.states) == built.manifest.state_bytes
    with open_session("host", built) as session:
        assert session.selftest() == 0
        for _ in range(2):
            reference = Interpretation(function)
            for seed in STEPS:
                inputs = inputs_of(function, seed)
                (wanted,) = reference.run(inputs)
                assert session.run(inputs).outputs[0].tobytes() == wanted.tobytes(), seed
            session.reset()


@pytest.mark.parametrize("make", [in_place, delay_line], ids=lambda make: make.__name__)
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_selftest_covers_three_runs(make: Make, steps: int, tmp_path: Path) -> None:
    """Another number of runs gives another CRC: what later runs read counts."""
    compiled, built = build(make, "host", tmp_path)
    golden = compiled.program.golden
    assert golden is not None and golden.steps == 3
    other = replace(
        compiled, program=replace(compiled.program, golden=replace(golden, steps=steps))
    )
    with open_session("host", built) as session:
        assert session.selftest() == 0
    with open_session("host", deploy(other, load_board("host"), tmp_path / "other")) as session:
        assert session.selftest() == EC_ERR_SELFTEST


@pytest.mark.parametrize("make", STATEFUL, ids=lambda make: make.__name__)
def test_steps_on_a_simulated_core(make: Make, tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    compiled, built = build(make, "sim_m0", tmp_path)
    function = compiled.imported.main
    reference = Interpretation(function)
    with open_session("core", built) as session:
        assert session.selftest() == 0
        for seed in STEPS:
            inputs = inputs_of(function, seed)
            (wanted,) = reference.run(inputs)
            assert session.run(inputs).outputs[0].tobytes() == wanted.tobytes(), seed


def test_contexts_keep_states_of_their_own(tmp_path: Path) -> None:
    compiled, built = build(in_place, "host", tmp_path)
    function = compiled.imported.main
    references = [Interpretation(function), Interpretation(function)]
    with open_session("host", built) as first, open_session("host", built) as second:
        for seed in STEPS:
            for number, session in enumerate((first, second)):
                inputs = inputs_of(function, 10 * number + seed)
                (wanted,) = references[number].run(inputs)
                assert session.run(inputs).outputs[0].tobytes() == wanted.tobytes()
