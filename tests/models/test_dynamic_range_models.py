"""Float models with int8 weights: C on the host and on emulated cores has the reference's bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

import edgec
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.oracle.frameworks import open_oracle
from edgec.passes.fuse_groups import fuse_groups


def hybrid_model(path: Path) -> None:
    """Convolutions with scales by channel and for all, a depthwise one, both kinds of dense."""
    rng = np.random.default_rng(11)
    model = TfliteBuilder()

    def constants(shape: tuple[int, ...], axis: int, scales: int) -> list[int]:
        data = rng.integers(-127, 128, shape).astype(np.int8)
        scale = rng.uniform(0.001, 0.01, scales)
        bias = rng.normal(0, 1, shape[axis]).astype(np.float32)
        return [
            model.tensor("w", shape, "int8", scale=scale, axis=axis, data=data),
            model.tensor("b", bias.shape, "float32", data=bias),
        ]

    x = model.tensor("x", (1, 9, 5, 3), "float32")
    a = model.tensor("a", (1, 9, 5, 8), "float32")
    same = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    model.operator("CONV_2D", [x, *constants((8, 3, 3, 3), 0, 8)], [a], "Conv2DOptions",
                   **same, FusedActivationFunction=1)  # fmt: skip
    b = model.tensor("b", (1, 9, 5, 8), "float32")
    model.operator("DEPTHWISE_CONV_2D", [a, *constants((1, 3, 3, 8), 3, 8)], [b],
                   "DepthwiseConv2DOptions", **same, DepthMultiplier=1)  # fmt: skip
    c = model.tensor("c", (1, 9, 5, 5), "float32")
    model.operator("CONV_2D", [b, *constants((5, 1, 1, 8), 0, 1)], [c], "Conv2DOptions", **same)
    flat = model.tensor("flat", (3, 75), "float32")
    shape = model.tensor("shape", (2,), "int32", data=np.array([3, 75], np.int32))
    model.operator("RESHAPE", [c, shape], [flat])
    d = model.tensor("d", (3, 6), "float32")
    model.operator("FULLY_CONNECTED", [flat, *constants((6, 75), 0, 1)], [d],
                   "FullyConnectedOptions")  # fmt: skip
    y = model.tensor("y", (3, 4), "float32")
    model.operator("FULLY_CONNECTED", [d, *constants((4, 6), 0, 1)], [y],
                   "FullyConnectedOptions", AsymmetricQuantizeInputs=True)  # fmt: skip
    path.write_bytes(model.build([x], [y]))


def test_activations_join_the_rescaling(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    hybrid_model(path)
    groups = ["+".join(n.op.name for n in g.nodes) for g in fuse_groups(import_model(path).main)]
    assert groups.count("rescale_rows+clip") == 1
    assert "clip" not in groups


@pytest.mark.parametrize(
    ("board", "engine", "unfused"),
    [
        ("host", "host", False),
        ("host", "host", True),
        ("mps2_an386", "core", False),
        ("sim_m0", "core", False),
    ],
)
def test_same_bits_everywhere(board: str, engine: str, unfused: bool, tmp_path: Path) -> None:
    if engine == "core":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    path = tmp_path / "m.tflite"
    hybrid_model(path)
    function = import_model(path).main
    oracle = open_oracle(path, "litert")
    rng = np.random.default_rng(3)
    how = {"board": board, "engine": engine, "unfused": unfused, "float_sums": "ordered"}
    with edgec.compile(path, **how) as model:
        for size in (1.0, 100.0, 1e-3, 0.0):
            x = (rng.normal(0, 1, (1, 9, 5, 3)) * size).astype(np.float32)
            (mine,) = interpret(function, [x])
            assert model.run(x).tobytes() == mine.tobytes()
            # Five layers deep, a last bit can move a value to the next of 255 steps.
            (expected,) = oracle.run([x]).outputs
            assert np.abs(mine - expected).max() <= 0.02 * np.abs(expected).max()


@pytest.mark.parametrize(
    "name",
    [
        "dtln_1_drq.tflite",
        "dtln_2_drq.tflite",
        "mlperf_ad_autoencoder_drq.tflite",
        "mlperf_kws_dscnn_f32.tflite",  # its convolutions have int8 weights
    ],
)
def test_sample_models_are_close_to_litert(name: str, sample_model: Callable[[str], Path]) -> None:
    path = sample_model(name)
    function = import_model(path).main
    oracle = open_oracle(path, "litert")
    rng = np.random.default_rng(5)
    for _ in range(3):
        inputs = [rng.normal(0, 1, p.type.shape).astype(np.float32) for p in function.params]
        outputs = interpret(function, inputs)
        for mine, expected in zip(outputs, oracle.run(inputs).outputs, strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=2e-6)
