"""log_softmax: the logarithm of softmax over the last axis."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import intrinsic
from edgec.ops.broadcast import tensor_of
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.softmax_float import along_last_axis, lower_rows


@register
class LogSoftmax(Op[NoAttrs]):
    """float32; see `edgec.ops.softmax_float`."""

    name = "log_softmax"
    fusion = Fusion.OPAQUE
    tolerance = 5e-7

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the input."""
        (x,) = inputs
        if x.dtype != "float32" or not x.shape or x.elements < 1:
            raise TypeMismatch(f"log_softmax needs at least one float32 element, not {x}")
        return (x,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One logarithm for each row."""
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
        out.emit("LogSoftmax", [out.own(node.inputs[0])], out.define_own(node.output), axis=-1)


@from_tflite("LOG_SOFTMAX")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite LOG_SOFTMAX of floats."""
    (x,) = raw.operands(1)
    if x.type.dtype != "float32":
        raise ImportFailed(f"{x.type.dtype} input: only float32 is supported yet")
    return builder.op("log_softmax", raw.operands(), name=raw.name)


@from_onnx("LogSoftmax")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX LogSoftmax."""
    return along_last_axis(builder, raw, "log_softmax", NoAttrs())
