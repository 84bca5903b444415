"""What operators say of their channels and of permutations is true of what they compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Node, Value
from edgec.graph.traits import Channels
from edgec.graph.types import Array, Quant, TensorType
from edgec.ops.add import Add, AddAttrs
from edgec.ops.avg_pool2d import AvgPool2d, AvgPool2dAttrs
from edgec.ops.concat import Concat, ConcatAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2d, DepthwiseConv2dAttrs
from edgec.ops.max_pool2d import MaxPool2d, MaxPool2dAttrs
from edgec.ops.pad import Pad, PadAttrs
from edgec.ops.reduce import Reduce, ReduceAttrs
from edgec.ops.requantize import Requantize, RequantizeAttrs
from edgec.ops.reshape import Reshape, ReshapeAttrs
from edgec.ops.resize import Resize, ResizeAttrs
from edgec.ops.slice import Slice, SliceAttrs
from edgec.ops.softmax import Softmax, SoftmaxAttrs
from edgec.ops.transpose import Transpose, TransposeAttrs
from edgec.passes.channels import channels_of

SHAPE = (1, 3, 4, 5)
QUANT = Quant((0.5,), (0,))
#: Builds a node on two values of SHAPE; most read the first alone.
Build = Callable[[GraphBuilder, Value, Value], Value]


def _depthwise(builder: GraphBuilder, x: Value, _: Value) -> Value:
    weights = builder.constant("w", np.arange(1, 21, dtype=np.float32).reshape(2, 2, 5))
    bias = builder.constant("b", np.ones(5, np.float32))
    attrs = DepthwiseConv2dAttrs((1, 1), (1, 1), ((1, 0), (1, 0)))
    return builder.op(DepthwiseConv2d, [x, weights, bias], attrs, name="y")


def _of(op: type, attrs: object, both: bool = False) -> Build:
    def build(builder: GraphBuilder, a: Value, b: Value) -> Value:
        return builder.op(op, [a, b] if both else [a], attrs, name="y")

    return build


REQUANTIZED = RequantizeAttrs((0.5, 1.0, 2.0, 3.0, 4.0), QUANT, -128, 127, "onnx")
CASES: dict[str, tuple[str, Build, Channels]] = {
    "sum": ("float32", _of(Add, AddAttrs(), both=True), Channels.SAME),
    "mean": ("float32", _of(AvgPool2d, AvgPool2dAttrs((2, 2), (1, 1))), Channels.SAME),
    "largest": ("float32", _of(MaxPool2d, MaxPool2dAttrs((2, 2), (1, 1))), Channels.SAME),
    "depthwise": ("float32", _depthwise, Channels.SAME),
    "rows": ("float32", _of(Reduce, ReduceAttrs((1,), "sum")), Channels.SAME),
    "all": ("float32", _of(Reduce, ReduceAttrs((3,), "sum")), Channels.UNKNOWN),
    "resized": ("float32", _of(Resize, ResizeAttrs((6, 8), "bilinear")), Channels.SAME),
    "padded": ("float32", _of(Pad, PadAttrs(((0, 0), (1, 0), (0, 2), (0, 0)))), Channels.SAME),
    "wider": ("float32", _of(Pad, PadAttrs(((0, 0),) * 3 + ((1, 1),))), Channels.UNKNOWN),
    "joined": ("float32", _of(Concat, ConcatAttrs(3), both=True), Channels.JOINED),
    "stacked": ("float32", _of(Concat, ConcatAttrs(1), both=True), Channels.SAME),
    "flat": ("float32", _of(Reshape, ReshapeAttrs((1, 60))), Channels.REPEATED),
    "softmax": ("float32", _of(Softmax, SoftmaxAttrs()), Channels.UNKNOWN),
    "requantized": ("int32", _of(Requantize, REQUANTIZED), Channels.SAME),
}  # fmt: skip


def _function(dtype: str, build: Build) -> tuple[Function, Node]:
    ops.load()
    builder = GraphBuilder()
    a, b = (builder.param(name, TensorType(SHAPE, dtype)) for name in ("a", "b"))
    function = builder.finish([build(builder, a, b)])
    return function, function.nodes[-1]


def _changed(before: Array, after: Array) -> set[int]:
    axes = tuple(range(before.ndim - 1))
    return {int(c) for c in np.flatnonzero(np.any(before != after, axis=axes))}


@pytest.mark.parametrize("case", CASES)
def test_a_channel_changes_those_that_depend_on_it(case: str) -> None:
    dtype, build, relation = CASES[case]
    function, node = _function(dtype, build)
    assert channels_of(node) is relation
    rng = np.random.default_rng(7)
    inputs = [rng.integers(-40, 40, SHAPE).astype(dtype) for _ in range(2)]
    (before,) = interpret(function, inputs)
    for number in range(len(node.activations)):
        for channel in range(SHAPE[-1]):
            other = [array.copy() for array in inputs]
            other[number][..., channel] += 50
            (after,) = interpret(function, other)
            found = _changed(before, after)
            expected = {
                Channels.SAME: {channel},
                Channels.JOINED: {channel + number * SHAPE[-1]},
                Channels.REPEATED: set(range(channel, before.shape[-1], SHAPE[-1])),
            }.get(relation)
            assert found and (expected is None or found == expected)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        (Concat, ConcatAttrs(2)),
        (Pad, PadAttrs(((0, 0), (1, 0), (0, 2), (3, 1)), 4.0)),
        (Slice, SliceAttrs((0, 1, 2, 0), (1, 1, -1, 2), (1, 3, 2, 2))),
        (Reduce, ReduceAttrs((1, 3), "max")),
    ],
)  # fmt: skip
def test_attributes_before_a_transpose_give_what_those_behind_it_give(
    op: type, attrs: object
) -> None:
    """op(transpose(x)) is transpose(op'(x))."""
    ops.load()
    order = (0, 3, 1, 2)
    moved = TransposeAttrs(order)
    behind, before = GraphBuilder(), GraphBuilder()
    first = behind.op(Transpose, [behind.param("x", TensorType(SHAPE, "float32"))], moved, name="t")
    wanted = behind.finish([behind.op(op, [first], attrs, name="y")])
    renamed = wanted.nodes[-1].op.attrs_for_permutation(attrs, order)
    made = before.op(op, [before.param("x", TensorType(SHAPE, "float32"))], renamed, name="y")
    found = before.finish([before.op(Transpose, [made], moved, name="t")])
    x = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
    np.testing.assert_array_equal(interpret(found, [x])[0], interpret(wanted, [x])[0])
