"""Candidates on the simulated core: exact figures, and what is wrong has none."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from small_groups import candidates, layer

from edgec.boards.board import load_board
from edgec.boards.compiler_name import compiler_of
from edgec.deploy.project import deploy
from edgec.graph.ir import Module
from edgec.graph.operator import NoAttrs
from edgec.loop.printer import print_func
from edgec.loop.tuned import Tuned, digest
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.report.profile import make_profile
from edgec.runners.engine import open_session
from edgec.targets.core import find_core
from edgec.tune.candidates import Candidates
from edgec.tune.measure import Argument, Candidate, Job, measure
from edgec.tune.model import distinct_layers

pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")


def job(*found: Candidate, budget: int = 10**6) -> Job:
    return Job("cortex-m3", None, "-O2", found, budget)


def test_figures_do_not_depend_on_company_and_wrong_candidates_have_none() -> None:
    space = candidates("padded")
    one = space.draw({"windows": "padded", "channels": 2, "pixels": 2}, random.Random(1))
    assert one is not None
    default = space.candidate(space.defaults[0], 0)
    good = space.candidate(one, 1)
    last = good.arguments[1]
    assert last.expected is not None
    wrong = Argument(last.data, True, bytes(b ^ 1 for b in last.expected))
    lying = space.candidate(one, 2)
    lying = replace(lying, arguments=(lying.arguments[0], wrong, *lying.arguments[2:]))
    short = space.candidate(one, 3)
    cut = Argument(short.arguments[1].data[:-4], True)
    reaching = replace(short, arguments=(short.arguments[0], cut, *short.arguments[2:]))
    outcomes = measure(job(default, good, lying, reaching))
    assert outcomes[0].figures is not None and outcomes[1].figures is not None
    assert outcomes[0].figures.instructions < outcomes[0].figures.cycles
    assert outcomes[1].figures.scratch_bytes == one.variant.scratch_bytes > 0
    assert "differs from the reference" in outcomes[2].error
    assert "writes" in outcomes[3].error or "past" in outcomes[3].error
    assert all(outcome.figures is None for outcome in outcomes[2:])
    alone = measure(job(space.candidate(one, 0)))
    assert alone[0].figures == outcomes[1].figures


def test_a_candidate_that_does_not_compile_does_not_harm_the_others() -> None:
    space = candidates("dense")
    good = space.candidate(space.defaults[0], 0)
    broken = Candidate("void candidate_1(void) { oops }\n", (), 0)
    outcomes = measure(job(good, broken))
    assert outcomes[0].figures is not None
    assert outcomes[1].figures is None and "refused" in outcomes[1].error


def test_who_takes_too_long_is_given_up() -> None:
    space = candidates("padded")
    (outcome,) = measure(job(space.candidate(space.defaults[0], 0), budget=50))
    assert outcome.figures is None and "50" in outcome.error


def test_figures_stand_for_a_compiler_and_its_version() -> None:
    found = compiler_of(find_core("cortex-m3"), Options())
    assert found.startswith("gcc ") and found.endswith("-O2")
    assert found != compiler_of(find_core("cortex-m3"), Options(c_optimize="-Os"))


def test_figures_are_what_the_function_takes_in_a_model(tmp_path: Path) -> None:
    """Short sums by many weights: how the compiler reaches the weights decides."""
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    module = Module({"main": layer("dense", (4, 8), (64, 8), NoAttrs(), per_tensor=True)})
    board, options = load_board("mps2_an385"), Options(optimize="size", tuned=Tuned(is_alone=True))
    compiled = compile_module(module, board.core, options, board_name=board.name)
    built = deploy(compiled, board, tmp_path / "built", traced=True)
    target, (layers,) = distinct_layers(module, board.core, options)
    space = Candidates(layers.group, target)
    with open_session("core", built) as session:
        inputs = list(space.inputs.values())
        plain, profiled = session.run(inputs), session.run(inputs, profile=True)
    (row,) = make_profile(built.manifest, plain, [profiled]).layers
    made = digest(print_func(compiled.chosen[0].function))
    (found,) = (each for each in space.defaults if each.digest == made)
    (outcome,) = measure(job(space.candidate(found, 0)))
    assert outcome.figures is not None
    assert abs(outcome.figures.instructions - row.median) <= 0.005 * row.median
