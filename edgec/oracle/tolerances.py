"""Tolerances of a target's results against the model's own framework."""

from __future__ import annotations

import math
from collections.abc import Mapping

from edgec.graph.ir import Function, Node, Value
from edgec.graph.operator import Fusion
from edgec.graph.traits import Storage

#: Half of the integers of a dtype.
RANGES = {"int8": 128.0, "uint8": 128.0, "int16": 32768.0}
#: Steps by which two roundings of one sum may differ, where we compute in integers and the
#: framework in floats: half a step for each rounding, and for an int16 result up to one more for
#: the multiplier, which has 15 bits in int16x8 (`edgec.numerics.fixed_point`).
ROUNDED_STEPS = {"int8": 1, "uint8": 1, "int16": 2}
#: The error that one operator may have where results are rounded to 16 bits, relative to the
#: largest result: a unit in the last place. Frameworks round intermediate results elsewhere.
NARROW = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
#: The additional error of two integers that are converted to float32, relative to the larger one:
#: half a unit in the last place for each.
DEQUANTIZED = 2.0**-23


def tolerances(
    function: Function, some_in_floats: bool = False, given: float = 0.0
) -> dict[Value, float]:
    """Tolerance of each value: the sum of the tolerances of the operators on the way to it.

    given: how far the float parameters may be from the framework's.

    To first order, assuming that every operator passes on its inputs' errors unchanged, relative to
    the largest magnitude. Integers have none, unless the framework computes some in floats
    (`_in_floats`): then these and their readers may be rounded differently (ROUNDED_STEPS). These
    tolerances are relative to the dtype's range; functions with a fixed scale, such as sigmoids,
    have slopes up to 1, and softmax doubles a relative error. A body adds its tolerances once for
    each time that it may run.
    """
    found = {value: given if value.type.is_float else 0.0 for value in function.params}
    near: set[Value] = set()  # its float part has a tolerance
    ranges: dict[Value, float] = {}  # of floats that are integers times a scale
    for node in function.nodes:
        before = max((found.get(value, 0.0) for value in node.inputs), default=0.0)
        if some_in_floats and (_in_floats(node) or not near.isdisjoint(node.inputs)):
            near.update(node.outputs)
            reach = _range(node) or max((ranges.get(v, 0.0) for v in node.inputs), default=0.0)
            before *= node.op.error_growth(node.attrs, len(node.inputs), reach)
            before += DEQUANTIZED if _range(node) else 0.0
            if reach and (_moves(node) or node.op.storage is Storage.DEQUANTIZE):
                ranges.update(dict.fromkeys(node.outputs, reach))
        inside, own = _of_bodies(node, some_in_floats, before)
        found |= {value: max(each, found.get(value, 0.0)) for value, each in inside.items()}
        for value in node.outputs:
            if value.type.is_float:
                found[value] = max(own, _narrow(node, before)) + before
            elif value not in near:
                found[value] = 0.0
            elif _moves(node) or value.type.dtype not in ROUNDED_STEPS:
                found[value] = before
            else:
                most = steps_of(value, before) + ROUNDED_STEPS[value.type.dtype]
                most += node.op.steps_off(node.attrs)
                found[value] = most / RANGES[value.type.dtype]
    return found


def _of_bodies(node: Node, some_in_floats: bool, given: float) -> tuple[dict[Value, float], float]:
    """The tolerances of values in bodies, in the last round, and the node's addition to `given`."""
    found: dict[Value, float] = {}
    own = node.op.tolerance_of(node.input_types)
    rounds = node.op.most_rounds(node.attrs)
    for body in node.bodies:
        first = tolerances(body, some_in_floats, given)
        added = max(0.0, *(first.get(value, 0.0) - given for value in body.results))
        before = added * (rounds - 1)
        found |= {v: each + before if v.type.is_float else each for v, each in first.items()}
        own = max(own, added * rounds)
    return found, own


def steps_of(value: Value, tolerance: float) -> int:
    """The whole steps in a tolerance of an integer value."""
    return math.floor(tolerance * RANGES.get(value.type.dtype, 0.0))


def _range(node: Node) -> float:
    """The largest magnitude of a dequantize's result; 0 for other nodes."""
    if node.op.storage is not Storage.DEQUANTIZE:
        return 0.0
    x = node.inputs[0].type
    return RANGES.get(x.dtype, 0.0) * max(x.quant.scale) if x.quant is not None else 0.0


def _narrow(node: Node, before: float) -> float:
    """The error that rounding to a narrow float adds to an operand that has an error."""
    unit = NARROW.get(node.outputs[0].type.dtype, 0.0)
    return unit if before and not _moves(node) else 0.0


def _moves(node: Node) -> bool:
    """Whether a node's results are elements of its inputs."""
    return node.op.fusion in (Fusion.VIEW, Fusion.INJECTIVE) and not node.op.tolerance


def _in_floats(node: Node) -> bool:
    """Whether ONNX Runtime has no such integers: int16 among them, or functions that it computes
    otherwise; floats become the same."""
    first, *rest = (value.type for value in (*node.inputs, *node.outputs))
    wide = [each for each in (first, *rest) if each.dtype == "int16" and each.quant is not None]
    if first.is_float or _moves(node):
        return False
    return bool(wide) or (node.op.approximates and first.quant is not None)


def scales(function: Function, allowed: Mapping[Value, float] | None = None) -> dict[Value, float]:
    """Return for each value the magnitude that errors are compared with, if values are smaller.

    Operators state it (`Op.scale`). allowed: the tolerances; for integers, and for floats that are
    dequantized from them, a tolerance is relative to the range of the dtype.
    """
    found = dict.fromkeys(function.params, 0.0)
    for node in function.nodes:
        made = node.op.scale(node.attrs, *(found.get(value, 0.0) for value in node.inputs))
        found.update(dict.fromkeys(node.outputs, made))
        out = node.outputs[0]
        if allowed and allowed[out]:
            found[out] = RANGES.get(out.type.dtype) or _range(node) or found[out]
    return found
