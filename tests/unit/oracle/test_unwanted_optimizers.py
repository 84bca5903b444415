"""ONNX Runtime's optimizers that make another model than the file says do not run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder

from edgec.oracle.frameworks import open_oracle

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def test_float_weights_between_quantized_values_stay_float(tmp_path: Path) -> None:
    """As the quantizer leaves a transposed convolution of a U-Net."""
    model = OnnxBuilder(1, (1, 4, 5, 5))
    weights = model.rng.normal(0, 0.3, (4, 3, 2, 2)).astype(np.float32)
    bias = model.rng.normal(0, 0.1, 3).astype(np.float32)
    x = model.qdq("x", 0.05, -3)
    operands = [x, model.constant(weights, "w"), model.constant(bias, "b")]
    y = model.qdq(model.add("ConvTranspose", operands, strides=[2, 2]), 0.02, 5)
    path = model.save(y, tmp_path / "m.onnx")
    x = np.random.default_rng(2).normal(0, 2, (1, 4, 5, 5)).astype(np.float32)

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = onnxruntime.InferenceSession(
        path.read_bytes(), options, providers=["CPUExecutionProvider"]
    )
    (wanted,) = plain.run(None, {plain.get_inputs()[0].name: x})
    (found,) = open_oracle(path).run([x]).outputs
    np.testing.assert_array_equal(found, wanted)
