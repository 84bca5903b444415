"""`--float-sums free`: one rounding for a product and a sum, near the framework, on computers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder

import edgec
from edgec.__main__ import main
from edgec.boards.board import load_board
from edgec.codegen.manifest import Manifest
from edgec.errors import EdgecError
from edgec.options import Options
from edgec.oracle.verify import verify_model
from edgec.pipeline import compile_model
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core, native_core

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
FREE_CORES = ("x86-64-v2", "x86-64-v3", "x86-64-v4+vnni", "aarch64", "aarch64+dotprod")
ORDERED_CORES = ("cortex-m0", "cortex-m4", "cortex-m55", "rv32imc", "x86_64", "cuda-sm_87")


def dense_model(folder: Path) -> Path:
    model = OnnxBuilder(1, (1, 64))
    weights = model.rng.normal(0, 1, (64, 16)).astype(np.float32)
    return model.save(model.add("MatMul", ["x", model.constant(weights, "w")]), folder / "m.onnx")


@pytest.mark.skipif(not native_core().has("avx2"), reason="this computer has no FMA of x86")
def test_products_and_sums_are_rounded_once(tmp_path: Path) -> None:
    """Free sums differ from the loops' sums, and are nearer to the exact ones."""
    path, x = dense_model(tmp_path), np.random.default_rng(2).normal(0, 1, (1, 64))
    x = x.astype(np.float32)
    found = {}
    for sums in ("ordered", "free"):
        with edgec.compile(path, float_sums=sums) as model:
            found[sums] = model.run(x)
            np.testing.assert_array_equal(model.run(x), found[sums])  # the same in every run
    assert np.any(found["free"] != found["ordered"])
    np.testing.assert_allclose(found["free"], found["ordered"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("sums", "found"), [("ordered", []), ("free", ["fast"])])
def test_who_builds_by_cmake_gets_the_same_sums(
    sums: str, found: list[str], tmp_path: Path
) -> None:
    """The flag stands after the one that forbids it, in the project and in the package."""
    project = tmp_path / "project"
    built = ("build", str(dense_model(tmp_path)), "--target", "native", "--float-sums", sums)
    for words in (built, ("export", str(project), "--format", "cmake")):
        with pytest.raises(SystemExit) as ended:
            main([*words, "-o", str(project if words is built else tmp_path / "p")])
        assert not ended.value.code
    for path in (project, tmp_path / "p"):
        text = (path / "CMakeLists.txt").read_text()
        assert [w for w in re.findall(r"-ffp-contract=(\w+)", text) if w != "off"] == found
        assert text.rfind("=fast") == -1 or text.rfind("=fast") > text.rfind("=off")


def test_a_whole_model_is_within_its_tolerance(
    sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    path = sample_model("mlperf_ic_resnet8_f32.tflite")
    cases = [generate_inputs(seed, [((1, 32, 32, 3), np.dtype("float32"))]) for seed in (1, 2)]
    result = verify_model(
        path, load_board("host"), Options(float_sums="free"), "host", cases, tmp_path
    )
    assert result.to_dict()["elements"] > 0 and result.to_dict()["beyond"] == 0


@pytest.mark.parametrize("core", [*FREE_CORES, *ORDERED_CORES])
def test_default_is_by_core_and_model(core: str, tmp_path: Path) -> None:
    """Free where a computer's vectors add floats; integers and boards keep bits and self-test."""
    for path, is_float in ((dense_model(tmp_path), True), (DIGITS / "digits_int8.onnx", False)):
        for given in (None, "ordered"):
            options = Options(float_sums=given)  # type: ignore[arg-type]
            program = compile_model(path, find_core(core), options).program
            is_free = given is None and is_float and core in FREE_CORES
            assert program.float_sums == ("free" if is_free else "ordered")
            assert (program.golden is None) == is_free


def test_processor_beside_a_gpu_has_its_bits(tmp_path: Path) -> None:
    found = compile_model(dense_model(tmp_path), find_core("cuda-sm_87"), Options(offload="none"))
    assert (found.program.target, found.program.float_sums) == ("aarch64+dotprod", "ordered")


@pytest.mark.skipif(not native_core().has("sse4"), reason="this computer has no vectors of x86")
def test_a_build_says_which_sums_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given, says in (((), "free"), (("--float-sums", "ordered"), "ordered")):
        project = tmp_path / says
        with pytest.raises(SystemExit) as ended:
            main(["build", str(dense_model(tmp_path)), "--board", "host", *given, "-o",
                  str(project)])  # fmt: skip
        assert not ended.value.code
        assert ("sums of floats are reordered" in capsys.readouterr().out) == (says == "free")
        assert Manifest.load(project).float_sums == says


def test_microcontrollers_keep_the_order(tmp_path: Path) -> None:
    with pytest.raises(EdgecError, match="cortex-m4 cannot reorder sums of floats"):
        edgec.compile(dense_model(tmp_path), board="stm32", float_sums="free")
    with pytest.raises(EdgecError, match="float_sums='fast' is not a choice"):
        edgec.compile(dense_model(tmp_path), float_sums="fast")
