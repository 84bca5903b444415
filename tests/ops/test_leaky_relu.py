"""leaky_relu: TFLite Micro's int8 and int16 LEAKY_RELU, every stored value at many scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from all_values import check_all_values
from one_operator import Operand, check_operator, one_operator
from quantized_cases import log_uniform, random_zero_point
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.leaky_relu import LeakyRelu, LeakyReluAttrs
from edgec.runners.samples import generate_inputs


@pytest.mark.parametrize("block", range(3))
def test_every_value_equals_tflm(block: int, tmp_path: Path) -> None:
    for seed in range(15 * block, 15 * block + 15):
        rng = np.random.default_rng(seed)
        x, y = ((log_uniform(rng, 1e-3, 0.1), random_zero_point(rng)) for _ in range(2))
        alpha = float(np.float32(rng.choice([0.3, 0.01, -0.5, 1.5])))
        check_all_values("LEAKY_RELU", x, y, tmp_path, "LeakyReluOptions", Alpha=alpha)


def test_int16_equals_litert(tmp_path: Path) -> None:
    """LiteRT computes factors in float32, which TFLite Micro's golden files show too."""
    for seed in range(25):
        rng = np.random.default_rng(seed)
        scale = log_uniform(rng, 1e-5, 1e-2)
        output = float(np.float32(scale * log_uniform(rng, 0.3, 3.0)))
        alpha = float(np.float32(rng.choice([0.0, 0.3, 0.01, 1.5, 0.2])))
        data = one_operator(
            "LEAKY_RELU",
            [Operand((2, 500), "int16", scale)],
            [Operand((2, 500), "int16", output)],
            "LeakyReluOptions",
            Alpha=alpha,
        )
        main = assert_same_bits(data, tmp_path, seeds=(seed,), reference="litert").main
        check_nests(main, generate_inputs(seed, [(main.params[0].type.shape, "int16")]))


def test_floats_equal_tflm_and_onnxruntime(tmp_path: Path) -> None:
    for alpha in (0.0, 0.3, 1.5):
        shape = (3, 40)
        data = one_operator(
            "LEAKY_RELU", [Operand(shape, "float32")], [Operand(shape, "float32")],
            "LeakyReluOptions", Alpha=alpha,
        )  # fmt: skip
        check_operator(data, tmp_path)
    x = np.random.default_rng(1).normal(0, 1, (3, 17)).astype(np.float32)
    x[0, :3] = 0.0, -0.0, -np.inf
    path = save_node(tmp_path / "m.onnx", "LeakyRelu", x, {}, alpha=0.15)
    check_nests(check_against_onnxruntime(path, x), [x])


def test_infer_refuses_what_has_no_meaning() -> None:
    quant = Quant((1.0,), (0,))
    with pytest.raises(TypeMismatch, match="too small"):
        tiny = Quant((1e-5,), (0,))
        LeakyRelu().infer(LeakyReluAttrs(0.1, tiny), TensorType((2,), "int16", quant))
    with pytest.raises(TypeMismatch, match="zero points of 0"):
        shifted = TensorType((2,), "int16", Quant((1.0,), (3,)))
        LeakyRelu().infer(LeakyReluAttrs(0.1, quant), shifted)
    with pytest.raises(TypeMismatch, match="needs int8"):
        LeakyRelu().infer(LeakyReluAttrs(0.1), TensorType((2,), "int8"))
