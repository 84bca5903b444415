"""cast: stored integers in another integer type, wrapping as C's conversion does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, register
from edgec.graph.types import Array, TensorType
from edgec.loop import values as loops
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.broadcast import tensors_of
from edgec.ops.op import Op, RawNode, from_tflite

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@dataclass(frozen=True)
class CastAttrs:
    """dtype: the result's element type."""

    dtype: str


@register
class Cast(Op[CastAttrs]):
    """Between integers without quantization."""

    name = "cast"
    attrs_class = CastAttrs
    fusion = Fusion.ELEMENTWISE

    def infer(self, attrs: CastAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same shape with another dtype."""
        (x,) = inputs
        if x.dtype not in INTEGERS or attrs.dtype not in INTEGERS or x.quant is not None:
            raise TypeMismatch(f"cast of {x} to {attrs.dtype}: only plain integers are supported")
        return (TensorType(x.shape, attrs.dtype),)

    def evaluate(
        self,
        attrs: CastAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """NumPy's conversion wraps too."""
        return (inputs[0].astype(attrs.dtype),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element."""
        (x,) = tensors_of(inputs)
        dtype = node.attrs.dtype
        return target.compute(
            "element", node.output.type.shape, dtype, lambda *at: loops.cast(x[at], dtype)
        )


@from_tflite("CAST")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Any:
    """TFLite CAST of integers, to what the output declares."""
    declared = raw.output_types[0]
    if declared is None:
        raise ImportFailed("an input is absent")
    result = builder.op("cast", raw.operands(), CastAttrs(declared.dtype), name=raw.name)
    if raw.operand(0) in builder.undefined:
        builder.undefined.add(result)
    return result
