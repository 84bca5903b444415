"""cumulate: of each place along an axis the sum or the product of all up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, axis_of, from_onnx, from_tflite
from edgec.ops.row import INTEGERS


@dataclass(frozen=True)
class CumulateAttrs:
    """axis: not negative. exclusive: without the place itself. reverse: of all from it on.

    is_product: products, not sums.
    """

    axis: int
    exclusive: bool = False
    reverse: bool = False
    is_product: bool = False


@register
class Cumulate(Op[CumulateAttrs]):
    """Floats and integers without quantization; these wrap. Elements are taken in their order."""

    name = "cumulate"
    attrs_class = CumulateAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6

    def infer(self, attrs: CumulateAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's type."""
        (x,) = inputs
        if x.dtype not in ("float32", "float64", *INTEGERS) or x.quant is not None:
            raise TypeMismatch(f"cumulate of {x}")
        if not 0 <= attrs.axis < len(x.shape):
            raise TypeMismatch(f"cumulate along axis {attrs.axis} of {x}")
        return (x,)

    def steps(self, attrs: CumulateAttrs, inputs: Sequence[TensorType]) -> int:
        """Each element is added to those before it."""
        return inputs[0].shape[attrs.axis]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation for each element."""
        attrs: CumulateAttrs = node.attrs
        (x,) = operand_tensors(target, inputs)
        axis, own = attrs.axis, int(attrs.exclusive)
        if own and x.shape[axis] == 1:  # nothing comes before the only element
            return target.compute("element", x.shape, x.dtype, lambda *at: int(attrs.is_product))

        def update(acc: Any, *at: Any) -> Any:
            value = x[(*at[:axis], at[-1], *at[axis + 1 : -1])]
            return acc * value if attrs.is_product else acc + value

        bounds: tuple[str, Any, Any] = ("k", 0, lambda *at: at[axis] + (1 - own))
        if attrs.reverse:
            bounds = ("k", lambda *at: at[axis] + own, x.shape[axis])
        return target.reduce(
            "acc", x.shape, x.dtype, [bounds], init=lambda *at: int(attrs.is_product), update=update
        )

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """CumSum; opsets that are written have no product."""
        attrs: CumulateAttrs = node.attrs
        if attrs.is_product:
            raise ImportFailed(f"{node.name}: ONNX has products of all before since 26 alone")
        axis = out.initializer(f"{node.output.name}.axis", np.asarray(attrs.axis, np.int64))
        out.emit(
            "CumSum", [out.own(node.inputs[0]), axis], out.define_own(node.output),
            exclusive=int(attrs.exclusive), reverse=int(attrs.reverse),
        )  # fmt: skip


def cumulate_attrs(raw: RawNode, is_product: bool = False) -> CumulateAttrs:
    """Those of ONNX's and TFLite's nodes; the axis is a constant input."""
    axis = int(raw.constant(1, "the axis").data.reshape(-1)[0])
    exclusive, reverse = (bool(raw.attribute(key, 0)) for key in ("exclusive", "reverse"))
    return CumulateAttrs(axis_of(axis, len(raw.operand(0).type.shape)), exclusive, reverse,
                         is_product)  # fmt: skip


@from_onnx("CumSum", 11)
@from_onnx("CumProd", 26)
@from_tflite("CUMSUM")
def import_cumulated(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX CumSum and CumProd, and TFLite CUMSUM."""
    attrs = cumulate_attrs(raw, raw.kind == "CumProd")
    if raw.operand(0).type.quant is not None:
        from edgec.ops.tflite_quantized import append_cumulated  # which makes sums of these

        return append_cumulated(builder, raw)
    return builder.op("cumulate", [raw.operand(0)], attrs, name=raw.name)
