"""Sums, products and extremes over windows: REDUCE_WINDOW, its STABLEHLO form, DILATE and pads.

A window over several axes is reduced along one axis after the other: the operand's slices, one for
each element of the window, are combined element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.ops.add import AddAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.pad import PadAttrs
from edgec.ops.parts import Parts
from edgec.ops.row import is_plain_integer
from edgec.ops.slice import constant_integers, sliced

#: More elements of a window along one axis are that many nodes.
_MOST_TAPS = 64
#: Names of combinations by TFLite's own.
_FUNCTIONS = {"ADD": "add", "MUL": "mul", "MINIMUM": "minimum", "MAXIMUM": "maximum",
              "ALL": "logical_and", "ANY": "logical_or"}  # fmt: skip
#: The same of bools, which C++ makes numbers of and back.
_OF_BOOLS = {"add": "logical_or", "maximum": "logical_or", "mul": "logical_and",
             "minimum": "logical_and"}  # fmt: skip
_ATTRS = {"add": AddAttrs, "mul": MulAttrs}
#: (size, stride, dilation) of a window along an axis.
Window = Sequence[tuple[int, int, int]]


def combined(parts: Parts, function: str, a: Value, b: Value, what: str) -> Value:
    """Two values joined; integers by the rows that wrap, bools as the numbers 0 and 1."""
    if a.type.dtype == "bool":
        return parts.op(_OF_BOOLS.get(function, function), [a, b], what=what)
    if function in _ATTRS and is_plain_integer(a.type):
        return parts.op(f"int_{function}", [a, b], what=what)
    return parts.op(function, [a, b], _ATTRS[function]() if function in _ATTRS else None, what)


def reduced_windows(parts: Parts, x: Value, window: Window, function: str) -> Value:
    """The reduction of each window. Raises ImportFailed if a window does not fit."""
    for axis, (size, stride, dilation) in enumerate(window):
        extent = x.type.shape[axis]
        room = extent - (size - 1) * dilation - 1
        if min(size, stride, dilation) < 1 or room < 0 or size > _MOST_TAPS:
            raise ImportFailed(f"windows of {size} by {stride} and {dilation} over {extent}")
        if (size, stride) == (1, 1):
            continue
        total: Value | None = None
        for tap in range(size):
            ranges = [(0, 1, each) for each in x.type.shape]
            ranges[axis] = (tap * dilation, stride, room // stride + 1)
            name = f"{parts.name}/axis{axis}.tap{tap}"
            part = sliced(parts.builder, x, ranges, name, (parts.name,))
            what = f"axis{axis}.to{tap}"
            total = part if total is None else combined(parts, function, total, part, what)
        assert total is not None
        x = total
    return x


def dilated(parts: Parts, x: Value, steps: Sequence[int], value: float) -> Value:
    """The elements of x with a value in the places between them, as dilation has it."""
    shape = x.type.shape
    if all(step == 1 for step in steps):
        return x
    apart = [n for extent in shape for n in (extent, 1)]
    around = tuple(p for step in steps for p in ((0, 0), (0, step - 1)))
    wide = parts.reshaped(x, apart, "apart")
    wide = parts.op("pad", [wide], PadAttrs(around, value), "between")
    whole = [extent * step for extent, step in zip(shape, steps, strict=True)]
    wide = parts.reshaped(wide, whole, "joined")
    ranges = [(0, 1, (e - 1) * step + 1) for e, step in zip(shape, steps, strict=True)]
    return sliced(parts.builder, wide, ranges, f"{parts.name}/dilated", (parts.name,))


def padded(parts: Parts, x: Value, low: Sequence[int], high: Sequence[int], value: float) -> Value:
    """Padding around x; negative padding crops x."""
    if any(n < 0 for n in (*low, *high)):
        ranges = [
            (max(-before, 0), 1, extent + min(before, 0) + min(after, 0))
            for extent, before, after in zip(x.type.shape, low, high, strict=True)
        ]
        x = sliced(parts.builder, x, ranges, f"{parts.name}/cut", (parts.name,))
    around = tuple((max(b, 0), max(a, 0)) for b, a in zip(low, high, strict=True))
    if not any(any(pair) for pair in around):
        return x
    return parts.op("pad", [x], PadAttrs(around, value), "padded")


def _number(value: Value, what: str) -> float:
    if not isinstance(value, Constant) or value.type.elements != 1:
        raise ImportFailed(f"{what} must be a constant number")
    number: float = value.data.item()
    return number


@from_tflite("DILATE")
def import_dilate(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite DILATE by constants."""
    x = raw.operand(0)
    steps = constant_integers(raw.operand(1), "the dilations")
    if len(steps) != len(x.type.shape) or min(steps, default=1) < 1:
        raise ImportFailed(f"dilations {steps} of {x.type}")
    parts = Parts(builder, raw)
    return parts.last(dilated(parts, x, steps, _number(raw.operand(2), "the value between")))


@from_tflite("STABLEHLO_PAD", plain_bytes=True)
def import_pad(builder: GraphBuilder, raw: RawNode) -> Value:
    """STABLEHLO_PAD by a constant: between elements, and around them or less than nothing."""
    x, value = raw.operand(0), _number(raw.operand(1), "the padding")
    keys = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, between = (raw.attribute(key) for key in keys)
    if {len(low), len(high), len(between)} != {len(x.type.shape)} or min(between, default=0) < 0:
        raise ImportFailed(f"padding {low}, {high} and {between} of {x.type}")
    parts = Parts(builder, raw)
    wide = dilated(parts, x, [n + 1 for n in between], value)
    return parts.last(padded(parts, wide, low, high, value))


@from_tflite("REDUCE_WINDOW")
def import_reduce_window(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite REDUCE_WINDOW over constant windows."""
    x, start = raw.operand(0), raw.operand(1)
    sizes, strides, dilations = (
        constant_integers(raw.operand(n), what)
        for n, what in enumerate(("the window", "the strides", "the dilations"), 2)
    )
    window = list(zip(sizes, strides, dilations, strict=True))
    function = _FUNCTIONS[raw.attribute("function")]
    return _reduced(Parts(builder, raw), x, start, window, function)


def _reduced(parts: Parts, x: Value, start: Value, window: Window, function: str) -> Value:
    if len(window) != len(x.type.shape):
        raise ImportFailed(f"windows of {len(window)} axes over {x.type}")
    total = reduced_windows(parts, x, window, function)
    first = parts.reshaped(start, (), "first")
    return combined(parts, function, first, total, "")


@from_tflite("STABLEHLO_REDUCE_WINDOW", plain_bytes=True)
def import_hlo_reduce_window(builder: GraphBuilder, raw: RawNode) -> Value:
    """STABLEHLO_REDUCE_WINDOW by a body of one operator, from a constant."""
    x, start = raw.operands(2)
    first, rank = _number(start, "the first value"), len(x.type.shape)
    sizes, strides, dilations, between, around = (
        raw.attribute(key) or (default,) * count
        for key, default, count in (
            ("window_dimensions", 1, rank), ("window_strides", 1, rank),
            ("window_dilations", 1, rank), ("base_dilations", 1, rank), ("padding", 0, 2 * rank),
        )
    )  # fmt: skip
    parts = Parts(builder, raw)
    wide = dilated(parts, x, between, first)
    wide = padded(parts, wide, around[::2], around[1::2], first)
    window = list(zip(sizes, strides, dilations, strict=True))
    total = reduced_windows(parts, wide, window, body_function(raw, x))
    return combined(parts, body_function(raw, x), parts.reshaped(start, (), "first"), total, "")


def body_function(raw: RawNode, x: Value) -> str:
    """The reduction that a body of one operator on two numbers does; "" for the second number.

    Raises ImportFailed for another body.
    """
    body = raw.read_body("body_subgraph", [x.type.with_shape(())] * 2)
    params = body.builder.params
    if not body.builder.nodes and body.results == [params[1]]:
        return ""
    nodes: list[Node] = body.builder.nodes
    if len(nodes) == 1 and len(params) == 2 and set(nodes[0].inputs) == set(params):
        name = nodes[0].op.name.removeprefix("int_")
        if name in _FUNCTIONS.values():
            return name
    raise ImportFailed("its body is not one sum, product, maximum or minimum of two numbers")
