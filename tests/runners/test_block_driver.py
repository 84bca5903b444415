"""One launch for a whole model: one block, with the arena in its shared memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gpu_models import check_on_gpu, emulated, for_gpu
from open_functions import perceptron
from operator_models import MODELS
from stateful_functions import delay_line, module_of

from edgec.codegen.block_text import takes_block
from edgec.codegen.c_kernel import emit_in_block
from edgec.errors import BuildFailed, ContractError
from edgec.frontends import import_model
from edgec.graph.ir import Module
from edgec.loop.parser import parse_func
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.targets.core import find_core

#: Models whose kernels have barriers of their own.
WAITING = {"moves", "svdf", "lstm", "lstm_float", "nonzero", "signal_rfft"}
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.onnx"


def test_a_run_is_one_launch(tmp_path: Path) -> None:
    """Every kernel that the emulated driver runs is counted."""
    compiled = for_gpu(import_model(DIGITS), "block")
    model = emulated(compiled, tmp_path)
    library = ctypes.CDLL(str(next((tmp_path / "plain").glob("*emulation*"))))
    inputs = [np.zeros(v.type.shape, v.type.dtype) for v in compiled.module.main.inputs]
    for run in range(3):
        assert model.run(inputs)[0] == 0
        assert library.ec_cuda_launches() == run + 1
    assert model.call("selftest") == 0
    model.close()


@pytest.mark.full
def test_states_stay_outside_of_the_block(tmp_path: Path) -> None:
    assert check_on_gpu(module_of(delay_line), tmp_path, 3, driver="block") > 10


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_every_operator_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    module = import_model(MODELS[name](tmp_path))
    try:
        assert check_on_gpu(module, tmp_path, driver="block") > 0
    except BuildFailed as refused:
        assert name in WAITING and "threads of a kernel wait" in refused.message


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["mlperf_kws_dscnn_int8", "mlperf_ad_autoencoder_int8", "mlperf_sww_int8"]
)
def test_models_give_the_same_bits(
    name: str, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    module = import_model(sample_model(f"{name}.tflite"))
    assert check_on_gpu(module, tmp_path, driver="block") > 0


def test_what_does_not_fit_in_a_block_is_refused() -> None:
    program = for_gpu(module_of(delay_line), "block").program
    assert takes_block(replace(program, arena_bytes=65_536))
    with pytest.raises(BuildFailed, match="larger than the 65,536 of a block"):
        takes_block(replace(program, arena_bytes=65_537))
    with pytest.raises(BuildFailed, match="its sizes are open"):
        takes_block(for_gpu(Module({"main": perceptron()}, source="open"), "block").program)


def test_auto_takes_the_block_for_small_models_alone(sample_model: Callable[[str], Path]) -> None:
    def taken(name: str) -> bool:
        core = find_core("cuda-sm_87")
        return takes_block(
            compile_module(import_model(sample_model(name)), core, Options()).program
        )

    assert taken("tflm_hello_world_int8.tflite") and not taken("mlperf_kws_dscnn_int8.tflite")


def test_the_steps_of_all_loops_are_those_of_one() -> None:
    func = parse_func("""
func sums(x: arena int32[2, 3, 4, 5], y: arena int32[2, 3, 4, 5]) {
  block_y for a in 0..2 { block_x for b in 0..3 { thread_y for c in 0..4 { thread_x for d in 0..5 {
    y[a, b, c, d] = x[a, b, c, d] + 1
  } } } }
}
""")
    (kernel,) = emit_in_block(func, "f", {}, {})
    assert [line.strip() for line in kernel.text.splitlines()[1:6]] == [
        "for (int32_t step = EC_THREAD_X; step < 120; step += EC_BLOCK_THREADS) {",
        "const int32_t thread_x = step % 5;",
        "const int32_t thread_y = step / 5 % 4;",
        "const int32_t block_x = step / 5 / 4 % 3;",
        "const int32_t block_y = step / 5 / 4 / 3;",
    ]


def test_threads_that_wait_are_not_shared_out() -> None:
    func = parse_func("""
func turned(x: arena int32[8], y: arena int32[8]) {
  alloc s: shared int32[8]
  thread_x for i in 0..8 { s[i] = x[i] }
  sync block
  thread_x for j in 0..8 { y[j] = s[7 - j] }
}
""")
    with pytest.raises(ContractError, match="threads that wait"):
        emit_in_block(func, "f", {}, {})
