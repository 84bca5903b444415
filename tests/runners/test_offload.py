"""Parts of a model on a GPU and on the processor: the same bits, and without a GPU too."""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from control_functions import branch
from custom_op_files import onnx_model, write_declaration
from emulated import emulator
from gpu_models import GPU, emulated, gpu_with
from stateful_functions import also_output, in_place, module_of, read_late

from edgec.boards.board import load_board
from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_library
from edgec.codegen.manifest import Manifest
from edgec.codegen.project import write_project
from edgec.codegen.segments import Copy, Segment, segments_of
from edgec.deploy.project import deploy
from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.frontends.custom_file import load_custom_ops
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module
from edgec.options import Offload, Options
from edgec.pipeline import Compiled, compile_module
from edgec.report.segments import segment_rows
from edgec.runners import gpu_emulation
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_steps
from edgec.targets.core import find_core

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.onnx"
#: Stands for a computer without a GPU.
NO_DRIVER = "/no/such/driver.so"


def offloaded(module: Module, offload: Offload, core: str = GPU.name) -> Compiled:
    options = Options(model_name="m", offload=offload)
    return compile_module(module, find_core(core), options)


def sides(compiled: Compiled) -> str:
    """For each step of a run: g on the GPU, p on the processor."""
    return "".join("p" if step.on_processor else "g" for step in compiled.program.general_steps)


def check(compiled: Compiled, folder: Path, drivers: tuple[str, ...] = ("", NO_DRIVER)) -> None:
    """Compare three runs in a row with the reference, with a GPU and without one."""
    main = compiled.module.main
    types = [(value.type.shape, value.type.dtype) for value in main.inputs]
    for number, driver in enumerate(drivers):
        place = folder / str(number)
        place.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gpu_emulation, "DRIVER", driver)
            model, reference = emulated(compiled, place), Interpretation(main)
        assert model.call("selftest") == 0
        for inputs in generate_steps(3, types, 3):
            status, outputs, _ = model.run([np.asarray(x, order="C") for x in inputs])
            assert status == 0
            assert [want.tobytes() for want in reference.run_whole(inputs)] == outputs
        model.close()


def test_parts_of_a_model_give_the_same_bits(tmp_path: Path) -> None:
    """Layers by name; what is copied is what the other side made, and no more."""
    compiled = offloaded(import_model(DIGITS), ("stem", "pointwise", "mix"))
    assert sides(compiled) == "pgppgpgp"
    program = compiled.program
    first, second, third = segments_of(program)[:3]
    (between,) = {*program.steps[0].args} & {*program.steps[1].args} & program.offsets.keys()
    offset = program.offsets[between]
    assert second == Segment(False, 1, 2, (Copy(False, offset, offset + 64),))
    assert first.copies == () and third.copies[0].nbytes == 1024
    check(compiled, tmp_path)


@pytest.mark.parametrize(
    "make", [pytest.param(in_place, marks=pytest.mark.full), read_late,
             pytest.param(also_output, marks=pytest.mark.full)],
)  # fmt: skip
def test_states_live_on_both_sides(make: Callable[..., object], tmp_path: Path) -> None:
    module = module_of(make)
    names = [node.name for node in module.main.nodes]
    compiled = offloaded(module, (names[-1],))
    assert "g" in sides(compiled)
    check(compiled, tmp_path, drivers=("",))


@pytest.mark.full
def test_every_choice_of_layers_gives_the_same_bits(tmp_path: Path) -> None:
    check_choices(import_model(DIGITS), tmp_path, 1)


@pytest.mark.full
@pytest.mark.parametrize("name", ["mlperf_sww_int8.tflite", "tflm_mnist_lstm_int8.tflite"])
def test_many_choices_of_layers_give_the_same_bits(
    name: str, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    check_choices(import_model(sample_model(name)), tmp_path, 5)


def check_choices(module: Module, folder: Path, count: int) -> None:
    plain = offloaded(module, "all")
    names = [source for lowered in plain.groups for source in lowered.group.sources]
    for seed in range(count):
        rng = random.Random(seed)
        chosen = tuple(name for name in names if rng.random() < 0.5) or tuple(names[:1])
        (folder / str(seed)).mkdir()
        check(offloaded(module, chosen), folder / str(seed), drivers=("",))


@pytest.mark.parametrize(
    ("gpu", "copies"),
    [({"INTEGRATED": 1}, 1), ({"INTEGRATED": 1, "MOST_MAPPED": 16}, 2)],
)
def test_a_gpu_that_has_the_host_s_memory_copies_nothing(
    gpu: dict[str, int], copies: int, tmp_path: Path
) -> None:
    """As on a Jetson: the weights once, and nothing after that; as elsewhere where it refuses."""
    module = module_of(read_late)
    layers = (module.main.nodes[-1].name,)
    rows = segment_rows(offloaded(module, layers, "cuda-sm_87").program)
    assert len(rows) > 1 and not any(row["copied_bytes"] for row in rows)
    reference = Interpretation(module.main)
    types = [(value.type.shape, value.type.dtype) for value in module.main.inputs]
    with gpu_with(**gpu):
        model = emulated(offloaded(module, layers), tmp_path)
        library = ctypes.CDLL(str(next((tmp_path / "built").glob("*emulation*"))))
        for inputs in generate_steps(3, types, 3):
            status, outputs, _ = model.run([np.asarray(x, order="C") for x in inputs])
            assert status == 0
            assert [want.tobytes() for want in reference.run_whole(inputs)] == outputs
        assert (library.ec_cuda_copies() == copies) == (copies == 1)
        assert model.call("close") == 0 and library.ec_cuda_live_buffers() == 0
        model.close()


def test_control_flow_and_own_code_stay_on_the_processor(tmp_path: Path) -> None:
    module = Module({"main": branch()}, source="branch")
    assert offloaded(module, "auto").program.target == "x86-64-v3"
    (node,) = [node.name for node in module.main.nodes if node.bodies]
    with pytest.raises(EdgecError, match="control flow, open sizes and C of your own"):
        offloaded(module, (node,))


@pytest.mark.full
def test_own_code_runs_beside_a_gpu(tmp_path: Path) -> None:
    load_custom_ops(write_declaration(tmp_path))
    module = import_model(onnx_model(tmp_path / "m.onnx"))
    names = [node.name for node in module.main.nodes if not node.op.is_foreign]
    check(offloaded(module, tuple(names)), tmp_path)


def test_auto_takes_what_is_faster_by_the_model_of_costs(
    sample_model: Callable[[str], Path],
) -> None:
    """A large layer goes to the GPU, a model of microseconds does not."""
    module = import_model(sample_model("mlperf_ic_resnet8_int8.tflite"))
    compiled = offloaded(module, "auto")
    assert "g" in sides(compiled) and compiled.program.without_gpu is not None
    tiny = offloaded(import_model(DIGITS), "auto", "cuda-sm_87")
    assert tiny.program.target == "aarch64+dotprod" and not segment_rows(tiny.program)


@pytest.mark.full
def test_auto_is_no_slower_than_the_gpu_alone(sample_model: Callable[[str], Path]) -> None:
    module = import_model(sample_model("mlperf_vww_mbv1_int8.tflite"))
    found = [segment_rows(offloaded(module, word).program) for word in ("auto", "all")]
    auto, alone = (sum(row["model_us"] for row in rows) for rows in found)
    assert auto < alone and found[0][1]["layers"]


def test_offload_none_is_the_processor_alone() -> None:
    compiled = offloaded(import_model(DIGITS), "none")
    assert compiled.program.target == "x86-64-v3"


@pytest.mark.full
def test_where_nothing_is_faster_on_a_gpu_the_functions_stay(tmp_path: Path) -> None:
    compiled = offloaded(import_model(DIGITS), "none")
    program = replace(compiled.program, beside_gpu=True)
    assert offloaded(import_model(DIGITS), "auto", "cuda-sm_87").program.beside_gpu
    write_project(program, tmp_path)
    library = build_host_library(
        sorted(tmp_path.glob("*.c")), tmp_path / "m.so",
        toolchain=find_toolchain(find_core(program.target)), include_dirs=[tmp_path],
    )  # fmt: skip
    model = HostModel(library, Manifest.load(tmp_path))
    context, loaded = ctypes.c_void_p(model._context.address), ctypes.CDLL(str(library))
    assert loaded.m_run_async(context, None, None, None) == 0
    assert loaded.m_wait(context) == 0 and model.call("selftest") == 0
    assert loaded.m_close(context) == 0 and loaded.m_wait(context) != 0
    model.close()


#: What an application does, on a Jetson whose driver is missing: 0 if all is as it should be.
JETSON_MAIN = """
#include <stdio.h>
#include "digits.h"
static DIGITS_ARENA(arena);
int main(void) {
    const digits_memory memory = { arena, sizeof arena };
    static digits_context model;
    if (digits_init(&model, &memory) != EC_OK) { return 1; }
    printf("driver's error %d\\n", model.gpu.error);
    if (digits_selftest(&model) != EC_OK) { return 2; }
    if (digits_run_async(&model, NULL, NULL, NULL) != EC_OK) { return 3; }
    if (digits_wait(&model) != EC_OK) { return 4; }
    return digits_close(&model) == EC_OK ? 0 : 5;
}
"""


@pytest.mark.full
def test_a_jetson_without_its_driver_runs_on_its_processor(tmp_path: Path) -> None:
    """The library as `edgec build --board jetson_orin_nano` makes it, under qemu-aarch64."""
    command, board = emulator(), load_board("jetson_orin_nano")
    options = Options(model_name="digits", offload=("stem", "mix"))
    compiled = compile_module(import_model(DIGITS), board.core, options, board=board)
    built = deploy(compiled, board, tmp_path / "project")
    assert built.artefact is not None
    source, program = tmp_path / "main.c", tmp_path / "main"
    source.write_text(JETSON_MAIN)
    library = built.artefact.rename(built.artefact.with_name("libdigits.so"))
    gcc = ["aarch64-linux-gnu-gcc", str(source), f"-I{built.project}", f"-L{library.parent}"]
    flags = ["-ldigits", f"-Wl,-rpath,{library.parent}", "-o", str(program)]
    subprocess.run([*gcc, *flags], check=True)
    done = subprocess.run([*command, str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "driver's error 303\n"), done.stderr


def test_wrong_words_are_refused() -> None:
    module = import_model(DIGITS)
    with pytest.raises(EdgecError, match="no layer to offload is called 'stemm'") as caught:
        offloaded(module, ("stemm",))
    assert "stem" in caught.value.hint
    for options in (Options(offload="auto"), Options(driver="block")):
        with pytest.raises(EdgecError, match="--offload and --driver need a GPU, and"):
            compile_module(module, find_core("cortex-m4"), options)
