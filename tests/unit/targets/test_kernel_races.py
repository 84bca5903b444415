"""Races found by the addresses of all threads at once: what the interpreter finds, and models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from bound_kernels import GRID, REVERSED, ROUNDS, WARP, barriers, without
from gpu_races import GPU, addresses_of, given, require_apart
from kernel_races import Undecided, meeting, require_no_race
from operator_models import MODELS
from planted_faults import faulty
from test_cuda_rules import SHARED

from edgec.codegen.program import Program, Step
from edgec.codegen.share import canonical
from edgec.errors import ContractError
from edgec.loop.bound import kernel_parts, launch_of
from edgec.loop.interpret import interpret
from edgec.loop.ir import Buffer, PrimFunc
from edgec.loop.microkernel import kernels_of
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.verify import verify_func
from edgec.options import Options
from edgec.pipeline import Compiled, compile_model
from edgec.targets.core import find_core
from edgec.targets.cuda.kernels.mma import MMA

NARROW = REVERSED.replace("sync block", "sync warp")
BY_WARPS = """
func exchanged(x: arena int32[64], y: arena int32[64]) {
  alloc t: shared int32[64]
  thread_x for j in 0..64 { t[j] = x[j] }
  sync warp
  thread_x for k in 0..64 { y[k] = t[k // 32 * 32 + 31 - k % 32] }
  sync block
  thread_x for m in 0..64 { t[63 - m] = y[63 - m] }
}
"""
QUICK = ("conv2d", "softmax", "mean")


def finds(func: PrimFunc, addresses: Mapping[Buffer, range] | None = None) -> bool:
    try:
        require_no_race(func, addresses)
    except ContractError:
        return True
    return False


def interpreter_finds(func: PrimFunc, constants: Mapping[str, np.ndarray]) -> bool:
    try:
        interpret(func, {**given(func), **constants})
    except ContractError:
        return True
    return False


def compare(func: PrimFunc, constants: Mapping[str, np.ndarray]) -> list[bool]:
    """Findings in a function and with each planted fault: the same ones as the interpreter's."""
    found = []
    for each in (func, *faulty(func), *(without(func, barrier) for barrier in barriers(func))):
        found.append(finds(each))
        assert found[-1] == interpreter_finds(each, constants), print_func(each)
    return found


@pytest.mark.parametrize("text", [SHARED, REVERSED, ROUNDS, WARP, GRID, NARROW, BY_WARPS])
def test_findings_in_faulty_kernels_are_the_interpreter_s(text: str) -> None:
    found = compare(parse_func(text), {})
    assert found[0] == (text == NARROW)
    assert sum(found) > 3


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.full) for n in MODELS]
)
def test_findings_in_operators_are_the_interpreter_s(name: str, tmp_path: Path) -> None:
    count, path = 0, MODELS[name](tmp_path)
    if name not in ("signal_auto_scale", "signal_irfft"):  # one gathers from what it has made
        check(path, GPU.name)
    for variant in compile_model(path, GPU).chosen:
        try:
            require_no_race(variant.function)
        except Undecided:
            continue
        if name != "signal_auto_scale":  # no number of any size is its shift
            count += sum(compare(variant.function, variant.constants))
    assert count > 0 or not name.startswith(QUICK)


def functions(compiled: Compiled) -> list[PrimFunc]:
    """Every function that is emitted, once."""
    return list({canonical(v.function): v.function for v in compiled.chosen}.values())


def check(path: Path, core: str) -> Compiled:
    """No kernel of a model has a race, and none of one launch touches what another one writes."""
    compiled = compile_model(path, find_core(core), Options(driver="graph"))
    require_apart(compiled.program)
    seen = set()
    for step in compiled.program.steps:
        func, addresses = step.function, addresses_of(compiled.program, step)
        met = [meeting(part, addresses) for part in kernel_parts(func)]
        key = canonical(func), str(met) if any(met) else ""
        if key not in seen:
            verify_func(func)
            check_step(compiled.program, step)
        seen.add(key)
    return compiled


def check_step(program: Program, step: Step) -> None:
    func, addresses = step.function, addresses_of(program, step)
    try:
        require_no_race(func, addresses)
    except Undecided:
        several = [part for part in kernel_parts(func) if launch_of(part) is not None]
        assert not any(meeting(part, addresses) for part in several)
        names = {p.name: name for p, name in zip(func.params, step.args, strict=True)}
        constants = {p: program.constants[n] for p, n in names.items() if n in program.constants}
        interpret(func, {**given(func), **constants})


def test_outputs_in_the_place_of_inputs_are_checked() -> None:
    """Bytes that one thread writes and another one reads, by the memory plan's addresses."""
    func = parse_func("""
func moved(x: arena int16[64], y: arena int16[64]) {
  thread_x for i in 0..64 { y[i] = x[i] }
}
""")
    x, y = func.params
    for start, is_race in ((128, False), (0, False), (1, True), (2, True), (127, True)):
        addresses = {x: range(128), y: range(start, start + 128)}
        assert finds(func, addresses) == is_race


def test_no_race_in_joined_kernels_of_matrix_instructions(
    sample_model: Callable[[str], Path],
) -> None:
    """Of the residual network, and each of their barriers is missed."""
    compiled = check(sample_model("mlperf_ic_resnet8_int8.tflite"), "cuda-sm_75")
    split = [func for func in functions(compiled) if MMA in kernels_of(func)]
    assert len(split) >= 4
    for func in split:
        assert barriers(func)
        for barrier in barriers(func):
            with pytest.raises(ContractError, match=r"race: element|that nothing wrote"):
                require_no_race(without(func, barrier))


@pytest.mark.full
@pytest.mark.parametrize("core", ["cuda-sm_75", "cuda-sm_87"])
@pytest.mark.parametrize(
    "name",
    ["mlperf_kws_dscnn_int8.tflite", "mlperf_ic_resnet8_int8.tflite", "mlperf_sww_int8.tflite",
     "mlperf_vww_mbv1_int8.tflite", "tflm_person_detect_int8.tflite", "tflm_mnist_lstm_int8.tflite",
     "mlperf_ad_autoencoder_int8.tflite", "tflm_mnist_lstm_f32.tflite", "dtln_1_f32.tflite",
     "deeploy_cct2_32_f32_untrained.onnx", "mlperf_kws_dscnn_f32.tflite",
     "mlperf_ic_resnet8_f32.tflite", "ultraface_rfb320.onnx", "cfu_mobilenetv2_160_035_int8.tflite",
     "emza_ssd_slim_120x160_int8.tflite", "mp_selfie_seg_f16.tflite"],
)  # fmt: skip
def test_no_race_in_models(name: str, core: str, sample_model: Callable[[str], Path]) -> None:
    assert any(map(launch_of, functions(check(sample_model(name), core))))
