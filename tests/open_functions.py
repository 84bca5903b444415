"""Small functions whose batch is open."""

from __future__ import annotations

import numpy as np

import edgec.ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.extents import open_type
from edgec.graph.ir import Function, Value
from edgec.graph.operator import get_op
from edgec.graph.provenance import Origin
from edgec.graph.types import Array, Quant, TensorType
from edgec.numerics.term import Var
from edgec.ops.control import ScanAttrs, WhileAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.reshape import ReshapeAttrs

edgec.ops.load()

BATCH = Var("batch", 1, 9)
MOST = 8
_random = np.random.default_rng(3)
W1 = _random.normal(0, 0.4, (12, 10)).astype(np.float32)
W2 = _random.normal(0, 0.4, (10, 3)).astype(np.float32)
W3, W4 = _random.normal(0, 0.4, (2, 6, 6)).astype(np.float32)
ROW = TensorType((6,), "float32")
KERNEL = _random.integers(-90, 90, (8, 3, 3, 4)).astype(np.int8)
BIAS = _random.integers(-500, 500, 8).astype(np.int32)
QUANT = Quant((0.05,), (-3,))


def _plain(b: GraphBuilder, op: str, inputs: list[Value], name: str) -> Value:
    return b.op(op, inputs, get_op(op).attrs_class(), name=name)


def perceptron() -> Function:
    """[batch, 3, 4] floats, flattened, through two layers; also the mean of each row."""
    b = GraphBuilder()
    x = b.param("x", open_type("float32", BATCH, 3, 4))
    flat = b.op("reshape", [x], ReshapeAttrs((MOST, 12)), name="flat")
    hidden = _plain(b, "matmul", [flat, b.constant("w1", W1)], "hidden")
    hidden = _plain(b, "tanh", [hidden], "tanh")
    y = _plain(b, "matmul", [hidden, b.constant("w2", W2)], "y")
    mean = b.op("reduce", [y], ReduceAttrs((1,), "mean"), name="mean")
    return b.finish([y, mean])


def convolution() -> Function:
    """[batch, 6, 5, 4] int8 through a quantized convolution, as Cortex-M4's kernels run it."""
    b = GraphBuilder()
    whole = open_type("int8", BATCH, 6, 5, 4)
    x = b.param("x", TensorType(whole.shape, "int8", QUANT, whole.extents))
    kernel = b.constant("kernel", KERNEL, Quant((0.01,) * 8, (0,) * 8, 0))
    bias = b.constant("bias", BIAS, Quant((0.0005,) * 8, (0,) * 8, 0))
    attrs = Conv2dAttrs(padding=((1, 1), (1, 1)))
    acc = b.op("conv2d", [x, kernel, bias], attrs, name="acc")
    out = Quant((0.1,), (5,))
    narrow = RequantizeAttrs((0.005,) * 8, out, -128, 127, "tflm", "int8")
    return b.finish([b.op("requantize", [acc], narrow, name="y")])


ROWS = open_type("float32", BATCH, 6)


def _body(name: str, op: str, weights: Array, *, is_condition: bool = False) -> Function:
    """Rows times weights, and a function of them; or whether one of all is large."""
    b = GraphBuilder(name)
    x = b.param("x", ROWS)
    if is_condition:
        return b.finish([_is_large(b, x)])
    product = _plain(b, "matmul", [x, b.constant("weights", weights)], "product")
    origins = [Origin(op, (MOST, 6))]
    return b.finish([b.op(op, [product], get_op(op).attrs_class(), name=op, origins=origins)])


def _is_large(b: GraphBuilder, x: Value) -> Value:
    """Whether an element is above 0.7."""
    most = b.op("reduce", [x], ReduceAttrs((0, 1), "max"), name="most")
    return b.op("greater", [most, b.constant("limit", np.full((1, 1), 0.7, np.float32))], name="is")


def branch() -> Function:
    """[batch, 6] floats through one of two layers, as the largest element says."""
    b = GraphBuilder()
    x = b.param("x", ROWS)
    bodies = (_body("then", "tanh", W3), _body("otherwise", "abs", W4))
    return b.finish([b.node("if", [_is_large(b, x), x], name="choose", bodies=bodies).output])


def rounds() -> Function:
    """[batch, 6] floats through a layer until no element is large, or 9 times."""
    b = GraphBuilder()
    x = b.param("x", ROWS)
    bodies = (_body("is_large", "abs", W3, is_condition=True), _body("round", "tanh", W3))
    return b.finish([b.node("while", [x], WhileAttrs(1, 9), name="repeat", bodies=bodies).output])


def recurrent() -> Function:
    """Of [batch, 6] floats the sums of the rows up to each, as tanh keeps them small."""
    b = GraphBuilder("step")
    before, row = b.param("before", ROW), b.param("row", ROW)
    after = _plain(b, "tanh", [_plain(b, "add", [before, row], "sum")], "after")
    step = b.finish([after, after])
    b = GraphBuilder()
    start = b.constant("start", np.zeros(6, np.float32))
    given = [start, b.param("x", ROWS)]
    return b.finish(
        b.node("scan", given, ScanAttrs(MOST, 1, 1), name="sums", bodies=(step,)).outputs[1:]
    )


CASES = {"perceptron": perceptron, "convolution": convolution}
#: Functions with bodies, whose time is up to the data.
CONTROL = {"branch": branch, "rounds": rounds, "recurrent": recurrent}
ALL = {**CASES, **CONTROL}
