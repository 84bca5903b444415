"""The engine gpu_emulation: kernels and host C as a GPU gets them, compared in every bit."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from control_functions import branch
from gpu_models import both_orders, check_on_gpu, emulated, for_gpu, written
from open_functions import perceptron
from operator_models import MODELS
from stateful_functions import delay_line, module_of

from edgec.boards.board import load_board
from edgec.boards.toolchain import find_toolchain
from edgec.build.host import sanitizer_runtime
from edgec.deploy.project import Built
from edgec.errors import EdgecError, RunFailed, ToolMissing
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module
from edgec.loop.microkernel import kernels_of
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_module
from edgec.runners import gpu_emulation
from edgec.runners.engine import open_session, require_engine
from edgec.targets.core import find_core, host_core
from edgec.targets.cuda import tiles
from edgec.targets.cuda.kernels.mma import MMA, MMA_FLOATS

Digits = Callable[..., Built]
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.onnx"
#: Control flow runs in one thread; so do open sizes; state stays on the device.
FUNCTIONS = {
    "branch": lambda: Module({"main": branch()}, source="branch"),
    "state": lambda: module_of(delay_line),
    "open": lambda: Module({"main": perceptron()}, source="open"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_give_the_same_bits(name: str, tmp_path: Path) -> None:
    assert check_on_gpu(FUNCTIONS[name](), tmp_path) > 10


@pytest.mark.parametrize("name", ["transformer", "lstm", "nonzero"])
def test_operators_give_the_same_bits(name: str, tmp_path: Path) -> None:
    assert check_on_gpu(import_model(MODELS[name](tmp_path)), tmp_path) > 0


def test_matrix_instructions_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All convolutions of the example whose form allows it, whatever the model of costs says."""
    monkeypatch.setattr(tiles, "schedule_dots", lambda nest, *_: [])
    module = import_model(DIGITS)
    used = [kernels_of(variant.function) for variant in for_gpu(module).chosen]
    assert sum(MMA in kernels for kernels in used) == 2
    assert check_on_gpu(module, tmp_path) > 10


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_every_operator_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    assert check_on_gpu(import_model(MODELS[name](tmp_path)), tmp_path) > 0


def test_every_layer_equals_the_host(digits: Digits, images: list[np.ndarray]) -> None:
    """The example as `edgec run --board cuda_host` builds it, kernels compiled by NVRTC."""
    oracle = open_oracle(DIGITS)
    found = []
    for board in ("host", "cuda_host"):
        built = digits(board)
        engine = "host" if board == "host" else "gpu_emulation"
        with open_session(engine, built) as session:
            assert session.selftest() == 0
            result = session.run([images[0]], trace=True)
            (expected,) = oracle.run([images[0]]).outputs
            assert np.array_equal(result.outputs[0], expected)
        values = {trace.value: result.traces[trace.id] for trace in built.manifest.traces}
        found.append({value: data.tobytes() for value, data in values.items()})
    host, gpu = found  # which has the quantized image and what is before a sum in registers
    assert gpu.items() <= host.items() and len(gpu) == len(host) - 2 > 3


@pytest.mark.parametrize("smaller", [pytest.param(0, marks=pytest.mark.full), 1])
def test_the_address_sanitizer_checks_kernels(smaller: int, tmp_path: Path) -> None:
    """Where it is preloaded: a shared array that is one element too small ends the process."""
    runtime = sanitizer_runtime(find_toolchain(host_core(), "gcc"))
    if runtime is None:
        pytest.skip("gcc has no address sanitizer here")
    source = written(for_gpu(import_model(DIGITS)), tmp_path) / "m_kernels.cu"
    pattern = r"(EC_SHARED_ARRAY\(int32_t, \w+, )(\d+)"
    text, count = re.subn(
        pattern, lambda found: f"{found[1]}{int(found[2]) - smaller}", source.read_text("utf-8")
    )
    assert count > 0
    source.write_text(text, "utf-8")
    script = tmp_path / "run.py"
    script.write_text(RUN_CHECKED.format(folder=tmp_path), encoding="utf-8")
    environment = {**os.environ, "LD_PRELOAD": str(runtime), "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert (done.returncode == 0) == (smaller == 0), done.stderr
    said = re.search(r"index \d+ out of bounds|buffer-overflow", done.stderr)
    assert (said is not None) == (smaller == 1)


#: Built and run in a process of its own, in which the sanitizer was preloaded.
RUN_CHECKED = """
from pathlib import Path
import numpy as np
from edgec.codegen.manifest import Manifest
from edgec.runners.gpu_emulation import build_emulated, is_checked
from edgec.runners.host import HostModel
folder = Path("{folder}")
assert is_checked()
manifest = Manifest.load(folder / "project")
model = HostModel(build_emulated(folder / "project", "m", folder / "checked"), manifest)
inputs = [np.zeros(port.shape, port.dtype) for port in manifest.inputs]
assert model.run(inputs)[0] == 0
"""


def test_free_float_sums_take_matrix_instructions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By TF32 thrice: near the reference, and the same bits in both orders of threads."""
    monkeypatch.setattr(tiles, "on_threads", lambda apply: lambda nest: [])
    module = import_model(MODELS["transformer"](tmp_path))
    options = Options(model_name="m", float_sums="free")
    compiled = compile_module(module, find_core("cuda-sm_87"), options)
    used = [kernels_of(variant.function) for variant in compiled.chosen]
    assert sum(MMA_FLOATS in kernels for kernels in used) >= 5
    (parameter,) = compiled.module.main.inputs
    x = np.random.default_rng(3).normal(size=parameter.type.shape).astype(np.float32)
    (expected,) = Interpretation(compiled.module.main).run_whole([x])
    found = set()
    for model in both_orders(compiled, tmp_path):
        status, outputs, _ = model.run([x])
        assert status == 0
        found.add(outputs[0])
    (only,) = found
    assert only != expected.tobytes()
    near = np.frombuffer(only, np.float32).reshape(expected.shape)
    np.testing.assert_allclose(near, expected, rtol=2e-5, atol=2e-5)


def test_close_gives_back_all_memory(tmp_path: Path) -> None:
    model = emulated(for_gpu(FUNCTIONS["state"]()), tmp_path)
    driver = ctypes.CDLL(str(next((tmp_path / "built").glob("*emulation*"))))
    assert driver.ec_cuda_live_buffers() == 3
    assert model.call("close") == 0
    assert driver.ec_cuda_live_buffers() == 0
    assert model.call("close") == -4  # EC_ERR_NOT_INITIALIZED


def test_without_a_driver_init_says_so(digits: Digits, tmp_path: Path) -> None:
    """As on a computer without a GPU, whatever this one has."""
    built = digits("cuda_host")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_emulation, "DRIVER", "/no/such/driver.so")
        with pytest.raises(RunFailed, match="EC_ERR_GPU") as caught:
            open_session("gpu_emulation", built)
    assert "gpu_emulation" in caught.value.hint


def test_what_has_no_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunFailed, match="host has no GPU to emulate"):
        require_engine("gpu_emulation", load_board("host"))
    monkeypatch.setattr(gpu_emulation.shutil, "which", lambda program: None)
    with pytest.raises(ToolMissing, match=r"g\+\+, which is not installed"):
        gpu_emulation.require_gxx()


@pytest.mark.parametrize("options", [Options(io="caller"), Options(threads=2)])
def test_options_that_a_gpu_has_not_are_refused(options: Options) -> None:
    with pytest.raises(EdgecError, match="on its GPU, which has no"):
        compile_module(FUNCTIONS["state"](), find_core("cuda-sm_87"), options)
