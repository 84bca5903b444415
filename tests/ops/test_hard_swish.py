"""hard_swish: TFLite Micro's int8 HARD_SWISH, every stored value at many scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from all_values import check_all_values
from quantized_cases import log_uniform, random_zero_point

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.hard_swish import HardSwish, HardSwishAttrs


@pytest.mark.parametrize("block", range(3))
def test_every_value_equals_tflm(block: int, tmp_path: Path) -> None:
    for seed in range(15 * block, 15 * block + 15):
        rng = np.random.default_rng(seed)
        scale = log_uniform(rng, 1e-3, 0.5)
        y = float(np.float32(scale * log_uniform(rng, 0.05, 2.0)))
        points = [random_zero_point(rng) for _ in range(2)]
        check_all_values("HARD_SWISH", (scale, points[0]), (y, points[1]), tmp_path)


def test_too_fine_an_output_is_refused() -> None:
    x = TensorType((2,), "int8", Quant((1.0,), (0,)))
    with pytest.raises(TypeMismatch, match="too small"):
        HardSwish().infer(HardSwishAttrs(Quant((1e-4,), (0,))), x)
