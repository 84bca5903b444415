"""Composite ATen operators that ONNX has as one operator: they are not decomposed.

A decomposed LSTM has a copy of its cell for each time step; a decomposed attention guards against
rows without any key. What is listed in `kept_operators` keeps its own form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends import aten_complex
from edgec.frontends.aten import Call, Operand, Result, aten, aten_names, find_aten, ints
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
def instance_norm(call: Call, x: Value, weight: Value | None, bias: Value | None,
                  mean: Value | None, variance: Value | None, use_input_stats: bool,
                  momentum: float, eps: float, cudnn_enabled: bool) -> Result:  # fmt: skip
    """Normalization of each channel by its own mean and variance."""
    channels = x.type.shape[1]
    scale = weight if weight is not None else np.ones(channels, np.float32)
    shift = bias if bias is not None else np.zeros(channels, np.float32)
    if use_input_stats:
        return call.onnx("InstanceNormalization", x, scale, shift, epsilon=eps)
    return call.onnx("BatchNormalization", x, scale, shift, mean, variance, epsilon=eps)


@aten("scaled_dot_product_attention.default")
def attention(call: Call, query: Value, key: Value, value: Value, mask: Value | None = None,
              dropout_p: float = 0, is_causal: bool = False, scale: float | None = None,
              enable_gqa: bool = False) -> Result:  # fmt: skip
    """softmax(query @ key^T * scale + mask) @ value."""
    if dropout_p:
        raise ImportFailed("dropout is random: call .eval() before the export")
    if enable_gqa:
        raise ImportFailed("grouped queries are not supported")
    rank, depth = len(query.type.shape), query.type.shape[-1]
    factor = 1 / math.sqrt(depth) if scale is None else scale
    order = (*range(rank - 2), rank - 1, rank - 2)
    scaled = call.onnx("Mul", query, call.like(factor, call.dtype))
    scores = call.onnx("MatMul", scaled, call.onnx("Transpose", key, perm=order))
    rows, columns = query.type.shape[-2], key.type.shape[-2]
    if is_causal:
        later = np.triu(np.ones((rows, columns), bool), 1)
        scores = call.onnx("Add", scores, _bias_of(later, call.dtype))
    if isinstance(mask, Constant) and mask.type.dtype == "bool":
        scores = call.onnx("Add", scores, _bias_of(~mask.data, call.dtype))
    elif mask is not None and mask.type.dtype == "bool":
        raise ImportFailed("a mask that is computed is not supported")
    elif mask is not None:
        scores = call.onnx("Add", scores, mask)
    return call.onnx("MatMul", call.onnx("Softmax", scores, axis=-1), value)


def _bias_of(is_hidden: Array, dtype: str) -> Array:
    """What is added to scores: so little where a key is hidden that its weight is exactly 0."""
    return np.where(is_hidden, np.finfo(dtype).min / 2, 0).astype(dtype)


@aten("lstm.input")
def lstm(call: Call, x: Value, state: Sequence[Value], weights: Sequence[Value], has_biases: bool,
         layers: int, dropout: float, train: bool, bidirectional: bool,
         batch_first: bool) -> Result:  # fmt: skip
    """Long short-term memory; torch's gates are i, f, g, o and ONNX's i, o, f, g."""
    return _recurrent(call, "LSTM", (0, 3, 1, 2), x, state, weights,
                      (has_biases, layers, bidirectional, batch_first), {})  # fmt: skip


@aten("gru.input")
def gru(call: Call, x: Value, state: Value, weights: Sequence[Value], has_biases: bool,
        layers: int, dropout: float, train: bool, bidirectional: bool,
        batch_first: bool) -> Result:  # fmt: skip
    """Gated recurrent unit; torch's gates are r, z, n and ONNX's z, r, n."""
    return _recurrent(call, "GRU", (1, 0, 2), x, [state], weights,
                      (has_biases, layers, bidirectional, batch_first),
                      {"linear_before_reset": 1})  # fmt: skip


def _recurrent(
    call: Call, kind: str, gates: Sequence[int], x: Value, states: Sequence[Value],
    weights: Sequence[Value], form: tuple[bool, int, bool, bool], extra: dict[str, Any],
) -> Result:  # fmt: skip
    """All layers, each an ONNX node; then the last states of all layers."""
    has_biases, layers, bidirectional, batch_first = form
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    if not all(isinstance(value, Constant) for value in weights):
        raise ImportFailed("weights that are computed are not supported")
    if len(weights) > layers * directions * each:
        raise ImportFailed("a projection of the hidden state (proj_size) is not supported")
    sequence = call.onnx("Transpose", x, perm=(1, 0, 2)) if batch_first else x
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(layers):
        chosen = weights[layer * directions * each : (layer + 1) * directions * each]
        parts = [
            np.stack([_in_order(value, gates) for value in chosen[place::each]])
            for place in range(each)
        ]
        bias = np.concatenate(parts[2:], axis=1) if has_biases else None
        first, stop = layer * directions, (layer + 1) * directions
        own = [_rows(call, state, first, stop, layers == 1) for state in states]
        hidden = parts[1].shape[-1]
        outputs = call.onnx_all(
            kind, sequence, parts[0], parts[1], bias, None, *own, results=1 + len(states),
            hidden_size=hidden, direction="bidirectional" if bidirectional else "forward", **extra,
        )  # fmt: skip
        steps, _, batch, _ = outputs[0].type.shape
        joined = call.onnx("Transpose", outputs[0], perm=(0, 2, 1, 3))
        sequence = call.shaped(joined, (steps, batch, directions * hidden))
        for found, value in zip(last, outputs[1:], strict=True):
            found.append(value)
    result = call.onnx("Transpose", sequence, perm=(1, 0, 2)) if batch_first else sequence
    ends = [values[0] if layers == 1 else call.onnx("Concat", *values, axis=0) for values in last]
    return (result, *ends)


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
