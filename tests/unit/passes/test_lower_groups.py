"""Groups become loops: what a menu promises, whatever its schedules."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.types import TensorType
from edgec.loop.ir import Load, Store
from edgec.loop.rewrite import subexpressions, walk
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import Target


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "x86_64"])
@pytest.mark.parametrize("operator", ["conv2d", "depthwise_conv2d"])
@pytest.mark.parametrize("dilation", [1, 2, 5])
def test_sums_stay_in_registers_where_nothing_follows_them(
    operator: str, core: str, dilation: int
) -> None:
    """And so does what is read for them: of inputs one at a time, wherever the window lies."""
    builder = GraphBuilder()
    x = builder.param("x", TensorType((1, 6, 6, 8), "float32"))
    shape = (12, 3, 3, 8) if operator == "conv2d" else (3, 3, 8)
    channels = shape[0] if operator == "conv2d" else shape[2]
    weights = builder.constant("w", np.ones(shape, np.float32))
    bias = builder.constant("bias", np.zeros(channels, np.float32))
    padding = ((dilation, dilation), (dilation, dilation))
    kind = Conv2dAttrs if operator == "conv2d" else DepthwiseConv2dAttrs
    attrs = kind(dilation=(dilation, dilation), padding=padding)
    function = builder.finish([builder.op(operator, [x, weights, bias], attrs, name="sums")])
    (group,) = fuse_groups(function)
    for variant in lower_group(group, Target(find_core(core), Options())).variants:
        for buffer in variant.function.allocs:
            if buffer.scope == "register":
                assert buffer.elements <= 4, buffer.name
        for stmt, _ in walk(variant.function.body):
            if not isinstance(stmt, Store):
                continue
            loaded = {p.buffer.name for p in subexpressions(stmt.value) if isinstance(p, Load)}
            assert "out" not in loaded
