"""INT4 weights: TFLite Micro's bits, and half the bytes."""

from __future__ import annotations

import numpy as np
import pytest
from against_tflm import assert_same_bits
from test_conv2d import conv2d_model
from test_dense import dense_model
from test_depthwise_conv2d import depthwise_model

import edgec
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core

MODELS = {"conv2d": conv2d_model, "dense": dense_model, "depthwise": depthwise_model}


@pytest.mark.parametrize("kind", MODELS)
def test_random_layers_equal_tflm(kind: str, tmp_path) -> None:
    for seed in range(60):
        assert_same_bits(MODELS[kind](seed, weight_bits=4), tmp_path)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("board", ["host", "sim_m0", "mps2_an386"])
def test_emitted_c_equals_tflm(kind: str, board: str, tmp_path) -> None:
    if board != "host":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    for seed in range(4):
        path = tmp_path / f"{kind}{seed}.tflite"
        path.write_bytes(MODELS[kind](seed, weight_bits=4))
        oracle = open_oracle(path)
        engine = "host" if board == "host" else "core"
        with edgec.compile(path, board=board, engine=engine, compiler="clang") as model:
            (port,) = model.built.manifest.inputs
            for x in (generate_inputs(number, [(port.shape, port.dtype)]) for number in range(3)):
                (want,) = oracle.run(x).outputs
                np.testing.assert_array_equal(model.run(*x), want, strict=True)


def test_weights_of_plain_loops_take_half_the_bytes(tmp_path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model(3, weight_bits=4))
    compiled = compile_model(path, find_core("cortex-m0"))
    (elements,) = (
        v.type.elements for v in compiled.imported.main.constants() if v.type.dtype == "int8"
    )
    (variant,) = compiled.chosen
    assert elements > 100
    assert variant.constants["w"].nbytes == -(-elements // 2)
