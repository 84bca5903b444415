"""layer_norm: each row of the last axis with a mean of zero and a variance of one, then scaled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, Operator, get_op, register
from edgec.graph.traits import IntegerForm, StoredAs
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import intrinsic
from edgec.ops.broadcast import tensor_of
from edgec.ops.integer_norm import IntegerNorm, IntegerNormAttrs
from edgec.ops.onnx_graph import OnnxGraph, own_operands
from edgec.ops.op import Op, RawNode, axis_of, from_onnx
from edgec.ops.reshape import ReshapeAttrs


@dataclass(frozen=True)
class LayerNormAttrs:
    """epsilon: added to a variance, so that no row is divided by zero."""

    epsilon: float = 1e-5


@register
class LayerNorm(Op[LayerNormAttrs]):
    """x [..., C], scale [C], bias [C] -> (x - mean) / sqrt(variance + epsilon) * scale + bias.

    float32; sums are taken in order, and the variance is the mean of squares of x - mean.
    """

    name = "layer_norm"
    attrs_class = LayerNormAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6
    onnx_since = 17
    integer_form = IntegerForm.ONE_OPERAND
    along_last_axis = True

    def integer_op(self, dtype: str) -> Operator[Any]:
        """One of stored integers, with the float scale and bias as constants."""
        return get_op(IntegerNorm)

    def attrs_for_integers(self, attrs: LayerNormAttrs, inputs: Types, result: StoredAs) -> Any:
        """Rows with their mean taken off."""
        return IntegerNormAttrs(True, attrs.epsilon, result.quant, result.minimum, result.maximum)

    def infer(self, attrs: LayerNormAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The type of x."""
        x, scale, bias = inputs
        if any(value.dtype != "float32" for value in inputs):
            raise TypeMismatch(f"layer_norm needs float32, not {', '.join(map(str, inputs))}")
        if not x.shape or not scale.shape == bias.shape == x.shape[-1:]:
            raise TypeMismatch(
                f"layer_norm of {list(x.shape)} by {list(scale.shape)} and {list(bias.shape)}"
            )
        return (x,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Two sums and a factor for each row."""
        attrs: LayerNormAttrs = node.attrs
        x = tensor_of(inputs[0])
        *outer, length = x.shape
        scale, bias = (
            target.table(name, value.data) if isinstance(value, Constant) else value
            for name, value in zip(("scale", "bias"), inputs[1:], strict=True)
        )
        define, rows = target.definition, tuple(outer)

        def summed(name: str, term: Any) -> Tensor:
            return define.reduce(
                name,
                [("k", 0, length)],
                init=lambda *row: 0,
                update=lambda acc, *at: acc + term(at),
                shape=rows,
                dtype="float32",
            )

        sums = summed("sum", lambda at: x[at])
        mean = define.compute(
            "mean", lambda *row: sums[row] / float(length), shape=rows, dtype="float32"
        )

        def square(at: Any) -> Any:
            return (x[at] - mean[at[:-1]]) * (x[at] - mean[at[:-1]])

        squares = summed("squares", square)
        factor = define.compute(
            "factor",
            lambda *row: 1.0 / intrinsic("sqrt_f32", squares[row] / float(length) + attrs.epsilon),
            shape=rows,
            dtype="float32",
        )

        def element(*at: Any) -> Any:
            *row, channel = at
            normal = (x[at] - mean[tuple(row)]) * factor[tuple(row)]
            return normal * scale[channel] + bias[channel]

        return target.compute("element", node.output.type.shape, "float32", element)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """LayerNormalization."""
        operands = own_operands(out, node)
        out.emit(
            "LayerNormalization", operands, out.define_own(node.output), epsilon=node.attrs.epsilon
        )


@from_onnx("LayerNormalization", since=17)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX LayerNormalization; all axes from `axis` on are one. Only the first output is made."""
    x, scale, bias = raw.operand(0), raw.operand(1), raw.optional(2)
    if any(raw.outputs[1:]):
        raise ImportFailed("mean and deviation as outputs are not supported")
    shape = x.type.shape
    axis = axis_of(int(raw.attribute("axis", -1)), len(shape))
    length = math.prod(shape[axis:])
    if bias is None:
        bias = builder.constant(f"{raw.name}.bias", np.zeros(length, np.float32))
    attrs = LayerNormAttrs(raw.attribute("epsilon", 1e-5))
    if axis == len(shape) - 1:
        return builder.op("layer_norm", [x, scale, bias], attrs, name=raw.name)
    flat = [
        builder.op("reshape", [value], ReshapeAttrs(to), name=f"{raw.name}/{what}",
                   sources=(raw.name,))
        for what, value, to in (
            ("rows", x, (x.type.elements // length, length)),
            ("scale", scale, (length,)),
            ("bias", bias, (length,)),
        )
    ]  # fmt: skip
    made = builder.op("layer_norm", flat, attrs, name=f"{raw.name}/normal", sources=(raw.name,))
    return builder.op("reshape", [made], ReshapeAttrs(shape), name=raw.name)
