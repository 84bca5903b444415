"""Which nodes run as one function, by what the core has kernels for."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function
from edgec.graph.types import Quant, TensorType
from edgec.loop.microkernel import kernels_of
from edgec.numerics.fixed_point import Rounding
from edgec.ops.dense import Dense
from edgec.ops.quantize import Dequantize
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Optimize, Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

QUANT = Quant((0.05,), (-3,))
ALONE = [("dense", "requantize"), ("dequantize",)]
TOGETHER = [("dense", "requantize", "dequantize")]


def last_layer(channels: int, rounding: Rounding) -> Function:
    """A dense layer whose result leaves as floats."""
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 1280), "int8", QUANT))
    w = b.constant("w", np.ones((channels, 1280), np.int8), Quant((0.1,), (0,)))
    bias = b.constant("bias", np.zeros(channels, np.int32))
    acc = b.op(Dense(), [x, w, bias], name="dense")
    result = b.op(
        "requantize", [acc], RequantizeAttrs((0.001,), QUANT, -128, 127, rounding), name="q"
    )
    return b.finish([b.op(Dequantize(), [result], name="floats")])


@pytest.mark.parametrize(
    ("core", "channels", "rounding", "optimize", "expected"),
    [
        ("cortex-m4", 8, "tflm", "time", ALONE),
        ("cortex-m4", 8, "onnx", "time", ALONE),
        ("cortex-m55", 8, "tflm", "time", ALONE),
        ("cortex-m4", 2, "tflm", "time", TOGETHER),  # too small
        ("cortex-m3", 8, "tflm", "time", TOGETHER),
        ("cortex-m4", 8, "tflm", "balanced", TOGETHER),
    ],
)
def test_products_stay_alone(
    core: str,
    channels: int,
    rounding: Rounding,
    optimize: Optimize,
    expected: list[tuple[str, ...]],
) -> None:
    policy = target_for(find_core(core), Options(optimize=optimize))
    groups = fuse_groups(last_layer(channels, rounding), is_whole=policy.is_whole)
    assert [tuple(node.op.name for node in group.nodes) for group in groups] == expected
    kernels = [kernels_of(v.function) for v in lower_group(groups[0], policy).variants]
    assert any(kernels) == (len(expected) > 1)
