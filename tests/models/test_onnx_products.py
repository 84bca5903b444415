"""Models with ONNX Runtime's rounding run on the same products as TFLite's: `examples/digits`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from built_models import DIGITS, MODELS, QDQ_MODELS, build, figures

from edgec.boards.board import load_board
from edgec.deploy.project import Built
from edgec.graph.interpret import interpret
from edgec.loop.microkernel import kernels_of
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

#: Figures of the DSP extension: gcc 12.2 -O2; plain loops take 279,130.
MOST_INSTRUCTIONS = 111_608
#: Of Helium, where plain loops take 270,438; QEMU may count an interrupt too.
MOST_ON_MVE = 49_000
#: Of models about half of whose channels have a weight of -128, for time; plain loops take
#: 7,736,126 and 34,610,926.
MOST_PAIRED = {"kws_qdq": 2_545_084, "ic_qdq": 9_654_550}
#: By default, of the twin in TFLite. KWS takes 1.09: what remains are depthwise results, which
#: floats scale, and ONNX's average pool, whose sums are floats, in 5 times the instructions.
MOST_OF_TWIN = 1.10


@pytest.mark.parametrize(
    ("board", "most"),
    [("mps2_an386", MOST_INSTRUCTIONS), ("mps2_an500", None), ("mps2_an505", None)],
)
def test_products_of_the_dsp_extension(board: str, most: int | None) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    compiled, built = build(DIGITS, board, "gcc", optimize="time")
    used = {name for variant in compiled.chosen for name in kernels_of(variant.function)}
    assert {"ec_matrix_4_onnx_s8_dsp", "ec_matrix_1_onnx_s8_dsp"} & used
    assert "ec_depthwise_3x3_onnx_s8_dsp" in used
    assert_the_oracles_bits("core", built, most)


@pytest.mark.parametrize("name", MOST_PAIRED)
def test_channels_are_paired_where_weights_are_least(
    name: str, sample_model: Callable[[str], Path]
) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    compiled, built = build(sample_model(QDQ_MODELS[name]), "mps2_an386", "gcc", optimize="time")
    convolutions = [
        kernels_of(variant.function)
        for lowered, variant in zip(compiled.groups, compiled.chosen, strict=True)
        if lowered.group.nodes[0].op.name == "conv2d"
    ]
    assert all(
        {"ec_matrix_3_onnx_s8_dsp", "ec_matrix_4_onnx_s8_dsp"} & {*used} for used in convolutions
    )
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    inputs = generate_inputs(1, types)
    with open_session("core", built) as session:
        assert session.selftest() == 0
        result = session.run(inputs)
    # The reference of the module as it came, whose channels are in their own order.
    (expected,) = interpret(compiled.imported.main, inputs)
    (found,) = result.outputs
    assert np.abs(found - expected).max() <= 1e-6  # after a softmax of floats
    assert result.instructions is not None and result.instructions <= MOST_PAIRED[name]


def test_products_of_mve() -> None:
    if shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    compiled, built = build(DIGITS, "mps3_an547", "gcc", optimize="time")
    used = {name for variant in compiled.chosen for name in kernels_of(variant.function)}
    assert {"ec_conv_onnx_s8_mve", "ec_depthwise_onnx_s8_mve"} <= used
    assert_the_oracles_bits("qemu", built, MOST_ON_MVE)


def test_small_models_do_without() -> None:
    """By default: a model of few milliseconds needs neither the FPU nor more memory for it."""
    for board in ("mps2_an386", "mps3_an547"):
        core = load_board(board).core
        compiled = compile_model(DIGITS, core, Options(), board_name=board)
        used = {name for variant in compiled.chosen for name in kernels_of(variant.function)}
        assert not {name for name in used if "onnx" in name}


def assert_the_oracles_bits(engine: str, built: Built, most: int | None) -> None:
    oracle = open_oracle(DIGITS)
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        for seed in (1, 2, 3):
            inputs = generate_inputs(seed, types)
            result = session.run(inputs)
            for want, got in zip(oracle.run(inputs).outputs, result.outputs, strict=True):
                assert np.array_equal(want, got), f"seed {seed}"
            assert result.instructions is not None
            assert most is None or seed > 1 or result.instructions <= most


@pytest.mark.parametrize(
    ("name", "kernel", "count"),
    [("ad", "ec_matrix_1_shared_onnx_s8_dsp", 10), ("kws", "ec_matrix_4_onnx_s8_dsp", 5)],
)
def test_products_take_kernels_by_default(
    sample_model: Callable[[str], Path], name: str, kernel: str, count: int
) -> None:
    """A QDQ file is nearly as fast as the TFLite file of the same network."""
    model = sample_model(QDQ_MODELS[f"{name}_qdq"])
    used = [kernels_of(v.function) for v in build(model, "mps2_an386", "gcc")[0].chosen]
    assert sum(kernel in each for each in used) == count
    most = MOST_OF_TWIN * figures(sample_model(MODELS[name]), "mps2_an386")["instructions"]
    assert figures(model, "mps2_an386")["instructions"] <= most
