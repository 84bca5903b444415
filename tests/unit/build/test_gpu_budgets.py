"""Registers, spills, launches and machine code of sample models' kernels: gpu_budgets.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_models import machine_code

from edgec.build import nvrtc
from edgec.codegen.gpu_text import Images
from edgec.codegen.model_text import make_text
from edgec.options import Driver, Options
from edgec.pipeline import compile_model
from edgec.targets.core import find_core
from edgec.targets.cuda.costs import GPUS
from edgec.targets.cuda.crew import BLOCK_THREADS, REGISTERS

BUDGETS = tomllib.loads((Path(__file__).parent / "gpu_budgets.toml").read_text("utf-8"))
ONE_LAUNCH = BUDGETS.pop("one_launch")
del BUDGETS["two_tensors"]  # of tests/runners/test_gpu_attention.py
#: The others are `full`.
QUICK = "mlperf_ad_autoencoder_int8"

pytestmark = pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="edgec[cuda] is not installed")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == QUICK else pytest.mark.full) for n in BUDGETS]
)
def test_kernels_stay_within_their_budgets(name: str, sample_model: Callable[[str], Path]) -> None:
    budget = BUDGETS[name]
    options = Options(driver="graph")
    compiled = compile_model(sample_model(budget["file"]), find_core("cuda-sm_87"), options)
    gpu = make_text(compiled.program).text.gpu
    assert gpu is not None
    images = nvrtc.compile_kernels(gpu.source, "sm_87")
    usage = nvrtc.assemble_ptx(images.ptx, "sm_87")[1]
    assert [kernel for kernel, used in usage.items() if used.spilled_bytes] == []
    assert max(used.registers for used in usage.values()) <= budget["registers"]
    assert len(usage) <= budget["kernels"]
    assert sum(map(len, gpu.launches.values())) <= budget["launches"]
    assert len(images.cubin) <= budget["cubin_bytes"]
    assert images.ptx.count("dp4a") >= budget["dp4a"]
    assert images.ptx.count("mma.sync") >= budget["mma"]


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        pytest.param(driver, name, marks=() if name == QUICK else pytest.mark.full)
        for driver, models in ONE_LAUNCH.items()
        for name in models
    ],
)
def test_models_in_one_launch_stay_within_theirs(
    driver: Driver, name: str, sample_model: Callable[[str], Path]
) -> None:
    budgets = ONE_LAUNCH[driver][name]
    check_one_launch(driver, sample_model(BUDGETS[name]["file"]), "sm_87", budgets)


@pytest.mark.full
def test_a_cluster_stays_within_its_budget(sample_model: Callable[[str], Path]) -> None:
    name = "mlperf_kws_dscnn_int8"
    budget = ONE_LAUNCH["grid"][name]["on_sm_90"]
    images = check_one_launch("grid", sample_model(BUDGETS[name]["file"]), "sm_90", budget)
    assert "barrier.cluster.arrive" in images.ptx


def check_one_launch(
    driver: Driver, path: Path, architecture: str, budget: dict[str, int]
) -> Images:
    """One kernel without spills, of which a block of all threads fits on a multiprocessor."""
    compiled = compile_model(path, find_core(f"cuda-{architecture}"), Options(driver=driver))
    gpu = make_text(compiled.program).text.gpu
    assert gpu is not None and gpu.whole is not None
    arena_bytes = compiled.program.arena_bytes if driver == "block" else 0
    assert arena_bytes <= gpu.whole.shared_bytes <= GPUS[architecture].shared_bytes
    images = nvrtc.compile_kernels(gpu.source, architecture)
    ((kernel, used),) = nvrtc.assemble_ptx(images.ptx, architecture)[1].items()
    assert kernel == gpu.whole.kernel and used.spilled_bytes == 0
    assert used.registers <= budget["registers"]
    assert used.registers * BLOCK_THREADS <= REGISTERS
    assert len(images.cubin) <= budget["cubin_bytes"]
    return images


@pytest.mark.parametrize(
    ("architecture", "name", "instruction"),
    [
        ("sm_87", "mlperf_kws_dscnn_int8", "IMMA.16832.S8.S8"),
        pytest.param("sm_90", "mlperf_ic_resnet8_int8", "IMMA.16832.S8.S8", marks=pytest.mark.full),
        pytest.param("sm_75", "mlperf_kws_dscnn_int8", "IMMA.8816.S8.S8", marks=pytest.mark.full),
    ],
)
def test_kernels_have_the_instructions_that_they_claim(
    architecture: str, name: str, instruction: str, sample_model: Callable[[str], Path],
    tmp_path: Path,
) -> None:  # fmt: skip
    """Each kernel whose text calls a matrix instruction or DP4A runs it."""
    path = sample_model(f"{name}.tflite")
    compiled = compile_model(path, find_core(f"cuda-{architecture}"), Options(driver="graph"))
    gpu = make_text(compiled.program).text.gpu
    assert gpu is not None
    code = machine_code(nvrtc.compile_kernels(gpu.source, architecture).cubin, tmp_path)
    texts = dict(re.findall(r"EC_GLOBAL void (\w+)(\(.*?\n\}\n)", gpu.source, re.S))
    assert texts.keys() == code.keys()
    claims = {"ec_mma_s8(": instruction, "ec_dot4_s8(": "IDP.4A"}
    for call, wanted in claims.items():
        names = {kernel for kernel, text in texts.items() if call in text}
        assert names and names == {kernel for kernel, text in code.items() if wanted in text}


@pytest.mark.full
def test_free_float_sums_have_the_instruction_of_tf32(
    sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    options = Options(driver="graph", float_sums="free")
    path = sample_model("mlperf_ic_resnet8_f32.onnx")
    gpu = make_text(compile_model(path, find_core("cuda-sm_87"), options).program).text.gpu
    assert gpu is not None
    images = nvrtc.compile_kernels(gpu.source, "sm_87")
    usage = nvrtc.assemble_ptx(images.ptx, "sm_87")[1]
    assert not any(used.spilled_bytes for used in usage.values())
    assert max(used.registers for used in usage.values()) <= 40
    texts = dict(re.findall(r"EC_GLOBAL void (\w+)(\(.*?\n\}\n)", gpu.source, re.S))
    names = {kernel for kernel, text in texts.items() if "ec_mma_f32(" in text}
    code = machine_code(images.cubin, tmp_path)
    wanted = "HMMA.1688.F32.TF32"
    assert names and names == {kernel for kernel, text in code.items() if wanted in text}
