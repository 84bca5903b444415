"""leaky_relu: TFLite Micro's int8 LEAKY_RELU, every stored value at many scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from all_values import check_all_values
from quantized_cases import log_uniform, random_zero_point

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.leaky_relu import LeakyRelu, LeakyReluAttrs


@pytest.mark.parametrize("block", range(3))
def test_every_value_equals_tflm(block: int, tmp_path: Path) -> None:
    for seed in range(15 * block, 15 * block + 15):
        rng = np.random.default_rng(seed)
        x, y = ((log_uniform(rng, 1e-3, 0.1), random_zero_point(rng)) for _ in range(2))
        alpha = float(np.float32(rng.choice([0.3, 0.01, -0.5, 1.5])))
        check_all_values("LEAKY_RELU", x, y, tmp_path, "LeakyReluOptions", Alpha=alpha)


def test_infer_refuses_what_has_no_meaning() -> None:
    with pytest.raises(TypeMismatch, match="needs int8"):
        LeakyRelu().infer(LeakyReluAttrs(0.1), TensorType((2,), "int8"))
