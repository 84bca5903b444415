"""A recurrent step over a sequence: a scan whose body is written node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.types import TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.clip import ClipAttrs
from edgec.ops.control import Scan, ScanAttrs
from edgec.ops.dynamic_range import RescaleRowsAttrs, hybrid_sums
from edgec.ops.logistic import LogisticAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.op import RawNode
from edgec.ops.parts import Parts
from edgec.ops.requantize import weight_scales
from edgec.ops.slice import sliced
from edgec.ops.tanh import TanhAttrs

#: Of (parts of the step, states, inputs) the next states and the output.
Step = Callable[[Parts, Sequence[Value], Sequence[Value]], "tuple[list[Value], Value]"]
_LIMITS = {
    "RELU": ClipAttrs(0.0),
    "RELU6": ClipAttrs(0.0, 6.0),
    "RELU_N1_TO_1": ClipAttrs(-1.0, 1.0),
}


def constant(value: Value | None, what: str) -> Constant:
    """A constant of floats, which the file may store as int8. ImportFailed for another operand."""
    if isinstance(value, Constant) and _is_stored(value):
        scale, zero_point = value.type.scalar_quant()
        data = (value.data - np.float32(zero_point)) * np.float32(scale)
        return Constant(value.name, TensorType(value.type.shape, "float32"), data=data)
    if not isinstance(value, Constant) or value.type.dtype != "float32":
        raise ImportFailed(f"{what} must be a constant of float32")
    return value


def _is_stored(value: Value) -> bool:
    quant = value.type.quant
    return value.type.dtype == "int8" and quant is not None and quant.per_tensor


def product(parts: Parts, x: Value, weights: Value | None, bias: Value | None, what: str) -> Value:
    """x W^T + bias, without a bias if it is None; the weights are copied into the step.

    By int8 weights as TFLite's hybrid kernels do it: x is quantized, row by row.
    """
    if isinstance(weights, Constant) and _is_stored(weights):
        return _hybrid(parts, x, weights, bias, what)
    taps = constant(weights, f"the weights {what}").data
    offsets = (
        np.zeros(taps.shape[0], np.float32)
        if bias is None
        else constant(bias, f"the bias of {what}").data
    )
    operands = [x, *(parts.table(data, f"{what}.{name}", "float32")
                     for name, data in (("weights", taps), ("bias", offsets)))]  # fmt: skip
    return parts.op("dense", operands, what=what)


def _hybrid(parts: Parts, x: Value, weights: Constant, bias: Value | None, what: str) -> Value:
    (units, _), scales = weights.type.shape, weight_scales(weights.type, 1)
    rescale = RescaleRowsAttrs(scales, bool(parts.raw.attribute("asymmetric", False)))
    offsets = np.zeros(units) if bias is None else constant(bias, f"the bias of {what}").data
    taps = parts.builder.constant(f"{parts.name}.{what}.weights", weights.data, weights.type.quant)
    acc, ranges = hybrid_sums(parts, "dense", x, taps, None, rescale, f"{what}.")
    bias = parts.table(offsets, f"{what}.bias", "float32")
    return parts.op("rescale_rows", [acc, bias, *ranges], rescale, what)


def scaled(parts: Parts, x: Value, by: Value, what: str) -> Value:
    """The product of two floats."""
    return parts.op("mul", [x, by], MulAttrs(), what)


def added(parts: Parts, x: Value, y: Value, what: str) -> Value:
    """The sum of two floats."""
    return parts.op("add", [x, y], AddAttrs(), what)


def activated(parts: Parts, kind: str, x: Value, what: str) -> Value:
    """An activation by TFLite's name. Raises ImportFailed for one that is not supported."""
    if kind == "NONE":
        return x
    if kind == "TANH":
        return parts.op("tanh", [x], TanhAttrs(), what)
    if kind == "SIGMOID":
        return parts.op("logistic", [x], LogisticAttrs(), what)
    if kind not in _LIMITS:
        raise ImportFailed(f"fused activation {kind} is not supported")
    return parts.op("clip", [x], _LIMITS[kind], what)


def limited(parts: Parts, x: Value, most: float, what: str) -> Value:
    """A value within a limit to both sides, 0 for none."""
    return parts.op("clip", [x], ClipAttrs(-most, most), what) if most else x


def in_steps(parts: Parts, x: Value, time_major: bool, what: str) -> Value:
    """A sequence with its steps first, or back: [B, T, N] as [T, B, N]."""
    if time_major:
        return x
    first, second, last = x.type.shape
    if 1 in (first, second):
        return parts.reshaped(x, (second, first, last), what)
    return parts.moved(x, (1, 0, 2), what)


def turned(parts: Parts, x: Value, what: str) -> Value:
    """A sequence from its last step on."""
    steps = x.type.shape[0]
    ranges = [(steps - 1, -1, steps), *((0, 1, extent) for extent in x.type.shape[1:])]
    return sliced(parts.builder, x, ranges, f"{parts.name}/{what}", (parts.name,))


def run_steps(
    parts: Parts, raw: RawNode, states: Sequence[Value], inputs: Sequence[Value], step: Step,
    what: str = "sequence",
) -> Value:  # fmt: skip
    """The outputs [T, B, U] of a step over sequences [T, B, N]; the states become its last ones."""
    (steps, batch, _), builder = inputs[0].type.shape, parts.builder
    if steps == 1:
        now = [parts.reshaped(x, x.type.shape[1:], f"{what}.x{n}") for n, x in enumerate(inputs)]
        after, y = step(parts, states, now)
        result = parts.reshaped(y, (1, batch, y.type.shape[-1]), f"{what}.y")
    else:
        inner = GraphBuilder(f"{what}_step")
        given = [inner.param(f"state{n}", state.type) for n, state in enumerate(states)]
        slices = [
            inner.param(f"x{n}", x.type.with_shape(x.type.shape[1:])) for n, x in enumerate(inputs)
        ]
        after, y = step(Parts(inner, raw), given, slices)
        names = [f"{parts.name}.{what}.state{n}" for n in range(len(states))]
        *after, result = builder.node(
            Scan, [*states, *inputs], ScanAttrs(steps, len(states), len(inputs)),
            name=f"{parts.name}/{what}", bodies=(inner.finish([*after, y]),),
            sources=(parts.name,), output_names=[*names, f"{parts.name}.{what}"],
        ).outputs  # fmt: skip
    for before, value in zip(states, after, strict=True):
        builder.become(before, value)
    return result
