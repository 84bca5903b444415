"""Functions of one float32 element: exp, log, erf, sqrt, rsqrt, neg and abs.

Their exact meaning is `edgec.numerics.float_math`, so that C has the same bits without a libm.
"""

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
from edgec.loop.values import Value, intrinsic, maximum
from edgec.numerics import float_math
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite


class Unary(Op[NoAttrs]):
    """One float32 element from one: subclasses say how, on arrays and in loops."""

    fusion = Fusion.ELEMENTWISE
    tolerance = 5e-7
    onnx_kind: ClassVar[str] = ""
    tflite_kind: ClassVar[str] = ""

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the input."""
        (x,) = inputs
        if x.dtype != "float32":
            raise TypeMismatch(f"{self.name} needs float32, not {x}")
        return (x,)

    def evaluate(
        self,
        attrs: NoAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Element by element."""
        with np.errstate(all="ignore"):
            return (np.asarray(self.of_array(inputs[0])),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """Element by element."""
        (x,) = inputs
        shape = node.output.type.shape
        return target.compute("element", shape, "float32", lambda *at: self.of_value(x[at]))

    def of_array(self, x: Array) -> Array:
        """The function on an array."""
        function: Any = getattr(float_math, self.name)
        return np.asarray(function(x))

    def of_value(self, x: Value) -> Value:
        """The function in a loop."""
        return intrinsic(f"{self.name}_f32", x)


def _unary(cls: type[Unary]) -> type[Unary]:
    """Class decorator: register the operator and how the formats name it."""
    register(cls)

    def run(builder: GraphBuilder, raw: RawNode) -> Any:
        (x,) = raw.inputs
        if x is None or x.type.dtype != "float32":
            raise ImportFailed(f"{x and x.type.dtype} input: only float32 is supported yet")
        return builder.op(cls.name, [x], name=raw.name)

    if cls.onnx_kind:
        from_onnx(cls.onnx_kind)(run)
    if cls.tflite_kind:
        from_tflite(cls.tflite_kind)(run)
    return cls


@_unary
class Exp(Unary):
    """e**x."""

    name = "exp"
    onnx_kind, tflite_kind = "Exp", "EXP"


@_unary
class Log(Unary):
    """The natural logarithm."""

    name = "log"
    onnx_kind, tflite_kind = "Log", "LOG"


@_unary
class Erf(Unary):
    """The error function."""

    name = "erf"
    onnx_kind = "Erf"


@_unary
class Sqrt(Unary):
    """The square root, correctly rounded."""

    name = "sqrt"
    onnx_kind, tflite_kind = "Sqrt", "SQRT"


@_unary
class Rsqrt(Unary):
    """1 / sqrt(x)."""

    name = "rsqrt"
    tflite_kind = "RSQRT"


@_unary
class Neg(Unary):
    """-x."""

    name = "neg"
    onnx_kind, tflite_kind = "Neg", "NEG"

    def of_array(self, x: Array) -> Array:
        """The function on an array."""
        return np.asarray(-x)

    def of_value(self, x: Value) -> Value:
        """The function in a loop."""
        return -x


@_unary
class Abs(Unary):
    """|x|: the larger of x and -x."""

    name = "abs"
    onnx_kind, tflite_kind = "Abs", "ABS"

    def of_array(self, x: Array) -> Array:
        """The function on an array."""
        return float_math.float_maximum(x, -x)

    def of_value(self, x: Value) -> Value:
        """The function in a loop."""
        larger: Value = maximum(x, -x)
        return larger
