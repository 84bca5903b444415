"""Functions of one operand: of 8 bits by a table of all results, of 16 and floats by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion
from edgec.graph.traits import Interval, Operand
from edgec.graph.types import Array, Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, int32, saturate
from edgec.numerics.fixed_point import IntArray
from edgec.ops.broadcast import tensors_of
from edgec.ops.op import Op, RawNode


class QuantizedAttrs(Protocol):
    """Attributes of an operator with one quantized output; None stands for floats."""

    @property
    def output(self) -> Quant | None:
        """Quantization of an integer result."""


AttrsT = TypeVar("AttrsT", bound=QuantizedAttrs)

#: Every int8 value, in order.
OPERANDS: IntArray = np.arange(-128, 128, dtype=np.int64)


class ByTable(Op[AttrsT]):
    """int8 to int8, or int16 to int16 in some subclasses, each quantized per tensor.

    Or float32 to float32, if `output` is None. A subclass defines the results of `stored` values,
    for int16 also the loops, and the float function on arrays and in loops.
    """

    fusion = Fusion.ELEMENTWISE
    #: Element types that a subclass has.
    dtypes: ClassVar[tuple[str, ...]] = ("int8",)

    def stored(self, attrs: AttrsT, values: IntArray, x: TensorType) -> IntArray:
        """Results of stored values, as int64; they are limited to the dtype later."""
        raise NotImplementedError

    def arithmetic(
        self, attrs: AttrsT, x: TensorType, target: Lowering
    ) -> Callable[[Value], Value]:
        """`stored` of an int16 value that is widened to int32, in the loop IR."""
        raise NotImplementedError

    def of_float(self, attrs: AttrsT, x: Value) -> Value:
        """The function of a float32 value."""
        raise NotImplementedError

    def check(self, attrs: AttrsT, x: TensorType) -> None:
        """Raise TypeMismatch where a quantized input and output have no meaning."""

    def infer(self, attrs: AttrsT, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape of the input with the output's quantization."""
        (x,) = inputs
        if x.dtype == "float32":
            if attrs.output is not None:
                raise TypeMismatch(f"{self.name} of floats has no quantization")
            return (x,)
        if x.dtype not in self.dtypes or x.quant is None or not x.quant.per_tensor:
            known = " or ".join(self.dtypes)
            raise TypeMismatch(
                f"{self.name} needs {known} quantized per tensor or float32, not {x}"
            )
        if attrs.output is None or not attrs.output.per_tensor:
            raise TypeMismatch(f"{self.name} of {x.dtype} needs an output quantized per tensor")
        if x.dtype == "int16" and any((*x.quant.zero_point, *attrs.output.zero_point)):
            raise TypeMismatch(f"{self.name} of int16 needs zero points of 0")
        self.check(attrs, x)
        return (TensorType(x.shape, x.dtype, attrs.output),)

    def table(self, attrs: AttrsT, x: TensorType) -> Array:
        """The results of -128..127."""
        return np.clip(self.stored(attrs, OPERANDS, x), -128, 127).astype(np.int8)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One load from the table for every element, or the arithmetic."""
        (x,) = tensors_of(inputs)
        output = node.output.type
        if output.is_float:
            return target.compute(
                "element", output.shape, "float32", lambda *at: self.of_float(node.attrs, x[at])
            )
        if output.dtype == "int8":
            table = target.table("results", self.table(node.attrs, node.input_types[0]))
            return target.compute(
                "element", output.shape, "int8", lambda *at: table[int32(x[at]) + 128]
            )
        result = self.arithmetic(node.attrs, node.input_types[0], target)

        def element(*at: Any) -> Value:
            return saturate(result(int32(x[at])), output.dtype)

        return target.compute("element", output.shape, output.dtype, element)

    def interval(
        self, attrs: AttrsT, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """The smallest and largest result of all stored values within the interval."""
        if operands[0].interval is None:
            return None
        results = self.table(attrs, operands[0].type).astype(np.int64)
        ends = zip(*operands[0].interval, strict=True)
        parts = [results[low + 128 : high + 129] for low, high in ends]
        return np.array([part.min() for part in parts]), np.array([part.max() for part in parts])


def tflite_unary(raw: RawNode) -> tuple[Any, TensorType]:
    """The only input and the declared output type of a TFLite node."""
    declared = raw.output_types[0]
    if declared is None:
        raise ImportFailed("an input is absent")
    return raw.operand(0), declared
