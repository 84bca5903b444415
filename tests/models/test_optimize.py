"""Whatever is preferred, the bits stay; what is preferred gets no worse."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from built_models import MODELS

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.loop.tuned import Tuned
from edgec.options import Optimize, Options, read_optimize
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core


@pytest.mark.parametrize(
    ("name", "board_name", "most"),
    [
        pytest.param("kws", "mps2_an386", 1.1, marks=pytest.mark.full),
        ("ad", "mps2_an386", 1.1),  # `time` copies inputs as int16 first: 1,152 bytes of arena
        # `time` takes schedules that ship and need more code, and blocks that need more stack.
        pytest.param("ad", "mps2_an385", 1.14, marks=pytest.mark.full),
    ],
)
def test_every_preference(
    name: str, board_name: str, most: float, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    model = sample_model(MODELS[name])
    board = load_board(board_name)
    oracle = open_oracle(model)
    figures: dict[str, Any] = {}
    for optimize in (*get_args(Optimize), "time=1,flash=1,ram=1"):
        compiled = compile_model(model, board.core, Options(optimize=read_optimize(optimize)),
                                 board_name=board.name)  # fmt: skip
        built = deploy(compiled, board, tmp_path / optimize)
        types = [(port.shape, port.dtype) for port in built.manifest.inputs]
        with open_session("core", built) as session:
            for seed in (1, 2):
                inputs = generate_inputs(seed, types)
                result = session.run(inputs)
                want = oracle.run(inputs).outputs[0]
                assert result.outputs[0].tobytes() == want.tobytes(), optimize
        assert built.image is not None
        figures[optimize] = (
            result.instructions, compiled.program.arena_bytes, built.image.code_bytes,
            built.image.stack_bytes,
        )  # fmt: skip
    instructions, arena, code, stack = (
        {optimize: figure[n] for optimize, figure in figures.items()} for n in range(4)
    )
    ram = {optimize: size + stack[optimize] for optimize, size in arena.items()}
    assert instructions["time"] == min(instructions.values()), figures
    assert instructions["balanced"] <= most * instructions["time"], figures
    assert ram["ram"] <= min(ram["time"], ram["balanced"]), figures
    assert code["size"] == min(code.values()), figures


#: Models of every family that compile in a second or two.
QUICK = (
    "mlperf_kws_dscnn_int8.tflite", "mlperf_kws_dscnn_qdq.onnx", "mlperf_kws_dscnn_f32.tflite",
    "mlperf_ad_autoencoder_qdq.onnx", "mlperf_sww_int8.tflite", "mlperf_ic_resnet8_qdq.onnx",
    "onnxzoo_mnist8.onnx", "onnx2c_mnist_pytorch.onnx", "tflm_mnist_lstm_int8.tflite",
    "tinymaix_cifar10_int8.tflite", "mww_hey_jarvis_int8.tflite", "tflm_magic_wand_f32.tflite",
)  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_time_is_no_slower_than_balanced_by_estimate(
    name: str, sample_model: Callable[[str], Path]
) -> None:
    """Without the schedules that ship: where these are known, costs are measured, not estimated."""
    core = find_core("cortex-m4")
    levels: tuple[Optimize, ...] = ("time", "balanced")
    time, balanced = (
        sum(v.instructions for v in compile_model(sample_model(name), core, options).chosen)
        for options in (Options(optimize=level, tuned=Tuned(is_alone=True)) for level in levels)
    )
    assert time <= balanced


def test_balanced_is_fast_where_that_is_worth_the_memory(
    sample_model: Callable[[str], Path],
) -> None:
    """Kernels halve the time of the network; their scratch makes the arena half as large again."""
    model = sample_model("tinymaix_cifar10_int8.tflite")
    levels: tuple[Optimize, ...] = ("time", "balanced")
    time, balanced = (
        compile_model(model, find_core("cortex-m4"), Options(optimize=optimize))
        for optimize in levels
    )
    fewest = sum(v.instructions for v in time.chosen)
    assert sum(v.instructions for v in balanced.chosen) <= 1.03 * fewest
    assert balanced.program.arena_bytes <= time.program.arena_bytes


def test_time_is_measured_no_slower_where_balanced_streams_a_pool(
    sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    board = load_board("mps2_an386")
    counts: dict[str, int | None] = {}
    levels: tuple[Optimize, ...] = ("time", "balanced")
    for optimize in levels:
        compiled = compile_model(
            sample_model("onnxzoo_mnist8.onnx"), board.core, Options(optimize=optimize),
            board_name=board.name,
        )  # fmt: skip
        built = deploy(compiled, board, tmp_path / optimize)
        types = [(port.shape, port.dtype) for port in built.manifest.inputs]
        with open_session("core", built) as session:
            counts[optimize] = session.run(generate_inputs(1, types)).instructions
    assert counts["time"] is not None and counts["balanced"] is not None
    assert counts["time"] <= counts["balanced"], counts


def test_the_default_is_not_worse_in_everything_for_a_very_small_model(
    sample_model: Callable[[str], Path],
) -> None:
    model, core = sample_model("tflm_hello_world_int8.tflite"), find_core("cortex-m4")
    levels: tuple[Optimize, ...] = ("time", "balanced")
    time, balanced = (compile_model(model, core, Options(optimize=level)) for level in levels)
    fewest = sum(v.instructions for v in time.chosen)
    assert sum(v.instructions for v in balanced.chosen) <= 1.1 * fewest
    assert balanced.program.arena_bytes <= time.program.arena_bytes
