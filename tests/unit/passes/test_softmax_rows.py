"""Softmax of int8 on cores with DSP instructions: its microkernels."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.loop.microkernel import kernels_of
from edgec.ops.softmax import OUTPUT_QUANTS, SoftmaxAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

KERNELS = {"ec_largest_s8_dsp", "ec_sum_exponentials_s8_dsp", "ec_softmax_s8_dsp"}


@pytest.mark.parametrize(("shape", "dtype", "core", "options", "called"), [
    ((1, 300), "int8", "cortex-m4", Options(), True),
    ((1, 256), "int8", "cortex-m33", Options(no_asm=True), True),
    ((3, 5, 21), "int8", "cortex-m7", Options(optimize="time"), True),
    ((1, 301), "int8", "cortex-m55", Options(), True),
    ((1, 12), "int8", "cortex-m4", Options(optimize="time"), False),
    ((200, 7), "int8", "cortex-m4", Options(), False),
    ((200, 2), "int8", "cortex-m4", Options(), False),
    ((1, 300), "int16", "cortex-m4", Options(), False),
    ((1, 300), "int8", "cortex-m3", Options(), False),
    ((1, 300), "int8", "cortex-m4", Options(optimize="size"), False),
])  # fmt: skip
def test_rows_take_the_kernels(
    shape: tuple[int, ...], dtype: str, core: str, options: Options, called: bool
) -> None:
    """Rows that are not short, if not for size; loops stay beside them, and overlap alike."""
    b = GraphBuilder()
    x = b.param("x", TensorType(shape, "int8", Quant((0.06,), (3,))))
    attrs = SoftmaxAttrs(output=OUTPUT_QUANTS[dtype], dtype=dtype)
    function = b.finish([b.op("softmax", [x], attrs, name="rows")])
    (group,) = fuse_groups(function)
    found = lower_group(group, target_for(find_core(core), options)).variants
    kernels = [set(kernels_of(variant.function)) for variant in found]
    assert kernels == ([KERNELS, set()] if called else [set()])
    data = np.random.default_rng(prod(shape)).integers(-128, 128, shape).astype(np.int8)
    (expected,) = interpret(function, [data])
    for variant in found:
        assert not variant.scratch
        assert np.array_equal(
            run_loops(variant.function, dict(variant.constants, x=data))["out"], expected
        )
        if dtype == "int8":
            assert [distance for _, distance in variant.overlaps] == [0]
    if called:
        assert 2 * found[0].instructions < found[1].instructions
