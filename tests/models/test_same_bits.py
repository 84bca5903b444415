"""The same bits everywhere: models x boards x engines x compilers against their frameworks.

`make test` runs pairs chosen so that every engine meets every model and each compiler; `make
test-full` runs everything times everything.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import DIGITS, MODELS, build

from edgec.boards.board import load_board
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.oracle.verify import verify_model
from edgec.runners.emulator import missing_emulator
from edgec.runners.engine import open_session
from edgec.runners.samples import fnv1a32, generate_inputs

#: (board, engine): the core engine on every core, QEMU on every board it has, and the host.
CORE = ("sim_m0", "mps2_an385", "mps2_an386", "mps2_an500", "mps2_an505", "qemu_cortex_a7")
QEMU = (
    "mps2_an385", "netduinoplus2", "mps2_an386", "mps2_an500", "mps2_an505", "mps3_an547",
    "qemu_cortex_a7", "qemu_cortex_r5", "qemu_riscv32", "qemu_riscv32_v",
)  # fmt: skip
PLACES = (("host", "host"), *((b, "core") for b in CORE), *((b, "qemu") for b in QEMU))
COMPILERS = ("gcc", "clang")
NAMES = (*MODELS, "digits")

#: Where vww and person_detect take ten seconds and more; their layers run on the host as well.
SLOW = ("vww", "person_detect")
#: Every place once with each compiler, and every engine with each model; each is a build and run.
PAIRS = [
    *((name, place, "gcc") for name, place in zip(itertools.cycle(NAMES), PLACES, strict=False)),
    *(
        (name, place, "clang")
        for name, place in zip(
            itertools.cycle(n for n in NAMES if n not in SLOW), PLACES[1:], strict=False
        )
    ),
]
LAYERS = [pytest.param(name, marks=[pytest.mark.full] * (name in SLOW)) for name in NAMES]
EVERYTHING = [
    combination
    for combination in itertools.product(NAMES, PLACES, COMPILERS)
    if combination not in PAIRS
]


def path_of(name: str, sample_model: Callable[[str], Path]) -> Path:
    return DIGITS if name == "digits" else sample_model(MODELS[name])


def need_tools(engine: str, compiler: str, board: str) -> None:
    missing = missing_emulator(load_board(board)) if engine == "qemu" else None
    if missing is not None:
        pytest.skip(f"{missing.message}; {missing.hint}")
    programs = load_board(board).core.gcc_programs
    if compiler == "gcc" and programs and not any(map(shutil.which, programs)):
        pytest.skip(
            f"{programs[0]} is not installed (Debian package gcc-arm-none-eabi or the like)"
        )
    if engine == "core":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")


def compare_outputs(model: Path, board: str, engine: str, compiler: str, seeds: range) -> None:
    need_tools(engine, compiler, board)
    _, built = build(model, board, compiler)
    oracle = open_oracle(model)
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        for seed in seeds:
            inputs = generate_inputs(seed, types)
            expected = oracle.run(inputs).outputs
            for want, got in zip(expected, session.run(inputs).outputs, strict=True):
                assert got.tobytes() == want.tobytes(), f"seed {seed}"


def test_pairs_cover_engines_models_and_compilers() -> None:
    engines = {engine for _, engine in PLACES} - {"host"}
    assert {(place[1], name) for name, place, _ in PAIRS} >= {*itertools.product(engines, NAMES)}
    assert {pair[1:] for pair in PAIRS} | {(PLACES[0], "clang")} == {
        *itertools.product(PLACES, COMPILERS)
    }


@pytest.mark.parametrize(("name", "place", "compiler"), PAIRS, ids=str)
def test_outputs_equal_the_frameworks(
    name: str, place: tuple[str, str], compiler: str, sample_model: Callable[[str], Path]
) -> None:
    board, engine = place
    compare_outputs(path_of(name, sample_model), board, engine, compiler, range(1, 3))


@pytest.mark.full
@pytest.mark.parametrize(("name", "place", "compiler"), EVERYTHING, ids=str)
def test_everything_times_everything(
    name: str, place: tuple[str, str], compiler: str, sample_model: Callable[[str], Path]
) -> None:
    board, engine = place
    compare_outputs(path_of(name, sample_model), board, engine, compiler, range(1, 5))


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_on_a_simulated_m4(
    name: str, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    need_tools("core", "clang", "mps2_an386")
    model = path_of(name, sample_model)
    board = load_board("mps2_an386")
    _, built = build(model, "host")
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    cases = [generate_inputs(seed, types) for seed in (1, 2)]
    result = verify_model(model, board, Options(), "core", cases, tmp_path, layers=True)
    assert result.mismatches == 0, result.to_dict()["first_difference"]
    steps = len(built.manifest.steps)
    assert len(result.layers) >= steps
    if name != "digits":  # a QDQ file has float tensors between its integer ones
        assert result.uncovered == []


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", ["digits", "sww"])
def test_vectors_with_each_compiler(
    name: str, compiler: str, sample_model: Callable[[str], Path]
) -> None:
    """Assembly whose operands hold equal constants, such as the extents of a 2x2 window."""
    compare_outputs(path_of(name, sample_model), "mps3_an547", "qemu", compiler, range(1, 3))


@pytest.mark.parametrize("name", LAYERS)
def test_every_model_on_risc_v(name: str, sample_model: Callable[[str], Path]) -> None:
    compare_outputs(path_of(name, sample_model), "qemu_riscv32", "qemu", "gcc", range(1, 2))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.full] * (n not in ("kws", "digits"))) for n in NAMES],
)
def test_every_model_on_xtensa(name: str, sample_model: Callable[[str], Path]) -> None:
    """Of the compilers only gcc; floats by the port's own arithmetic."""
    compare_outputs(path_of(name, sample_model), "qemu_xtensa_lx106", "qemu", "gcc", range(1, 3))


def test_a_microbit_runs_what_fits(sample_model: Callable[[str], Path]) -> None:
    for model in (DIGITS, sample_model(MODELS["sww"]), sample_model(MODELS["kws"])):
        compare_outputs(model, "bbc_microbit", "qemu", "gcc", range(1, 3))


def test_hashes_are_those_of_real_firmware(
    shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    baselines = json.loads((shared_dir / "baselines.json").read_text(encoding="utf-8"))
    for name in MODELS:
        _, built = build(sample_model(MODELS[name]), "host")
        types = [(p.shape, p.dtype) for p in built.manifest.inputs]
        with open_session("host", built) as session:
            found = [
                fnv1a32(session.run(generate_inputs(seed, types)).outputs[0].tobytes())
                for seed in range(1, 5)
            ]
        assert found == baselines["models"][name]["output_fnv1a"]
