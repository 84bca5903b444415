"""Filters over time: which microkernels they take on which cores, and that they mean the same."""

from __future__ import annotations

import numpy as np
import pytest

import edgec.ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.loop.microkernel import kernels_of
from edgec.ops.requantize import RequantizeAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

edgec.ops.load()

UNITS = 5


@pytest.mark.parametrize(("core", "dtype", "rank", "length", "called"), [
    ("cortex-m4", "int8", 1, 8, "s8_dsp"), ("cortex-m4", "int8", 2, 6, "s8_dsp"),
    ("cortex-m4", "int8", 1, 6, ""), ("cortex-m4", "int16", 1, 6, "s16_dsp"),
    ("cortex-m4", "int16", 1, 3, ""), ("cortex-m55", "int8", 1, 7, "s8_mve"),
    ("cortex-m55", "int16", 2, 3, "s16_mve"), ("cortex-m3", "int8", 1, 8, ""),
    ("cortex-m4", "int8", 1, 1, ""),
])  # fmt: skip
def test_products_over_time(core: str, dtype: str, rank: int, length: int, called: str) -> None:
    rng = np.random.default_rng(length)
    filters = UNITS * rank
    info = np.iinfo(dtype)
    b = GraphBuilder()
    memory = b.param("memory", TensorType((1, filters * length), dtype, Quant((0.1,), (0,))))
    time = b.constant("time", rng.integers(info.min, info.max, (filters, length)).astype(dtype))
    bias = b.constant("bias", rng.integers(-(1 << 31), 1 << 31, UNITS).astype(np.int32))
    acc = b.op("svdf_time", [memory, time, bias], name="time")
    attrs = RequantizeAttrs((3e-8,), Quant((0.1,), (7,)), -128, 127, "tflm")
    function = b.finish([b.op("requantize", [acc], attrs, name="y")])
    (group,) = fuse_groups(function)
    found = lower_group(group, target_for(find_core(core), Options())).variants
    expected_calls = {f"ec_svdf_time_{called}"} if called else set()
    assert kernels_of(found[0].function) == expected_calls
    assert not kernels_of(found[-1].function), "there is a way without code of kernels"
    x = rng.integers(info.min, info.max + 1, memory.type.shape).astype(dtype)
    (expected,) = interpret(function, [x])
    for variant in found:
        got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
        assert np.array_equal(got, expected)


@pytest.mark.parametrize(("core", "calls"), [("cortex-m3", True), ("cortex-m0", False)])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize(("filters", "length"), [(5, 7), (1, 7), (5, 1), (1, 1)])
def test_memories_move_in_words(
    core: str, calls: bool, dtype: str, filters: int, length: int
) -> None:
    """Where words need no alignment; a memory of one value does not move."""
    b = GraphBuilder()
    quant = Quant((0.1,), (0,))
    types = [TensorType((1, filters * length), dtype, quant), TensorType((1, filters), dtype)]
    memory, feature = (b.param(n, t) for n, t in zip(("memory", "feature"), types, strict=True))
    function = b.finish([b.op("svdf_push", [memory, feature], name="push")])
    (group,) = fuse_groups(function)
    found = lower_group(group, target_for(find_core(core), Options())).variants
    kernel = f"ec_shift_down_s{np.iinfo(dtype).bits}"
    moves = calls and filters * length > 1
    assert kernels_of(found[0].function) == ({kernel} if moves else set())
    rng = np.random.default_rng(1)
    data = [rng.integers(-128, 128, t.shape).astype(dtype) for t in types]
    (expected,) = interpret(function, data)
    for variant in found:
        got = run_loops(variant.function, {"x": data[0], "x2": data[1]})["out"]
        assert np.array_equal(got, expected)
        assert dict(variant.overlaps)[memory] <= 0, "the memory may move where it is"
