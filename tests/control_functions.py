"""Small functions with control flow, and what numpy makes of the same inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import edgec.ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.operator import get_op
from edgec.graph.provenance import Origin
from edgec.graph.types import Array, TensorType
from edgec.ops.cast import CastAttrs
from edgec.ops.control import ScanAttrs, WhileAttrs

edgec.ops.load()

FLAG = TensorType((1,), "int32")
UNITS = 6
ROW = TensorType((1, UNITS), "float32")
STEPS = 5
#: Rounds of every loop that data end, at most.
LIMIT = 9

_random = np.random.default_rng(7)
W = _random.normal(0, 0.5, (UNITS, UNITS)).astype(np.float32)
U = _random.normal(0, 0.5, (UNITS, UNITS)).astype(np.float32)


def apply(b: GraphBuilder, op: str, inputs: Sequence[Value], name: str) -> Value:
    """An operator with its default attributes; what it makes stands for a tensor of its name."""
    operator = get_op(op)
    (type_,) = operator.infer(operator.attrs_class(), *(value.type for value in inputs))
    origins = [Origin(name, type_.shape)]
    return b.op(op, inputs, operator.attrs_class(), name=name, origins=origins)


def add_one(b: GraphBuilder, x: Value, amount: int, name: str) -> Value:
    """An int32 and a constant."""
    return apply(
        b, "int_add", [x, b.constant(f"{name}.by", np.array([amount], np.int32))], name=name
    )


def product(b: GraphBuilder, x: Value, weights: Array, name: str) -> Value:
    """x @ weights."""
    return apply(b, "matmul", [x, b.constant(f"{name}.weights", weights)], name=name)


def twice() -> Function:
    """x + x."""
    b = GraphBuilder("twice")
    x = b.param("x", ROW)
    return b.finish([apply(b, "add", [x, x], name="double")])


def squared() -> Function:
    """x * x, in two nodes."""
    b = GraphBuilder("squared")
    x = b.param("x", ROW)
    away = apply(b, "abs", [x], name="away")
    return b.finish([apply(b, "mul", [away, away], name="square")])


def branch() -> Function:
    """2 x where the flag is set, else x * x; then tanh of it."""
    b = GraphBuilder()
    flag, x = b.param("flag", FLAG), b.param("x", ROW)
    (y,) = b.node("if", [flag, x], name="choose", bodies=(twice(), squared())).outputs
    return b.finish([apply(b, "tanh", [y], name="y")])


def countdown() -> Function:
    """As long as there is something to count: the condition is what is carried."""
    b = GraphBuilder("is_left")
    left = b.param("left", FLAG)
    b.param("h", ROW)
    b.param("x", ROW)
    return b.finish([left])


def decode_step() -> Function:
    """h' = tanh(h W + x), left' = left - 1."""
    b = GraphBuilder("step")
    left, h, x = b.param("left", FLAG), b.param("h", ROW), b.param("x", ROW)
    after = apply(
        b, "tanh", [apply(b, "add", [product(b, h, W, "hw"), x], name="sum")], name="after"
    )
    return b.finish([add_one(b, left, -1, "left_after"), after])


def decoder() -> Function:
    """A loop whose number of rounds is an input: it ends as soon as nothing is left."""
    b = GraphBuilder()
    left, x = b.param("left", FLAG), b.param("x", ROW)
    start = b.constant("start", np.zeros((1, UNITS), np.float32))
    node = b.node(
        "while",
        [left, start, x],
        WhileAttrs(2, limit=LIMIT),
        name="decode",
        bodies=(countdown(), decode_step()),
    )
    return b.finish([node.outputs[1], node.outputs[0]])


def recurrent_step() -> Function:
    """h' = tanh(h W + x U); the step's output is h'."""
    b = GraphBuilder("step")
    h, x = b.param("h", ROW), b.param("x", ROW)
    total = apply(b, "add", [product(b, h, W, "hw"), product(b, x, U, "xu")], name="sum")
    after = apply(b, "tanh", [total], name="after")
    return b.finish([after, after])


def recurrent() -> Function:
    """An RNN by scan: the last hidden value, and the hidden values of all steps."""
    b = GraphBuilder()
    xs = b.param("xs", TensorType((STEPS, 1, UNITS), "float32"))
    start = b.param("start", ROW)
    attrs = ScanAttrs(steps=STEPS, carried=1, scanned=1)
    node = b.node("scan", [start, xs], attrs, name="rnn", bodies=(recurrent_step(),))
    return b.finish(node.outputs)


def called() -> Function:
    """A function called twice, and inside a call."""
    b = GraphBuilder("outer")
    x = b.param("x", ROW)
    inner = b.node("call", [x], name="inner", bodies=(twice(),)).output
    outer = b.finish([apply(b, "tanh", [inner], name="tanh")])
    b = GraphBuilder()
    x = b.param("x", ROW)
    first = b.node("call", [x], name="first", bodies=(outer,)).output
    return b.finish([b.node("call", [first], name="second", bodies=(outer,)).output])


def exchange_step() -> Function:
    """Two values that change places, and a counter."""
    b = GraphBuilder("exchange")
    left, p, q = b.param("left", FLAG), b.param("p", ROW), b.param("q", ROW)
    return b.finish([add_one(b, left, -1, "left_after"), q, p])


def exchange() -> Function:
    """A loop that must copy: each carried value becomes the other one."""
    b = GraphBuilder()
    left, p, q = b.param("left", FLAG), b.param("p", ROW), b.param("q", ROW)
    node = b.node(
        "while", [left, p, q], WhileAttrs(3, limit=LIMIT), name="exchange",
        bodies=(countdown(), exchange_step()),
    )  # fmt: skip
    return b.finish(node.outputs[1:])


def nested_step() -> Function:
    """left' = left - 1; h' = the branch that the lowest bit of left chooses."""
    b = GraphBuilder("step")
    left, h, x = b.param("left", FLAG), b.param("h", ROW), b.param("x", ROW)
    wide = b.op("cast", [left], CastAttrs("int32"), name="wide")
    odd = apply(b, "int_mul", [wide, add_one(b, wide, -2, "less")], name="odd")
    (branched,) = b.node("if", [odd, h], name="branch", bodies=(twice(), squared())).outputs
    after = apply(b, "tanh", [apply(b, "add", [branched, x], name="sum")], name="after")
    return b.finish([add_one(b, left, -1, "left_after"), after])


def nested() -> Function:
    """A branch in a loop: 2 h unless two or none are left, else h * h."""
    b = GraphBuilder()
    left, x = b.param("left", FLAG), b.param("x", ROW)
    node = b.node(
        "while",
        [left, x, x],
        WhileAttrs(2, limit=LIMIT),
        name="loop",
        bodies=(countdown(), nested_step()),
    )
    return b.finish([node.outputs[1]])


def nested_scan() -> Function:
    """A scan in a scan: sums of squares of slices of slices."""
    attrs = ScanAttrs(steps=STEPS, carried=1, scanned=1)
    b = GraphBuilder("inner")
    total, x = b.param("total", ROW), b.param("x", ROW)
    square = apply(b, "mul", [x, x], name="square")
    inner = b.finish([apply(b, "add", [total, square], name="sum"), square])
    b = GraphBuilder("outer")
    total, xs = b.param("total", ROW), b.param("xs", TensorType((STEPS, *ROW.shape), "float32"))
    outer = b.finish(b.node("scan", [total, xs], attrs, name="inner", bodies=(inner,)).outputs)
    b = GraphBuilder()
    start = b.param("start", ROW)
    xs = b.param("xs", TensorType((STEPS, STEPS, *ROW.shape), "float32"))
    return b.finish(b.node("scan", [start, xs], attrs, name="outer", bodies=(outer,)).outputs)


#: Every function, with inputs that take all its ways.
CASES = {
    "branch": branch, "decoder": decoder, "recurrent": recurrent, "called": called,
    "exchange": exchange, "nested": nested, "nested_scan": nested_scan,
}  # fmt: skip


def inputs_of(name: str) -> list[list[Array]]:
    """Inputs for several runs of a function of `CASES`."""
    random = np.random.default_rng(11)
    types = [value.type for value in CASES[name]().params]
    runs = []
    for count in (0, 1, 2, 3, 4):
        runs.append(
            [
                np.array([count], np.int32)
                if type_ == FLAG
                else random.normal(0, 1, type_.shape).astype(np.float32)
                for type_ in types
            ]
        )
    return runs


def by_numpy(name: str, given: Sequence[Array]) -> list[Array]:
    """The same in numpy, in double precision."""
    given = [g if g.dtype == np.int32 else g.astype(np.float64) for g in given]
    if name == "branch":
        flag, x = given
        return [np.tanh(2 * x if flag[0] else x * x)]
    if name == "decoder":
        left, x = given
        h = np.zeros_like(x)
        for _ in range(left[0]):
            h = np.tanh(h @ W + x)
        return [h, np.zeros(1)]
    if name == "recurrent":
        xs, h = given
        every = []
        for x in xs:
            h = np.tanh(h @ W + x @ U)
            every.append(h)
        return [h, np.stack(every)]
    if name == "called":
        return [np.tanh(2 * np.tanh(2 * given[0]))]
    if name == "exchange":
        return list(given[1:] if given[0][0] % 2 == 0 else given[:0:-1])
    if name == "nested":
        left, x = given
        h = x
        for now in range(left[0], 0, -1):
            h = np.tanh((h * h if now == 2 else 2 * h) + x)
        return [h]
    start, xs = given
    return [start + (xs * xs).sum(axis=(0, 1)), xs * xs]
