"""Turn a float GRU between dequantized operands and a quantize into the integer GRU.

Sequence in int8 or int16, weights in int8 with a scale for each row or one for all and no zero
point. Biases and the first state are floats, which are rounded. Whatever differs stays in float.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.types import Array, TensorType
from edgec.ops.gru import GATE_SCALE, STATE, Gru, GruAttrs
from edgec.ops.reshape import Reshape, ReshapeAttrs
from edgec.passes.fuse_products import rounded_bias
from edgec.passes.rewriter import Rewriter


def fused_gru(
    rewriter: Rewriter, above: Node, integers: Sequence[Value | None], node: Node
) -> Value | None:
    """The integer GRU's sequence; None where the parameters do not allow it.

    above: the float GRU. integers: the inputs of its operands' dequantize nodes. node: the quantize
    after its sequence.
    """
    x, rows = integers[0], [_scales(value) for value in integers[2:4]]
    scales = [each for each in rows if each is not None]
    constants = [above.inputs[1], *above.inputs[4:]]
    if x is None or len(scales) < 2 or not all(map(_is_finite, constants)):
        return None
    is_plain = _fits(x.type, node.attrs.dtype) and constants[0].type.shape[0] == 1
    if not is_plain or not node.attrs.output.per_tensor:
        return None
    return _appended(rewriter, above, (x, integers[2], integers[3]), (scales[0], scales[1]), node)


def _fits(type_: TensorType, dtype: str) -> bool:
    return type_.dtype == dtype and type_.quant is not None and type_.quant.per_tensor


def _is_finite(value: Value) -> bool:
    return isinstance(value, Constant) and bool(np.isfinite(value.data).all())


def _appended(
    rewriter: Rewriter,
    above: Node,
    operands: tuple[Value, Value | None, Value | None],
    scales: tuple[Array, Array],
    node: Node,
) -> Value | None:
    builder, quant = rewriter.builder, node.attrs.output
    x, weights, recurrent = operands
    assert weights is not None and recurrent is not None
    sums = [
        np.float32(side) * rows
        for side, rows in zip((x.type.scalar_quant()[0], quant.scale[0]), scales, strict=True)
    ]
    constants = _rounded(rewriter, above, sums)
    given, own = (tuple((each.astype(np.float64) / GATE_SCALE).tolist()) for each in sums)
    attrs = GruAttrs(given, own, quant, above.attrs.resets_after)
    steps, _, depth = x.type.shape
    flat = builder.op(Reshape, [x], ReshapeAttrs((steps, depth)), name=f"{above.name}/flat",
                      sources=())  # fmt: skip
    try:
        made = builder.node(
            Gru, [flat, constants[0], weights, recurrent, *constants[1:]], attrs, name=above.name,
            output_names=[f"{above.outputs[0].name}.q", f"{above.name}.hidden"],
            sources=above.sources,
        )  # fmt: skip
    except TypeMismatch:
        return None
    (sequence,) = rewriter.remake(
        node, made.outputs[:1], ReshapeAttrs(node.output.type.shape), op=Reshape,
        name=f"{above.name}/sequence", sources=(),
    )  # fmt: skip
    return sequence


def _rounded(rewriter: Rewriter, above: Node, sums: Sequence[Array]) -> list[Value]:
    """The initial state and the biases as integers; sums: the scales of the accumulators."""
    start, *biases = (
        value for value in (above.inputs[1], *above.inputs[4:]) if isinstance(value, Constant)
    )
    stored = np.clip(np.rint(start.data / STATE.scale[0]), -32768, 32767).astype(np.int16)
    return [
        rewriter.builder.constant(f"{start.name}.int16", stored, STATE),
        *(
            rewriter.builder.constant(f"{given.name}.int32", rounded_bias(given.data, rows))
            for given, rows in zip(biases, sums, strict=True)
        ),
    ]


def _scales(weights: Value | None) -> Array | None:
    """The scale of each row of constant int8 weights without zero points; None of others."""
    if not isinstance(weights, Constant) or weights.type.dtype != "int8":
        return None
    quant = weights.type.quant
    if quant is None or any(quant.zero_point) or not (quant.per_tensor or quant.axis == 0):
        return None
    return np.broadcast_to(np.asarray(quant.scale, np.float32), len(weights.data))
