"""Products of two tensors on cores with DSP instructions and with MVE: their microkernels."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.loop.microkernel import kernels_of
from edgec.ops.mul import MulAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

FIRST, SECOND = Quant((0.05,), (-128,)), Quant((0.03,), (127,))
UNITS = {"cortex-m4": "dsp", "cortex-m55": "mve"}


@pytest.mark.parametrize("core", UNITS)
@pytest.mark.parametrize(("shapes", "attrs", "called"), [
    ([(1, 3, 5, 7), (1, 3, 5, 7)], MulAttrs(Quant((0.11,), (2,))), True),
    ([(1, 3, 5, 20), (1, 1, 1, 20)], MulAttrs(Quant((0.11,), (2,)), rounding="single"), True),
    ([(1, 1, 1, 20), (1, 3, 5, 20)], MulAttrs(Quant((0.1137,), (2,)), rounding="onnx"), True),
    ([(2, 3, 20), (20,)], MulAttrs(Quant((0.01,), (2,))), True),
    ([(1, 3, 5, 20), (1, 3, 5, 1)], MulAttrs(Quant((0.11,), (2,))), False),
    ([(1, 3, 5, 7), (1, 1, 1, 7)], MulAttrs(Quant((0.11,), (2,))), False),
    ([(1, 3, 5, 7), (1, 3, 5, 7)], MulAttrs(Quant((0.11,), (2,)), minimum=2), False),
    ([(1, 3, 5, 7), (1, 3, 5, 7)], MulAttrs(Quant((0.00201,), (2,))), False),
])  # fmt: skip
def test_products_take_kernels(
    core: str, shapes: list[tuple[int, ...]], attrs: MulAttrs, called: bool
) -> None:
    """Of one shape and of channels by a number each; not with limits or large factors."""
    b = GraphBuilder()
    types = zip(shapes, (FIRST, SECOND), strict=True)
    values = [b.param(f"x{n}", TensorType(s, "int8", q)) for n, (s, q) in enumerate(types)]
    function = b.finish([b.op("mul", values, attrs, name="product")])
    (group,) = fuse_groups(function)
    found = lower_group(group, target_for(find_core(core), Options())).variants
    kernel = "mul" if attrs.rounding == "tflm" else "mul_high"
    expected_calls = {f"ec_{kernel}_s8_{UNITS[core]}"} if called else set()
    assert kernels_of(found[0].function) == expected_calls
    rng = np.random.default_rng(4)
    data = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]
    (expected,) = interpret(function, data)
    for variant in found:
        names = [p.name for p in variant.function.params if p.name != "out"]
        got = run_loops(variant.function, dict(zip(names, data, strict=True)))["out"]
        assert np.array_equal(got, expected)
