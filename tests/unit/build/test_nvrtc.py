"""CUDA's compilers: kernels become PTX and machine code without a GPU."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from edgec.build import nvrtc
from edgec.codegen.model_text import make_text
from edgec.codegen.runtime_source import needed_functions, runtime_functions
from edgec.errors import BuildFailed, ToolMissing
from edgec.loop.intrinsics import get_intrinsic, names
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.resources import resource_dir
from edgec.targets.core import find_core

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.onnx"
START = (resource_dir("runtime_c") / "cuda" / "ec_cuda_kernel.h").read_text("utf-8")

pytestmark = pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="edgec[cuda] is not installed")


def test_every_function_of_the_runtime_compiles() -> None:
    called = {get_intrinsic(name).c_name for name in names()} & set(runtime_functions())
    assert len(called) > 20
    helpers = needed_functions(f"{name}(" for name in sorted(called))
    source = "\n".join((START, *(helper.text for helper in helpers)))
    assert nvrtc.compile_kernels(source, "sm_75").ptx.count(".target sm_75") == 1


def test_a_model_compiles_for_jetson_without_spills() -> None:
    options = Options(model_name="digits", driver="graph")
    compiled = compile_model(DIGITS, find_core("cuda-sm_87"), options)
    gpu = make_text(compiled.program).text.gpu
    assert gpu is not None
    images = nvrtc.compile_kernels(gpu.source, gpu.architecture)
    assert images.cubin[:4] == b"\x7fELF" and ".target sm_87" in images.ptx
    cubin, usage = nvrtc.assemble_ptx(images.ptx, "sm_87")
    assert cubin == images.cubin
    launched = {launch.kernel for launches in gpu.launches.values() for launch in launches}
    assert set(usage) == launched
    for name, used in usage.items():
        assert used.spilled_bytes == 0 and used.registers <= 64, name


def test_a_gpu_newer_than_nvrtc_gets_its_ptx_and_machine_code_of_cuda_13() -> None:
    """Jetson Thor, which CUDA 12.6 does not know."""
    kernel = START + "EC_GLOBAL void f(int32_t *x) { x[EC_THREAD_X] = EC_DP4A(1, 2, 3); }\n"
    images = nvrtc.compile_kernels(kernel, "sm_110")
    assert images.architecture == "sm_90" and ".target sm_90" in images.ptx
    if nvrtc.find_ptxas("sm_110") is None:
        pytest.skip("nvidia-cuda-nvcc of CUDA 13 is not installed")
    assert images.cubin[:4] == b"\x7fELF" and nvrtc.what_is_missing("sm_110") == ""
    assert ELFFile(BytesIO(images.cubin)).header["e_flags"] >> 8 & 0xFF == 110


def test_a_gpu_that_no_ptxas_knows_gets_ptx_and_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "find_ptxas", lambda architecture: None)
    images = nvrtc.compile_kernels(f"{START}\n", "sm_110")
    assert images.cubin == b"" and ".target sm_90" in images.ptx
    assert "PTX for sm_90 alone" in nvrtc.what_is_missing("sm_110")


def test_the_numbers_of_a_kernel_are_read() -> None:
    said = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'm_add' for 'sm_87'\n"
        "ptxas info    : Function properties for m_add\n"
        "    0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 368 bytes cmem[0]\n"
    )
    assert nvrtc.usage_of(said) == {"m_add": nvrtc.Usage(40, 8, 1024)}


def test_what_does_not_compile_is_shown() -> None:
    with pytest.raises(BuildFailed, match="do not compile for compute_75") as caught:
        nvrtc.compile_kernels("int x = ;", "sm_75")
    assert "expected an expression" in "".join(caught.value.details)
    with pytest.raises(BuildFailed, match="ptxas refuses the kernels for sm_87"):
        nvrtc.assemble_ptx("nonsense", "sm_87")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "package_folder", lambda package: None)
    monkeypatch.setattr(nvrtc.shutil, "which", lambda program: None)
    assert nvrtc.find_nvrtc() is None and nvrtc.find_ptxas("sm_87") is None
    with pytest.raises(ToolMissing, match="NVRTC") as caught:
        nvrtc.require_nvrtc()
    assert "edgec[cuda]" in caught.value.hint
