"""Functions of two float32 elements after broadcasting: div and squared_difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Node
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.activation import append_activation
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.int_arithmetic import import_integers
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite


class Binary(Op[NoAttrs]):
    """One float32 element from two: `apply` takes arrays, or values in loops."""

    fusion = Fusion.BROADCAST
    onnx_kind: ClassVar[str] = ""
    tflite_kind: ClassVar[str] = ""

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The broadcast shape."""
        a, b = inputs
        if a.dtype != "float32" or b.dtype != "float32":
            raise TypeMismatch(f"{self.name} needs float32, not {a} and {b}")
        return (TensorType(broadcast_shape(self.name, inputs), "float32"),)

    def evaluate(
        self,
        attrs: NoAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Element by element."""
        with np.errstate(all="ignore"):
            return (np.asarray(self.apply(inputs[0], inputs[1])),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """Element by element; a dimension of extent 1 is read again for every index."""
        a, b = operand_tensors(target, inputs)

        def element(*at: Any) -> Any:
            return self.apply(a[broadcast_index(a.shape, at)], b[broadcast_index(b.shape, at)])

        return target.compute("element", node.output.type.shape, "float32", element)

    def apply(self, a: Any, b: Any) -> Any:
        """The function."""
        raise NotImplementedError


def _binary(cls: type[Binary]) -> type[Binary]:
    """Class decorator: register the operator and how the formats name it."""
    register(cls)

    def check(raw: RawNode) -> None:
        types = [str(value and value.type.dtype) for value in raw.inputs]
        if types != ["float32", "float32"]:
            raise ImportFailed(f"inputs {', '.join(types)}: only two of float32 are supported yet")

    def run_onnx(builder: GraphBuilder, raw: RawNode) -> Any:
        check(raw)
        return builder.op(cls.name, raw.inputs, name=raw.name)

    def run_tflite(builder: GraphBuilder, raw: RawNode) -> Any:
        if cls.name == "div" and all(v and v.type.dtype == "int32" for v in raw.inputs):
            return import_integers(builder, raw, "int_div")
        check(raw)
        return append_activation(builder, raw, cls.name, raw.inputs)

    if cls.onnx_kind:
        from_onnx(cls.onnx_kind, since=7)(run_onnx)
    if cls.tflite_kind:
        from_tflite(cls.tflite_kind)(run_tflite)
    return cls


@_binary
class Div(Binary):
    """a / b."""

    name = "div"
    onnx_kind, tflite_kind = "Div", "DIV"

    def apply(self, a: Any, b: Any) -> Any:
        """The function."""
        return a / b


@_binary
class SquaredDifference(Binary):
    """(a - b) squared."""

    name = "squared_difference"
    tflite_kind = "SQUARED_DIFFERENCE"

    def apply(self, a: Any, b: Any) -> Any:
        """The function."""
        return (a - b) * (a - b)
