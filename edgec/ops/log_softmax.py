"""log_softmax: the logarithm of softmax over the last axis."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.traits import IntegerForm, StoredAs
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import intrinsic
from edgec.ops.broadcast import tensor_of
from edgec.ops.log_softmax_int8 import RESULT, lower_int8, result_type
from edgec.ops.onnx_graph import OnnxGraph, write_own
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.softmax_float import along_last_axis, lower_rows


@register
class LogSoftmax(Op[NoAttrs]):
    """float32, see `edgec.ops.softmax_float`, or int8, see `edgec.ops.log_softmax_int8`."""

    name = "log_softmax"
    fusion = Fusion.OPAQUE
    tolerance = 5e-7
    integer_form = IntegerForm.ONE_OPERAND
    integer_dtypes = ("int8",)
    normalizes = True
    along_last_axis = True

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the input; of int8 with the one quantization that TFLite has."""
        (x,) = inputs
        if x.dtype == "int8" and x.elements and x.shape:
            return (result_type(x),)
        if x.dtype != "float32" or not x.shape or x.elements < 1:
            raise TypeMismatch(
                f"log_softmax needs at least one element of float32 or int8, not {x}"
            )
        return (x,)

    def fixed_quant(self, dtype: str) -> Quant | None:
        """The one quantization that TFLite has."""
        return RESULT if dtype == "int8" else None

    def attrs_for_integers(self, attrs: NoAttrs, inputs: Types, result: StoredAs) -> NoAttrs | None:
        """Allow int8 results with TFLite's quantization only."""
        is_known = result.is_whole and (result.dtype, result.quant) == ("int8", RESULT)
        return attrs if is_known else None

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One logarithm for each row."""
        if not node.output.type.is_float:
            scale, _ = node.inputs[0].type.scalar_quant()
            return lower_int8(target, tensor_of(inputs[0]), scale)
        return lower_rows(
            node,
            target,
            tensor_of(inputs[0]),
            1.0,
            finish=lambda difference, logarithm: difference - logarithm,
            of_row=lambda total: intrinsic("log_f32", total),
        )

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """LogSoftmax."""
        write_own(out, node, "LogSoftmax", axis=-1)


@from_tflite("LOG_SOFTMAX")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite LOG_SOFTMAX."""
    return builder.op("log_softmax", raw.operands(1), name=raw.name)


@from_onnx("LogSoftmax")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX LogSoftmax."""
    return along_last_axis(builder, raw, "log_softmax", NoAttrs())
