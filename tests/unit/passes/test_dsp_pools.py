"""Pools on a core with DSP instructions: their microkernels, which mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import Quant, TensorType
from edgec.loop.interpret import interpret as run_loops
from edgec.loop.microkernel import kernels_of
from edgec.ops.avg_pool2d import AvgPool2dAttrs
from edgec.ops.max_pool2d import MaxPool2dAttrs
from edgec.ops.reduce import ReduceAttrs
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.passes.row_functions import row_sum
from edgec.targets.core import find_core
from edgec.targets.target import target_for

QUANT = Quant((0.05,), (-3,))
M4 = target_for(find_core("cortex-m4"), Options())
NONE = ((0, 0), (0, 0))


def one_node(op: str, shape: tuple[int, ...], attrs: object) -> Function:
    b = GraphBuilder()
    x = b.param("x", TensorType(shape, "int8", QUANT))
    return b.finish([b.op(op, [x], attrs, name="pool")])


def check(function: Function, kernel: str) -> None:
    """The first variant is one call of the kernel, if any; all give what the graph means."""
    (group,) = fuse_groups(function)
    found = lower_group(group, M4).variants
    assert kernels_of(found[0].function) == ({kernel} if kernel else set())
    assert not kernels_of(found[-1].function), "there is a way without code of kernels"
    rng = np.random.default_rng(4)
    for low, high in ((-128, 128), (126, 128), (-128, -126)):
        x = rng.integers(low, high, function.params[0].type.shape).astype(np.int8)
        (expected,) = interpret(function, [x])
        for variant in found:
            got = run_loops(variant.function, {"x": x, **variant.constants})["out"]
            assert np.array_equal(got, expected)


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "called"), [
    ((1, 6, 8, 8), (2, 2), (2, 2), NONE, True),
    ((1, 7, 4, 24), (3, 1), (1, 3), NONE, True),
    ((1, 5, 5, 16), (5, 5), (1, 1), NONE, True),
    ((1, 4, 2, 8), (2, 2), (2, 2), NONE, True),
    ((1, 5, 5, 10), (5, 5), (1, 1), NONE, False),
    ((1, 6, 8, 8), (3, 3), (2, 2), ((1, 1), (1, 1)), False),
    ((1, 16, 16, 8), (16, 16), (1, 1), NONE, False),
])  # fmt: skip
def test_means(
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[tuple[int, int], tuple[int, int]],
    called: bool,
) -> None:
    """Whole windows of up to 255 elements, of channels by four."""
    attrs = AvgPool2dAttrs(kernel, stride, padding, QUANT, minimum=-100, maximum=127)
    check(one_node("avg_pool2d", shape, attrs), "ec_mean_s8_dsp" if called else "")


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "called"), [
    ((1, 6, 8, 20), (3, 3), (2, 2), NONE, True),
    ((1, 7, 4, 4), (3, 1), (1, 3), NONE, True),
    ((1, 6, 8, 3), (2, 2), (2, 2), NONE, False),
    ((1, 6, 8, 20), (3, 3), (2, 2), ((1, 1), (1, 1)), False),
])  # fmt: skip
def test_maxima(
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[tuple[int, int], tuple[int, int]],
    called: bool,
) -> None:
    """Whole windows, of channels by four."""
    attrs = MaxPool2dAttrs(kernel, stride, padding, minimum=-50, maximum=100)
    check(one_node("max_pool2d", shape, attrs), "ec_max_pool_s8_dsp" if called else "")


@pytest.mark.parametrize(("shape", "axes", "called"), [
    ((1, 17, 16, 16), (1, 2), True),
    ((1, 1, 9, 8), (1, 2), True),
    ((1, 6, 5, 12), (1, 2), False),
    ((1, 6, 5, 8), (1,), False),
])  # fmt: skip
def test_reductions_of_images(shape: tuple[int, ...], axes: tuple[int, ...], called: bool) -> None:
    """Sums over all rows and columns, of channels by eight."""
    kernel = "ec_sum_channels_s8_dsp" if called else ""
    for kind in ("mean", "sum"):
        attrs = ReduceAttrs(axes, kind, Quant((0.07,), (5,)))
        check(one_node("reduce", shape, attrs), kernel)


@pytest.mark.parametrize(("channels", "called"), [(24, True), (20, False)])
def test_rows_that_are_added_up(channels: int, called: bool) -> None:
    """A mean over an image that comes row by row; the totals lie where they were."""
    attrs = AvgPool2dAttrs((3, 5), (1, 1), output=QUANT)
    function = one_node("avg_pool2d", (1, 3, 5, channels), attrs)
    (group,) = fuse_groups(function)
    found = row_sum(group, M4)
    assert found is not None
    assert kernels_of(found.add) == ({"ec_add_channels_s8_dsp"} if called else set())
    x = np.random.default_rng(5).integers(-128, 128, (1, 3, 5, channels)).astype(np.int8)
    total = run_loops(found.start, {})["out"]
    for row in range(3):
        total = run_loops(found.add, {"x": x[:, row : row + 1], "total": total})["out"]
    (expected,) = interpret(function, [x])
    assert np.array_equal(run_loops(found.finish, {"total": total})["out"], expected)
