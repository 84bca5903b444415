"""Float inputs and comparisons with TFLite's interpreters, within a tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tflite_builder import TfliteBuilder

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.verify import verify_module
from edgec.oracle.frameworks import open_oracle


def float_values(shape: Sequence[int], *, positive: bool = False, seed: int = 3) -> np.ndarray:
    """Numbers of many magnitudes up to about 30, of both signs unless `positive`."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=tuple(shape)) * np.exp2(rng.uniform(-8, 3, tuple(shape)))
    return (np.abs(values) + 1e-4 if positive else values).astype(np.float32)


def assert_near_tflite(
    path: Path, inputs: Sequence[np.ndarray], tolerance: float, reference: str = "tflm"
) -> Function:
    """Assert that outputs differ from TFLite's by at most a part of their largest magnitude."""
    module = import_model(path)
    verify_module(module)
    outputs = interpret(module.main, inputs)
    for mine, wanted in zip(outputs, open_oracle(path, reference).run(inputs).outputs, strict=True):
        most = float(np.abs(wanted).max(initial=0))
        np.testing.assert_allclose(mine, wanted, rtol=0, atol=tolerance * most, strict=True)
    return module.main


def float_network(path: Path) -> Path:
    """A TFLite file of two dense layers, the first with a ReLU, and a softmax."""
    model = TfliteBuilder()
    rng = np.random.default_rng(1)
    value = model.tensor("x", (1, 8), "float32")
    first = value
    for number, width in enumerate((16, 4)):
        depth = (8, 16)[number]
        weights = rng.normal(size=(width, depth)).astype(np.float32)
        w = model.tensor(f"w{number}", weights.shape, "float32", data=weights)
        out = model.tensor(f"dense{number}", (1, width), "float32")
        model.operator(
            "FULLY_CONNECTED", [value, w], [out], "FullyConnectedOptions",
            FusedActivationFunction=1 - number,
        )  # fmt: skip
        value = out
    last = model.tensor("y", (1, 4), "float32")
    model.operator("SOFTMAX", [value], [last], "SoftmaxOptions", Beta=1.0)
    path.write_bytes(model.build([first], [last]))
    return path
