"""Sums of two tensors on cores with DSP instructions: their microkernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.loop.microkernel import kernels_of
from edgec.ops.add import AddAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

FIRST, SECOND, OUTPUT = Quant((0.05,), (-128,)), Quant((0.03,), (127,)), Quant((0.061,), (2,))


@pytest.mark.parametrize(("op", "shapes", "attrs", "called"), [
    ("add", [(1, 9, 8, 8), (1, 9, 8, 8)], AddAttrs(OUTPUT), True),
    ("sub", [(1, 9, 8, 8), (1, 9, 8, 8)], AddAttrs(OUTPUT, rounding="single"), True),
    ("add", [(32, 16), (32, 16)], AddAttrs(OUTPUT, rounding="onnx"), True),
    ("add", [(1, 5, 7, 20), (1, 1, 1, 20)], AddAttrs(Quant((0.03,), (-128,))), True),
    ("sub", [(1, 1, 1, 20), (1, 5, 7, 20)], AddAttrs(OUTPUT), True),
    ("add", [(1, 5, 7, 20), (1, 5, 7, 1)], AddAttrs(OUTPUT), False),
    ("add", [(1, 9, 8, 8), (1, 1, 1, 8)], AddAttrs(OUTPUT), False),
    ("add", [(1, 9, 8, 18), (1, 1, 1, 18)], AddAttrs(OUTPUT), False),
    ("add", [(1, 9, 9, 7), (1, 9, 9, 7)], AddAttrs(OUTPUT), False),
    ("add", [(1, 8, 8, 4), (1, 8, 8, 4)], AddAttrs(OUTPUT), False),
    ("add", [(1, 9, 8, 8), (1, 9, 8, 8)], AddAttrs(OUTPUT, minimum=2), False),
])  # fmt: skip
def test_sums_take_the_kernel(
    op: str, shapes: list[tuple[int, ...]], attrs: AddAttrs, called: bool
) -> None:
    """Words of one shape, or of channels by a number each; no limits, not few. Loops stay, too."""
    b = GraphBuilder()
    types = zip(shapes, (FIRST, SECOND), strict=True)
    values = [b.param(f"x{n}", TensorType(s, "int8", q)) for n, (s, q) in enumerate(types)]
    function = b.finish([b.op(op, values, attrs, name="sum")])
    (group,) = fuse_groups(function)
    found = lower_group(group, target_for(find_core("cortex-m4"), Options())).variants
    kernels = [kernels_of(variant.function) for variant in found]
    assert kernels == ([{"ec_add_s8_dsp"}, set()] if called else [set()])
    rng = np.random.default_rng(4)
    data = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]
    (expected,) = interpret(function, data)
    for variant in found:
        names = [p.name for p in variant.function.params if p.name != "out"]
        got = run_loops(variant.function, dict(zip(names, data, strict=True)))["out"]
        assert np.array_equal(got, expected)
    if called and shapes[0] == shapes[1]:
        assert sorted(distance for _, distance in found[0].overlaps) == [0, 0]


def test_a_sum_with_itself_is_right() -> None:
    """One parameter in both places."""
    b = GraphBuilder()
    x = b.param("x", TensorType((2, 400), "int8", FIRST))
    function = b.finish([b.op("add", [x, x], AddAttrs(OUTPUT), name="sum")])
    (group,) = fuse_groups(function)
    data = np.random.default_rng(5).integers(-128, 128, (2, 400)).astype(np.int8)
    (expected,) = interpret(function, [data])
    for variant in lower_group(group, target_for(find_core("cortex-m4"), Options())).variants:
        assert np.array_equal(run_loops(variant.function, {"x": data})["out"], expected)


def test_few_elements_of_a_row_take_the_kernel() -> None:
    """It runs once for every row."""
    b = GraphBuilder()
    values = [b.param(name, TensorType((1, 1, 8, 4), "int8", FIRST)) for name in "ab"]
    function = b.finish([b.op("add", values, AddAttrs(OUTPUT), name="sum")])
    (group,) = fuse_groups(function)
    policy = target_for(find_core("cortex-m4"), Options())
    (alone,) = lower_group(group, policy).variants
    row, _ = lower_group(group, replace(policy, in_rows=True)).variants
    assert (kernels_of(alone.function), kernels_of(row.function)) == (set(), {"ec_add_s8_dsp"})
