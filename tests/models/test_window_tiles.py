"""Windows of 3 x 3 in tiles on the DSP extension: faster, in the same bits, where memory allows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from built_models import MODELS, QDQ_MODELS, build

from edgec.loop.microkernel import kernels_of
from edgec.options import Options, read_optimize
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core


@pytest.mark.parametrize(
    ("optimize", "tiled"),
    [("time=1", 4), ("time", 0), ("time=1,flash=0.3", 2), ("balanced", 0), ("ram", 0), ("size", 0)],
)
def test_weights_are_weighed(
    optimize: str, tiled: int, sample_model: Callable[[str], Path]
) -> None:
    """The weights of tiles take more flash the more channels a layer has, and a stack of 7 KB."""
    path, options = sample_model(MODELS["ic"]), Options(optimize=read_optimize(optimize))
    compiled = compile_model(path, find_core("cortex-m4"), options)
    called = [kernels_of(variant.function) for variant in compiled.chosen]
    assert sum("ec_tiles_s8_dsp" in names for names in called) == tiled


@pytest.mark.parametrize(
    ("name", "board", "instructions"),
    [
        ("ic", "mps2_an386", 8_530_000),
        pytest.param("ic", "mps2_an500", 8_530_000, marks=pytest.mark.full),
        pytest.param("ic", "mps2_an505", 8_530_000, marks=pytest.mark.full),
        pytest.param("ic_qdq", "mps2_an386", 9_000_000, marks=pytest.mark.full),
    ],
)
def test_tiles_give_the_bits_of_the_framework(
    name: str, board: str, instructions: int, sample_model: Callable[[str], Path]
) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    model = sample_model({**MODELS, **QDQ_MODELS}[name])
    compiled, built = build(model, board, "gcc", optimize="time=1")
    called = set().union(*(kernels_of(variant.function) for variant in compiled.chosen))
    assert any(kernel.startswith("ec_tiles_") for kernel in called)
    types = [(port.shape, port.dtype) for port in built.manifest.inputs]
    oracle = open_oracle(model)
    with open_session("core", built) as session:
        for seed in (1, 2, 3):
            inputs = generate_inputs(seed, types)
            result = session.run(inputs)
            expected = oracle.run(inputs).outputs[0]
            # The softmax of the QDQ model is of floats; all that it sums is of integers.
            atol = 0 if expected.dtype == np.int8 else 2e-7
            np.testing.assert_allclose(result.outputs[0], expected, rtol=0, atol=atol)
            assert (result.instructions or 0) <= instructions
