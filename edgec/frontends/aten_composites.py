"""Composite ATen operators that ONNX has as one operator: they are not decomposed.

A decomposed LSTM has a copy of its cell for each time step; a decomposed attention guards against
rows without any key. The operators in `kept_operators` are imported directly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends import aten_complex
from edgec.frontends.aten import Call, Operand, Result, aten, aten_names, find_aten, ints
from edgec.frontends.aten_projected import Layers, projected_lstm
from edgec.graph.ir import Constant, Value
from edgec.graph.types import Array
from edgec.ops.op import importer_kinds

#: Kept only where the ONNX operator has an importer; otherwise torch's decomposition is used.
_NEEDED = {"gru.input": "GRU", "instance_norm.default": "InstanceNormalization"}

#: Not of Core ATen, yet torch's default decompositions leave them: torch has others for these.
DECOMPOSED = (
    "_native_batch_norm_legit_functional.default", "addmv.default", "dist.default", "ldexp.Tensor",
    "linalg_vector_norm.default", "narrow_copy.default", "native_batch_norm.default",
    "new_empty_strided.default", "permute_copy.default", "unbind_copy.int",
)  # fmt: skip


@aten("linear.default")
def linear(call: Call, x: Value, weights: Value, bias: Value | None = None) -> Result:
    """x @ weights^T + bias."""
    if isinstance(weights, Constant) and len(x.type.shape) == 2:
        operands: list[Operand] = [x, weights] if bias is None else [x, weights, bias]
        return call.onnx("Gemm", *operands, transB=1)
    made = call.onnx("MatMul", x, call.onnx("Transpose", weights, perm=(1, 0)))
    return made if bias is None else call.onnx("Add", made, bias)


@aten("prelu.default", "_prelu_kernel.default")
def prelu(call: Call, x: Value, slope: Value) -> Result:
    """x, or slope * x where x is negative; a slope for each channel, or one for all."""
    form = [slope.type.elements, *(1 for _ in x.type.shape[2:])]
    if not x.type.shape:
        return call.shaped(call.onnx("PRelu", call.shaped(x, [1]), call.shaped(slope, [1])), ())
    return call.onnx("PRelu", x, call.shaped(slope, form if len(x.type.shape) > 1 else [1]))


@aten("hardswish.default")
def hardswish(call: Call, x: Value) -> Result:
    """x * min(max(x + 3, 0), 6) / 6."""
    return call.onnx("HardSwish", x)


@aten("hardsigmoid.default")
def hardsigmoid(call: Call, x: Value) -> Result:
    """min(max(x + 3, 0), 6) / 6."""
    return call.onnx("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@aten("instance_norm.default")
def instance_norm(
    call: Call, x: Value, weight: Value | None, bias: Value | None, *form: Any
) -> Result:
    """Normalization of each channel by its own mean and variance, or by stored ones."""
    mean, variance, is_own, _, eps, _ = form
    channels = x.type.shape[1]
    scale = weight if weight is not None else np.ones(channels, np.float32)
    shift = bias if bias is not None else np.zeros(channels, np.float32)
    if is_own:
        return call.onnx("InstanceNormalization", x, scale, shift, epsilon=eps)
    return call.onnx("BatchNormalization", x, scale, shift, mean, variance, epsilon=eps)


@aten("scaled_dot_product_attention.default")
def attention(call: Call, query: Value, key: Value, value: Value, mask: Value | None = None,
              dropout_p: float = 0, is_causal: bool = False, **options: Any) -> Result:  # fmt: skip
    """softmax(query @ key^T * scale + mask) @ value. options: scale, and enable_gqa."""
    if dropout_p:
        raise ImportFailed("dropout is random: call .eval() before the export")
    if options.get("enable_gqa"):
        key, value = (_for_heads(call, each, query.type.shape[-3]) for each in (key, value))
    rank, depth = len(query.type.shape), query.type.shape[-1]
    scale = options.get("scale")
    factor = 1 / math.sqrt(depth) if scale is None else scale
    order = (*range(rank - 2), rank - 1, rank - 2)
    scaled = call.onnx("Mul", query, call.like(factor, call.dtype))
    scores = call.onnx("MatMul", scaled, call.onnx("Transpose", key, perm=order))
    if is_causal:
        mask = call.value(np.tri(query.type.shape[-2], key.type.shape[-2], dtype=bool))
    return call.onnx("MatMul", _weights(call, scores, mask), value)


def _for_heads(call: Call, x: Value, heads: int) -> Value:
    """Keys or values repeated for the heads of queries: several of these share one."""
    *outer, own, steps, width = x.type.shape
    each = call.shaped(x, (*outer, own, 1, steps, width))
    wide = call.onnx("Expand", each, ints((*outer, own, heads // own, steps, width)))
    return call.shaped(wide, (*outer, heads, steps, width))


def _weights(call: Call, scores: Value, mask: Value | None) -> Value:
    """The softmax of scores plus a mask, or of scores where a boolean mask is true.

    A hidden score is so low that its weight is exactly 0. Rows with only hidden scores are all 0.
    """
    if mask is None or mask.type.dtype != "bool":
        masked = scores if mask is None else call.onnx("Add", scores, mask)
        return call.onnx("Softmax", masked, axis=-1)
    zero, hidden = (call.like(n, call.dtype) for n in (0.0, float(np.finfo(call.dtype).min) / 2))
    masked = call.onnx("Add", scores, call.onnx("Where", mask, zero, hidden))
    weights = call.onnx("Softmax", masked, axis=-1)
    if isinstance(mask, Constant) and mask.data.any(-1).all():
        return weights
    return call.onnx("Where", mask, weights, zero)


@aten("lstm.input")
def lstm(
    call: Call, x: Value, state: Sequence[Value], weights: Sequence[Value], *form: Any
) -> Result:
    """Long short-term memory; torch's gates are i, f, g, o and ONNX's i, o, f, g."""
    layers = Layers(*form)
    if len(weights) == layers.count * layers.directions * (5 if layers.has_biases else 3):
        return projected_lstm(call, x, state, weights, layers)
    return _recurrent(call, "LSTM", x, state, weights, layers)


@aten("gru.input")
def gru(call: Call, x: Value, state: Value, weights: Sequence[Value], *form: Any) -> Result:
    """Gated recurrent unit; torch's gates are r, z, n and ONNX's z, r, n."""
    return _recurrent(call, "GRU", x, [state], weights, Layers(*form))


#: The positions of ONNX's gates among torch's, and further attributes of the ONNX node.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}
_SAYS: dict[str, dict[str, int]] = {"LSTM": {}, "GRU": {"linear_before_reset": 1}}


def _recurrent(call: Call, kind: str, x: Value, states: Sequence[Value],
               weights: Sequence[Value], form: Layers) -> Result:  # fmt: skip
    """All layers, each an ONNX node; then the last states of all layers."""
    directions = form.directions
    sequence = call.onnx("Transpose", x, perm=(1, 0, 2)) if form.batch_first else x
    last: list[Sequence[Value]] = []
    for layer, own_weights in enumerate(_by_layer(weights, form)):
        first, stop = layer * directions, (layer + 1) * directions
        own = [_rows(call, state, first, stop, form.count == 1) for state in states]
        parts = _parameters(own_weights, directions, _GATES[kind])
        hidden = parts[1].shape[-1]
        output, *ends = call.onnx_all(
            kind, sequence, *parts, None, *own, results=1 + len(states), hidden_size=hidden,
            direction="bidirectional" if form.bidirectional else "forward", **_SAYS[kind],
        )  # fmt: skip
        steps, _, batch, _ = output.type.shape
        joined = call.onnx("Transpose", output, perm=(0, 2, 1, 3))
        sequence = call.shaped(joined, (steps, batch, directions * hidden))
        last.append(ends)
    result = call.onnx("Transpose", sequence, perm=(1, 0, 2)) if form.batch_first else sequence
    joined_ends = (
        ends[0] if len(ends) == 1 else call.onnx("Concat", *ends, axis=0)
        for ends in zip(*last, strict=True)
    )  # fmt: skip
    return (result, *joined_ends)


def _by_layer(weights: Sequence[Value], form: Layers) -> list[Sequence[Value]]:
    """The weights of each layer, constants all of them."""
    if not all(isinstance(value, Constant) for value in weights):
        raise ImportFailed("weights that are computed are not supported")
    each = form.directions * (4 if form.has_biases else 2)
    return [weights[first : first + each] for first in range(0, len(weights), each)]


def _parameters(
    weights: Sequence[Value], directions: int, gates: Sequence[int]
) -> tuple[Array, Array, Array | None]:
    """ONNX's W, R and B of one layer; torch has all of a direction one after the other."""
    count = len(weights) // directions
    w, r, *biases = (
        np.stack([_in_order(value, gates) for value in weights[place::count]])
        for place in range(count)
    )
    return w, r, np.concatenate(biases, axis=1) if biases else None


def _in_order(value: Value, gates: Sequence[int]) -> Array:
    """A weight with its gates in ONNX's order."""
    assert isinstance(value, Constant)
    parts = np.split(value.data, len(gates))
    return np.concatenate([parts[gate] for gate in gates])


def _rows(call: Call, state: Value, first: int, stop: int, is_whole: bool) -> Value:
    if is_whole:
        return state
    return call.onnx("Slice", state, ints([first]), ints([stop]), ints([0]))


def kept_operators() -> tuple[str, ...]:
    """The operators above, such as `lstm.input`, that have an importer."""
    return tuple(
        name.removeprefix("aten.")
        for name in aten_names()
        if getattr(find_aten(name), "__module__", "") in (__name__, aten_complex.__name__)
        and _NEEDED.get(name.removeprefix("aten.")) in (None, *importer_kinds("onnx"))
    )
