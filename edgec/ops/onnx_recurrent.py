"""Directions and layout of ONNX's recurrent operators, around an importer of one direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.concat import ConcatAttrs
from edgec.ops.op import RawNode
from edgec.ops.slice import sliced
from edgec.ops.transpose import transposed

Single = Callable[[RawNode], tuple[Value, ...]]

#: Inputs that have a row for each direction: W, R, B, then after the lengths the states and P.
_BY_DIRECTION = (1, 2, 3, 5, 6, 7)


def one_direction(
    builder: GraphBuilder, raw: RawNode, single: Single, general: Single
) -> tuple[Value, ...]:
    """(Y, last states…) of an LSTM, GRU or RNN node by `single`, which supports only `forward`.

    `general` imports the nodes that `single` refuses. Its attribute `reversed` reads the sequence
    backwards, within its lengths.

    A reverse direction reads the sequence backwards and reverses its outputs; two directions are
    joined. layout 1 has the batch first.
    """
    direction = raw.attribute("direction", "forward")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    if direction not in ways:
        raise ImportFailed(f"direction {direction!r} is unknown")
    attributes = {k: v for k, v in raw.attributes.items() if k not in ("direction", "layout")}
    inputs = list(raw.inputs)
    swaps = bool(raw.attribute("layout", 0))
    if swaps:
        for place in (0, 5, 6):
            value = raw.optional(place)
            if value is not None:
                inputs[place] = _swapped(builder, raw, value, (1, 0, 2))
    made: list[tuple[Value, ...]] = []
    for number, backwards in enumerate(ways[direction]):
        suffix = f"/{number}" if direction == "bidirectional" else ""
        own = [
            _row(builder, raw, value, number) if place in _BY_DIRECTION else value
            for place, value in enumerate(inputs)
        ]
        x = own[0]
        if x is None:
            raise ImportFailed("the input is absent")
        if backwards:
            own[0] = _reversed(builder, raw, x)
        part = replace(
            raw, name=f"{raw.name}{suffix}", inputs=tuple(own),
            attributes={**_of_direction(attributes, number, len(ways[direction])),
                        "reversed": backwards},
        )  # fmt: skip
        y, *states = _either(part, single, general)
        made.append((_reversed(builder, raw, y) if backwards else y, *states))
    joined = tuple(
        _joined(builder, raw, values, 1 if place == 0 else 0)
        for place, values in enumerate(zip(*made, strict=True))
    )
    if not swaps:
        return joined
    return (
        _swapped(builder, raw, joined[0], (2, 0, 1, 3)),
        *(_swapped(builder, raw, state, (1, 0, 2)) for state in joined[1:]),
    )


def _either(part: RawNode, single: Single, general: Single) -> tuple[Value, ...]:
    try:
        return single(part)
    except ImportFailed:
        return general(part)


def _of_direction(attributes: dict[str, Any], number: int, count: int) -> dict[str, Any]:
    """Activations are listed for all directions, one direction after the other."""
    own = dict(attributes)
    for key in ("activations", "activation_alpha", "activation_beta"):
        listed = attributes.get(key)
        if listed is not None:
            each = len(listed) // count
            own[key] = tuple(listed[number * each : (number + 1) * each])
    return own


def _row(builder: GraphBuilder, raw: RawNode, value: Value | None, number: int) -> Value | None:
    """One direction's part of an operand; its axis is kept."""
    if value is None or value.type.shape[0] == 1:
        return value
    if isinstance(value, Constant):
        data = value.data[number : number + 1]
        quant = value.type.quant
        if quant is not None and not quant.per_tensor:
            raise ImportFailed("quantized weights of several directions are not supported")
        return builder.constant(f"{value.name}.{number}", data, quant)
    return _cut(builder, raw, value, (number, 1, 1))


def _reversed(builder: GraphBuilder, raw: RawNode, value: Value) -> Value:
    steps = value.type.shape[0]
    return value if steps == 1 else _cut(builder, raw, value, (steps - 1, -1, steps))


def _cut(builder: GraphBuilder, raw: RawNode, value: Value, first: tuple[int, int, int]) -> Value:
    """A slice along the first axis: (begin, step, count)."""
    rest = ((0, 1, extent) for extent in value.type.shape[1:])
    return sliced(builder, value, [first, *rest], f"{raw.name}/{value.name}", (raw.name,))


def _swapped(builder: GraphBuilder, raw: RawNode, value: Value, axes: tuple[int, ...]) -> Value:
    return transposed(builder, value, axes, f"{raw.name}/{value.name}.swapped")


def _joined(builder: GraphBuilder, raw: RawNode, values: Sequence[Value], axis: int) -> Value:
    if len(values) == 1:
        return values[0]
    return builder.op("concat", list(values), ConcatAttrs(axis), name=raw.name, sources=(raw.name,))
