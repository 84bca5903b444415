"""One launch for a whole model: one block with the arena in its shared memory, or one grid."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from gpu_models import GPU, check_on_gpu, emulated, for_gpu, gpu_with, written
from onnx_builder import OnnxBuilder
from open_functions import perceptron
from operator_models import MODELS
from stateful_functions import delay_line, module_of

from edgec.codegen.c_kernel import emit_parts
from edgec.codegen.manifest import Manifest
from edgec.codegen.model_text import make_text
from edgec.codegen.one_launch import plan_of
from edgec.errors import BuildFailed
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module
from edgec.loop.ir import PrimFunc
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.options import Driver, Options
from edgec.pipeline import compile_module
from edgec.runners.gpu_emulation import build_emulated
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_steps
from edgec.targets.core import find_core
from edgec.targets.cuda import costs
from edgec.targets.cuda.costs import GPUS, ports_us
from edgec.targets.cuda.crew import Crew
from edgec.targets.cuda.kernels.depthwise import MULTIPLY

DRIVERS = pytest.mark.parametrize("driver", ["block", "grid"])
HOPPER = find_core("cuda-sm_90")
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.onnx"


@DRIVERS
def test_a_run_is_one_launch(driver: Driver, tmp_path: Path) -> None:
    """Every kernel that the emulated driver runs is counted."""
    compiled = for_gpu(import_model(DIGITS), driver)
    model = emulated(compiled, tmp_path)
    library = ctypes.CDLL(str(next((tmp_path / "built").glob("*emulation*"))))
    inputs = [np.zeros(v.type.shape, v.type.dtype) for v in compiled.module.main.inputs]
    for run in range(3):
        assert model.run(inputs)[0] == 0
        assert library.ec_cuda_launches() == run + 1
    assert model.call("selftest") == 0
    model.close()


@DRIVERS
@pytest.mark.parametrize(("most", "copies"), [(1 << 20, 0), (16, 2)])
def test_inputs_and_outputs_are_in_the_host_s_memory(
    driver: Driver, most: int, copies: int, tmp_path: Path
) -> None:
    """Where the driver maps the arena, a run copies nothing; else it does, with the same bits."""
    compiled = for_gpu(import_model(DIGITS), driver)
    types = [(v.type.shape, v.type.dtype) for v in compiled.module.main.inputs]
    with gpu_with(MOST_MAPPED=most):
        model = emulated(compiled, tmp_path)
        library = ctypes.CDLL(str(next((tmp_path / "built").glob("*emulation*"))))
        for inputs in generate_steps(3, types, 2):
            before = library.ec_cuda_copies()
            status, outputs, _ = model.run(inputs)
            (expected,) = compiled.reference(inputs)
            assert status == 0 and outputs[0] == expected.tobytes()
            assert library.ec_cuda_copies() - before == copies
        assert model.call("close") == 0 and library.ec_cuda_live_buffers() == 0


def test_what_inputs_and_outputs_cost() -> None:
    """Less than copies on a GPU of its own memory; nothing on Jetson, whose kernel is as it was."""
    hopper, orin = GPUS["sm_90"], GPUS["sm_87"]
    assert ports_us((490, 12), hopper, False) > 3 * ports_us((490, 12), hopper, True) > 4
    assert ports_us((490, 12), orin, True) == ports_us((490, 12), orin, False) == 0
    module = import_model(DIGITS)
    for core, is_mapped in ((HOPPER, True), (find_core("cuda-sm_87"), False)):
        text = make_text(for_gpu(module, "grid", core).program).text.gpu
        assert text is not None and text.maps_ports == is_mapped
        assert ("EC_GRID_COPY(arena + " in text.source) == is_mapped
        assert ("(outside + " in text.source) == is_mapped, "the last step writes there"


def test_one_launch_of_kws(sample_model: Callable[[str], Path]) -> None:
    """Its microseconds by the model of costs, from call to result; 15 is the aim."""
    module = import_model(sample_model("mlperf_kws_dscnn_int8.tflite"))
    for core, most in (("cuda-sm_90", 24.5), ("cuda-sm_87", 82.9)):
        plan = plan_of(for_gpu(module, "grid", find_core(core)).program)
        start = GPUS[find_core(core).gpu_architecture].start_us
        assert plan.us + plan.ports_us + start <= most


def test_depthwise_layers_take_four_channels_where_there_are_many_pixels() -> None:
    """One in each thread where a layer is small: it is done sooner, by more threads."""
    for pixels, is_by_fours in ((5, False), (192, True)):
        b = OnnxBuilder(3, (1, 64, pixels, pixels))
        x = b.qdq("x", 0.02, 3)
        weights, bias, _ = b.weights((64, 1, 3, 3), 0.02)
        y = b.add("Conv", [x, weights, bias], group=64, pads=[1, 1, 1, 1])
        with TemporaryDirectory() as folder:
            module = import_model(b.save(b.qdq(y, 0.05, -4), Path(folder) / "m.onnx"))
        steps = for_gpu(module, "graph", find_core("cuda-sm_87")).program.steps
        assert any(MULTIPLY in print_func(step.function) for step in steps) == is_by_fours


def test_an_output_that_is_read_again_is_copied(tmp_path: Path) -> None:
    """At the end, from the arena; the other one is written where the host reads it."""
    b = OnnxBuilder(7, (4, 64))
    y = b.add("Softmax", ["x"])
    z = b.add("MatMul", [y, b.constant(b.rng.normal(size=(64, 8)).astype(np.float32), "w")])
    model = onnx.load(b.save(z, tmp_path / "m.onnx"))
    model.graph.output.append(onnx.ValueInfoProto(name=y))
    onnx.save(model, tmp_path / "m.onnx")
    module = import_model(tmp_path / "m.onnx")
    text = make_text(for_gpu(module, "grid").program).text.gpu
    assert text is not None and text.source.count("EC_GRID_COPY(outside + ") == 1
    assert "(outside + " in text.source.replace("EC_GRID_COPY(outside + ", "")
    assert check_on_gpu(module, tmp_path, driver="grid") == 2 * 2 * (4 * 64 + 4 * 8)


@DRIVERS
def test_states_stay_outside(driver: Driver, tmp_path: Path) -> None:
    assert check_on_gpu(module_of(delay_line), tmp_path, 3, driver=driver) > 10


def test_a_cluster_gives_the_same_bits(tmp_path: Path) -> None:
    """On Hopper the blocks of a grid are one cluster, of no more blocks than the GPU takes."""
    module = import_model(DIGITS)
    compiled = for_gpu(module, "grid", HOPPER)
    crew = plan_of(compiled.program).crew
    assert crew.is_cluster and 1 < crew.blocks <= GPUS["sm_90"].cluster_blocks
    assert check_on_gpu(module, tmp_path, driver="grid", core=HOPPER) > 10
    project = tmp_path / "project"
    assert "ec_cuda_launch_cluster(gpu, " in (project / "m.c").read_text("utf-8")
    given = [np.zeros(v.type.shape, v.type.dtype) for v in compiled.module.main.inputs]
    found = set()
    for number in (1, crew.blocks, crew.blocks + 1):
        with gpu_with(CLUSTER_BLOCKS=number):
            model = emulated(compiled, tmp_path)
            status, outputs, _ = model.run(given)
            model.close()
        assert status == 0
        found.add(outputs[0])
    assert len(found) == 1


def test_a_grid_takes_a_cluster_where_that_is_faster() -> None:
    """Its barrier is: by the model of costs, no plan of a grid on Turing has one."""
    module = import_model(DIGITS)
    assert not plan_of(for_gpu(module, "grid").program).crew.is_cluster
    hopper = GPUS["sm_90"]
    assert Crew(8, 0, True).waiting_us(hopper) < Crew(8, 0).waiting_us(hopper)


@DRIVERS
@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_every_operator_gives_the_same_bits(name: str, driver: Driver, tmp_path: Path) -> None:
    assert check_on_gpu(import_model(MODELS[name](tmp_path)), tmp_path, driver=driver) > 0


@DRIVERS
def test_the_example_gives_the_same_bits(driver: Driver, tmp_path: Path) -> None:
    """Its kernels by tiles and by shared sums wait: groups of a block take their blocks."""
    assert check_on_gpu(import_model(DIGITS), tmp_path, driver=driver) > 10


@DRIVERS
@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["mlperf_kws_dscnn_int8", "mlperf_ad_autoencoder_int8", "mlperf_sww_int8"]
)
def test_models_give_the_same_bits(
    name: str, driver: Driver, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    module = import_model(sample_model(f"{name}.tflite"))
    assert check_on_gpu(module, tmp_path, driver=driver) > 0


def test_what_does_not_fit_in_a_block_is_refused() -> None:
    program = for_gpu(module_of(delay_line), "block").program
    assert plan_of(replace(program, arena_bytes=65_536)).driver == "block"
    with pytest.raises(BuildFailed, match="larger than the 65,536 of a block"):
        plan_of(replace(program, arena_bytes=65_537))
    with pytest.raises(BuildFailed, match="its sizes are open"):
        plan_of(for_gpu(Module({"main": perceptron()}, source="open"), "block").program)


def test_a_kernel_s_work_is_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all plans of a program: that takes the most time of a build with known kernels."""
    program = for_gpu(import_model(DIGITS), "auto").program
    asked = list[tuple[str, bool]]()
    real = costs.thread_instructions

    def counted(func: PrimFunc, *args: Any, most: bool) -> float:
        asked.append((print_func(func), most))
        return real(func, *args, most=most)

    monkeypatch.setattr(costs, "thread_instructions", counted)
    first = plan_of(program)
    assert len(asked) == len(set(asked))
    asked.clear()
    assert plan_of(program) == first and asked == []


def test_kernels_share_what_the_arena_leaves_of_a_block(
    sample_model: Callable[[str], Path],
) -> None:
    path = sample_model("mlperf_ad_autoencoder_int8.tflite")
    program = compile_module(import_model(path), GPU, Options(driver="block")).program
    with pytest.raises(BuildFailed, match="bytes of shared memory, and 0 are left"):
        plan_of(replace(program, arena_bytes=65_536))


@DRIVERS
@pytest.mark.parametrize("name", ["mlperf_kws_dscnn_int8", "mlperf_ad_autoencoder_int8"])
def test_kernels_between_two_barriers_touch_nothing_of_each_other(
    name: str, driver: Driver, sample_model: Callable[[str], Path]
) -> None:
    """By the bytes that each kernel's text is given, whatever the plan thinks it touches."""
    program = compile_module(import_model(sample_model(f"{name}.tflite")), GPU,
                             Options(model_name="m", driver=driver)).program  # fmt: skip
    gpu = make_text(program).text.gpu
    assert gpu is not None and gpu.whole is not None
    body = gpu.source.partition(f"void {gpu.whole.kernel}(")[2].partition("\n}")[0]
    epochs = body.split(f"EC_{driver.upper()}_BARRIER")
    assert len(epochs) > 5
    for epoch in epochs:
        calls = re.findall(r"    m_\w+\(.*?\);", epoch, re.S)
        touched = [re.findall(r"\((const )?\w+ \*\)\((\w+ \+ \d+)\)", call) for call in calls]
        for one, other in itertools.permutations(touched, 2):
            written = {place for const, place in one if not const}
            assert not written & {place for _, place in other if "weights" not in place}


def test_branches_share_an_epoch(sample_model: Callable[[str], Path]) -> None:
    """A residual branch reads what its neighbour reads, so that no barrier is between them."""
    module = import_model(sample_model("mlperf_ic_resnet8_int8.tflite"))
    waits = plan_of(for_gpu(module, "grid").program).waits
    assert waits.count(False) >= 2 and waits.count(True) >= 12


def test_a_missing_barrier_gives_other_bits(tmp_path: Path) -> None:
    """Without one of a grid's barriers, one order of threads gives other bits, or a GPU refuses."""
    compiled = for_gpu(import_model(DIGITS), "grid")
    main = compiled.module.main
    given = generate_steps(3, [(v.type.shape, v.type.dtype) for v in main.inputs], 2)
    (expected,) = Interpretation(main).run_whole(given[1])
    source = written(compiled, tmp_path) / "m_kernels.cu"
    count = itertools.count()
    text = re.sub(
        r"        (EC_GRID_BARRIER\(\);)",
        lambda found: f"        if (ec_left_out != {next(count)}) {found[1]}",
        source.read_text("utf-8"),
    )
    source.write_text(f'extern "C" {{ int ec_left_out = -1; }}\n{text}', "utf-8")
    barriers = next(count)
    assert barriers == sum(plan_of(compiled.program).waits) > 5
    found = set()
    folder = tmp_path / "faults"
    library = build_emulated(tmp_path / "project", "m", folder)
    driver = ctypes.CDLL(str(next(folder.glob("*emulation*"))))
    left_out = ctypes.c_int.in_dll(driver, "ec_left_out")
    for is_reversed, number in itertools.product((0, 1), range(-1, barriers)):
        with gpu_with(CUDA_REVERSE=is_reversed):
            model = HostModel(library, Manifest.load(tmp_path / "project"))
            left_out.value = -1
            assert model.run(given[0])[0] == 0  # what is read too early belongs to other inputs
            left_out.value = number
            status, outputs, _ = model.run(given[1])
            if status != 0 or outputs[0] != expected.tobytes():
                found.add(number)
            model.close()
    assert set(range(barriers)) == found


def test_fewer_multiprocessors_give_the_same_bits(tmp_path: Path) -> None:
    """As many blocks as fit on the GPU; one where it does not promise that all run at once."""
    compiled = for_gpu(import_model(DIGITS), "grid")
    given = [np.zeros(v.type.shape, v.type.dtype) for v in compiled.module.main.inputs]
    found = set()
    for gpu in ({"MULTIPROCESSORS": 1}, {"MULTIPROCESSORS": 2}, {"COOPERATES": 0}):
        with gpu_with(**gpu):
            model = emulated(compiled, tmp_path)
            found.add(model.run(given)[1][0])
            model.close()
    assert len(found) == 1


def test_auto_takes_the_block_for_small_models_alone(sample_model: Callable[[str], Path]) -> None:
    def taken(name: str) -> str:
        core = find_core("cuda-sm_87")
        return plan_of(
            compile_module(import_model(sample_model(name)), core, Options()).program
        ).driver

    assert taken("tflm_hello_world_int8.tflite") == "block"
    assert taken("mlperf_kws_dscnn_int8.tflite") == "grid"


@pytest.mark.parametrize(("blocks", "steps"), [(1, "EC_THREAD_X"), (8, "EC_GRID_THREAD")])
def test_the_steps_of_all_loops_are_those_of_one(blocks: int, steps: str) -> None:
    func = parse_func("""
func sums(x: arena int32[2, 3, 4, 5], y: arena int32[2, 3, 4, 5]) {
  block_y for a in 0..2 { block_x for b in 0..3 { thread_y for c in 0..4 { thread_x for d in 0..5 {
    y[a, b, c, d] = x[a, b, c, d] + 1
  } } } }
}
""")
    (kernel,) = emit_parts(func, "f", {}, {}, Crew(blocks, 65_536))
    at_once = "EC_BLOCK_THREADS" if blocks == 1 else "EC_GRID_THREADS"
    assert [line.strip() for line in kernel.text.splitlines()[1:6]] == [
        f"for (int32_t step = {steps}; step < 120; step += {at_once}) {{",
        "const int32_t thread_x = step % 5;",
        "const int32_t thread_y = step / 5 % 4;",
        "const int32_t block_x = step / 5 / 4 % 3;",
        "const int32_t block_y = step / 5 / 4 / 3;",
    ]


TURNED = """
func turned(x: arena int32[48], y: arena int32[48]) {
  alloc s: shared int32[12]
  block_x for b in 0..4 {
    thread_x for i in 0..12 { s[i] = x[b*12 + i] }
    sync block
    thread_x for j in 0..12 { y[b*12 + j] = s[11 - j] }
  }
}
"""


def test_threads_that_wait_form_groups_of_whole_warps() -> None:
    """12 threads take a warp; the others of it skip what the function stores, but no barrier."""
    (kernel,) = emit_parts(parse_func(TURNED), "f", {}, {}, Crew(1, 65_536))
    assert "if (EC_THREAD_X / 32 < 15) {" in kernel.text
    assert "if (thread_x < 12) {" in kernel.text
    assert kernel.text.count("EC_GROUP_BARRIER(EC_THREAD_X / 32, 32);") == 2
    assert Crew(1, 100).groups(parse_func(TURNED)) == 2  # of 48 bytes


def test_blocks_that_wait_for_each_other_fit_on_the_gpu() -> None:
    gpu, parts = GPUS["sm_87"], [parse_func(TURNED)]
    assert list(Crew(gpu.multiprocessors, 65_536).why_not(parts, gpu)) == []
    (why,) = Crew(gpu.multiprocessors + 1, 65_536).why_not(parts, gpu)
    assert why == "9 blocks wait for each other, but only 8 fit"
    (why,) = Crew(2, 40).why_not(parts, gpu)
    assert "needs 48 bytes of shared memory, and 40 are left" in why
