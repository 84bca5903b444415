"""Nests on a GPU: how many threads, and no race in what is emitted."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gpu_races import given, races
from operator_models import MODELS
from planted_faults import faulty

from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_library
from edgec.errors import ContractError
from edgec.loop.bound import launch_of
from edgec.loop.interpret import interpret
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import get_microkernel, kernels_of
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.schedule import Schedule
from edgec.loop.verify import verify_func
from edgec.pipeline import compile_model
from edgec.resources import resource_dir
from edgec.targets.core import find_core, host_core
from edgec.targets.cuda.bind import bound, threads_of
from edgec.targets.cuda.kernels.depthwise import MULTIPLY
from edgec.targets.cuda.kernels.dots import DOT

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.onnx"
GPU = find_core("cuda-sm_75")
#: Its shifts are no numbers of any size, as random inputs are.
UNFIT = ("signal_auto_scale",)


@pytest.mark.parametrize(
    ("extents", "threads"),
    [([25, 5, 64], 64), ([25, 5, 16], 16), ([48, 48, 4], 64), ([7], 7), ([1009], 64),
     ([10], 10), ([65536], 128), ([32, 32, 64], 128), ([3, 1], 3)],
)  # fmt: skip
def test_threads_of_loops(extents: list[int], threads: int) -> None:
    assert threads_of(extents) == threads


def test_statements_that_depend_wait_for_the_grid() -> None:
    func = parse_func("""
func sums(x: arena int32[6, 40], t: scratch int32[6], y: arena int32[6, 40]) {
  for i in 0..6 { t[i] = 0 for k in 0..40 { t[i] = t[i] + x[i, k] } }
  for m in 0..6 { for n in 0..40 { y[m, n] = x[m, n] - t[m] } }
}
""")
    found = bound(Schedule(func)).func
    verify_func(found)
    launch = launch_of(found)
    assert launch is not None and launch.threads > 6
    x = np.arange(240, dtype=np.int32).reshape(6, 40) % 7
    np.testing.assert_array_equal(interpret(found, {"x": x})["y"], x - x.sum(1, keepdims=True))


def test_what_carries_from_step_to_step_stays_in_one_thread() -> None:
    func = parse_func("""
func run(x: arena int32[9], y: arena int32[9]) {
  alloc t: register int32[1]
  t[0] = 0
  for i in 0..9 { t[0] = t[0] + x[i] y[i] = t[0] }
}
""")
    assert launch_of(bound(Schedule(func)).func) is None


def test_no_race_in_the_example() -> None:
    assert races(DIGITS) > 2


@pytest.mark.parametrize("name", [n for n in MODELS if n not in UNFIT])
def test_no_race_in_any_operator(name: str, tmp_path: Path) -> None:
    """Every kernel that rules of a GPU make of the operators' models."""
    assert races(MODELS[name](tmp_path)) > 0


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    ["mlperf_kws_dscnn_int8.tflite", "mlperf_ad_autoencoder_int8.tflite", "onnxzoo_mnist8.onnx",
     "tflm_hello_world_int8.tflite", "mlperf_sww_int8.tflite"],
)  # fmt: skip
def test_no_race_in_models(name: str, sample_model: Callable[[str], Path]) -> None:
    assert races(sample_model(name)) > 1


SHARED = """
func product(x: arena int32[6, 12], w: arena int32[12, 8], y: arena int32[6, 8]) {
  alloc row: shared int32[12]
  alloc part: shared int32[8]
  alloc acc: register int32[1]
  block_x for i in 0..6 {
    thread_x for j in 0..8 { row[j] = x[i, j] }
    thread_x for j2 in 0..4 { row[j2 + 8] = x[i, j2 + 8] }
    sync block
    thread_x for c in 0..8 {
      acc[0] = 0
      for k in 0..12 { acc[0] = acc[0] + row[k] * w[k, c] }
      part[c] = acc[0]
    }
    sync block
    thread_x for d in 0..8 { y[i, d] = part[7 - d] }
  }
}
"""
GRID = """
func sums(x: arena int32[6, 40], t: scratch int32[6], u: scratch int32[6], y: arena int32[6, 40]) {
  for i in 0..6 { t[i] = 0 for k in 0..40 { t[i] = t[i] + x[i, k] } }
  for i2 in 0..6 { u[i2] = t[5 - i2] * 3 }
  for m in 0..6 { for n in 0..40 { y[m, n] = x[m, 39 - n] - u[m] } }
}
"""


def is_found(func: PrimFunc, arrays: dict[str, np.ndarray], expected: bytes) -> bool:
    try:
        verify_func(func)
        return interpret(func, arrays)["y"].tobytes() != expected
    except ContractError:
        return True


def test_every_planted_fault_is_found() -> None:
    functions = [parse_func(SHARED), bound(Schedule(parse_func(GRID))).func]
    count = 0
    for func in functions:
        arrays = given(func)
        expected = interpret(func, arrays)["y"].tobytes()
        assert not is_found(func, arrays, expected)
        for fault in faulty(func):
            assert is_found(fault, arrays, expected), print_func(fault)
            count += 1
    assert count >= 30


@pytest.mark.parametrize("offset", [0, 128])
def test_four_channels_are_the_kernel_s_meaning(offset: int, tmp_path: Path) -> None:
    """Its C, as every compiler without a GPU has it, against the nest that it is registered for."""
    rng = np.random.default_rng(offset)
    x, w = rng.integers(-128, 128, 4, np.int8), rng.integers(-128, 128, 4, np.int8)
    acc = rng.integers(-(2**31), 2**31, 4, np.int64).astype(np.int32)
    meaning = get_microkernel(MULTIPLY).meaning(offset=offset)
    expected = interpret(meaning, {"x": x, "w": w, "acc": acc})["acc"]
    found = acc.copy()
    run_in_c("depthwise_s8.h", MULTIPLY, (x, w, found), offset, tmp_path)
    np.testing.assert_array_equal(found, expected)


def run_in_c(
    header: str, name: str, arrays: tuple[np.ndarray, ...], size: int, folder: Path
) -> None:
    """Call a kernel of three pointers and a size, compiled for this computer."""
    source, include = folder / "kernel.c", resource_dir("runtime_c")
    parameters = "const int8_t *x, const int8_t *w, int32_t *acc, int32_t size"
    source.write_text(
        f'#include "{include}/kernels/cuda/{header}"\n'
        f"void kernel({parameters});\n"
        f"void kernel({parameters}) {{\n    {name}(x, w, acc, size);\n}}\n"
    )
    library = build_host_library(
        [source], folder / "kernel.so", toolchain=find_toolchain(host_core()),
        include_dirs=[include / "include"],
    )  # fmt: skip
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    ctypes.CDLL(str(library)).kernel(*pointers, size)


@pytest.mark.parametrize("channels", [1, 4])
def test_four_products_are_the_kernel_s_meaning(channels: int, tmp_path: Path) -> None:
    """Its C, as every compiler without a GPU has it, against the nest that it is registered for."""
    rng = np.random.default_rng(channels)
    x, w = rng.integers(-128, 128, 4, np.int8), rng.integers(-128, 128, (channels, 4), np.int8)
    acc = rng.integers(-(2**31), 2**31, channels, np.int64).astype(np.int32)
    meaning = get_microkernel(DOT).meaning(channels=channels)
    expected = interpret(meaning, {"x": x, "w": w, "acc": acc})["acc"]
    found = acc.copy()
    run_in_c("dot_s8.h", DOT, (x, w, found), channels, tmp_path)
    np.testing.assert_array_equal(found, expected)


def test_dense_layers_take_four_products(sample_model: Callable[[str], Path]) -> None:
    compiled = compile_model(sample_model("mlperf_ad_autoencoder_int8.tflite"), GPU)
    assert all(kernels_of(variant.function) == {DOT} for variant in compiled.chosen)
    assert races(sample_model("tflm_hello_world_int8.tflite")) > 1
