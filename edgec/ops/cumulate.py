"""cumulate: of each place along an axis the sum or the product of all up to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import IntegerForm, StoredAs
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop.define import ReduceAxis, Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import int32, intrinsic, saturate
from edgec.numerics.fixed_point import Rounding, quantize_multiplier
from edgec.ops.broadcast import operand_tensors
from edgec.ops.fill_beyond import filled, reopened
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, axis_of, from_onnx, from_tflite
from edgec.ops.reduce import MOST_ELEMENTS
from edgec.ops.row import INTEGERS


@dataclass(frozen=True)
class CumulateAttrs:
    """axis: not negative. exclusive: without the place itself. reverse: of all from it on.

    is_product: products, not sums. output: quantization of sums of quantized integers, else None.
    rounding: `tflm` or `onnx`, of these.
    """

    axis: int
    exclusive: bool = False
    reverse: bool = False
    is_product: bool = False
    output: Quant | None = None
    rounding: Rounding = "tflm"


def _rescaled_type(attrs: CumulateAttrs, x: TensorType, quant: Quant) -> TensorType:
    """The type of sums of quantized elements."""
    is_known = x.dtype in MOST_ELEMENTS and quant.per_tensor and not attrs.is_product
    fits = is_known and x.shape[attrs.axis] <= MOST_ELEMENTS[x.dtype]
    if not fits or attrs.output is None or not attrs.output.per_tensor:
        raise TypeMismatch(f"cumulate of {x} to {attrs.output}")
    return TensorType(x.shape, x.dtype, attrs.output)


@register
class Cumulate(Op[CumulateAttrs]):
    """Floats and integers without quantization; these wrap. Elements are taken in their order.

    Sums of quantized int8 and int16 are rescaled, each once.
    """

    name = "cumulate"
    attrs_class = CumulateAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6
    integer_form = IntegerForm.ONE_OPERAND
    approximates = True

    def form_of(self, attrs: CumulateAttrs) -> IntegerForm | None:
        """Sums are rescaled; products have none."""
        return None if attrs.is_product else self.integer_form

    def attrs_for_integers(
        self, attrs: CumulateAttrs, inputs: Types, result: StoredAs
    ) -> CumulateAttrs | None:
        """The same with the result's parameters, where nothing else limits it."""
        rounding: Rounding = "onnx" if result.rounding == "onnx" else "tflm"
        own = replace(attrs, output=result.quant, rounding=rounding)
        return own if result.is_whole else None

    def whole_axes(self, attrs: CumulateAttrs, inputs: Types, position: int) -> Collection[int]:
        """Sums from the end need the whole axis; sums from the start need only the part in use."""
        return (attrs.axis,) if attrs.reverse else ()

    def infer(self, attrs: CumulateAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's type."""
        (x,) = inputs
        if not 0 <= attrs.axis < len(x.shape):
            raise TypeMismatch(f"cumulate along axis {attrs.axis} of {x}")
        if x.quant is not None:
            return (_rescaled_type(attrs, x, x.quant),)
        if x.dtype not in ("float32", "float64", *INTEGERS):
            raise TypeMismatch(f"cumulate of {x}")
        return (x,)

    def steps(self, attrs: CumulateAttrs, inputs: Types) -> int:
        """Each element is added to the ones before it."""
        return inputs[0].shape[attrs.axis]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation for each element."""
        attrs: CumulateAttrs = node.attrs
        (x,) = operand_tensors(target, inputs)
        axis, own, quant = attrs.axis, int(attrs.exclusive), node.inputs[0].type.quant
        if attrs.output is not None and quant is not None:
            return _rescaled_sums(target, x, attrs, attrs.output, quant)
        if own and x.shape[axis] == 1:  # nothing comes before the only element
            return target.compute("element", x.shape, x.dtype, lambda *at: int(attrs.is_product))

        def update(acc: Any, *at: Any) -> Any:
            value = x[_source(axis, at)]
            return acc * value if attrs.is_product else acc + value

        return target.reduce(
            "acc", x.shape, x.dtype, [_bounds(attrs, x)], init=lambda *at: int(attrs.is_product),
            update=update,
        )  # fmt: skip

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """CumSum; opsets that are written have no product."""
        attrs: CumulateAttrs = node.attrs
        if attrs.is_product:
            raise ImportFailed(f"{node.name}: ONNX has cumulative products only since opset 26")
        axis = out.initializer(f"{node.output.name}.axis", np.asarray(attrs.axis, np.int64))
        out.emit(
            "CumSum", [out.own(node.inputs[0]), axis], out.define_own(node.output),
            exclusive=int(attrs.exclusive), reverse=int(attrs.reverse),
        )  # fmt: skip


def _source(axis: int, at: Sequence[Any]) -> tuple[Any, ...]:
    return (*at[:axis], at[-1], *at[axis + 1 : -1])


def _bounds(attrs: CumulateAttrs, x: Tensor) -> ReduceAxis:
    """Which elements along the axis a result is made of."""
    axis, own = attrs.axis, int(attrs.exclusive)
    if attrs.reverse:
        return "k", lambda *at: at[axis] + own, x.shape[axis]
    return "k", 0, lambda *at: at[axis] + (1 - own)


def _rescaled_sums(
    target: Lowering, x: Tensor, attrs: CumulateAttrs, output: Quant, quant: Quant
) -> Tensor:
    """Sums of stored elements in 32 bits, then in the output's scale."""
    ratio = quant.scale[0] / output.scale[0]
    factor = (float(np.float32(ratio)),) if attrs.rounding == "onnx" else quantize_multiplier(ratio)
    is_nothing = attrs.exclusive and x.shape[attrs.axis] == 1
    sums = None if is_nothing else target.definition.reduce(
        target.unique("sums"), [_bounds(attrs, x)], init=lambda *at: 0,
        update=lambda acc, *at: acc + (int32(x[_source(attrs.axis, at)]) - quant.zero_point[0]),
        shape=x.shape, dtype="int32",
    )  # fmt: skip

    def element(*at: Any) -> Any:
        if sums is None:
            return output.zero_point[0]
        scaled = intrinsic(f"requantize_{attrs.rounding}", sums[at], *factor)
        return saturate(scaled + output.zero_point[0], x.dtype)

    return target.compute("element", x.shape, x.dtype, element)


def cumulate_attrs(raw: RawNode, is_product: bool = False) -> CumulateAttrs:
    """The attributes of ONNX's and TFLite's nodes; the axis is a constant input."""
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
    if not attrs.reverse:
        return builder.op("cumulate", [raw.operand(0)], attrs, name=raw.name)
    whole = filled(builder, raw, [attrs.axis], int(attrs.is_product))
    made = builder.op("cumulate", [whole.operand(0)], attrs, name=raw.name)
    return reopened(builder, raw, attrs.axis, made)
