"""rms_norm: each row of the last axis with a mean square of one, then scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, Operator, get_op, register
from edgec.graph.traits import IntegerForm, StoredAs
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import intrinsic
from edgec.ops.broadcast import tensor_of
from edgec.ops.integer_norm import IntegerNorm, IntegerNormAttrs
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op


@dataclass(frozen=True)
class RmsNormAttrs:
    """epsilon: added to a mean square, so that no row is divided by zero."""

    epsilon: float = 1e-5


@register
class RmsNorm(Op[RmsNormAttrs]):
    """x [..., C], scale [C] -> x / sqrt(mean of x**2 + epsilon) * scale, of float32.

    `edgec.ops.norm_parts` finds it in files; sums are taken in order.
    """

    name = "rms_norm"
    attrs_class = RmsNormAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6
    integer_form = IntegerForm.ONE_OPERAND
    along_last_axis = True

    def integer_op(self, dtype: str) -> Operator[Any]:
        """One of stored integers, with the float scale as a constant."""
        return get_op(IntegerNorm)

    def attrs_for_integers(self, attrs: RmsNormAttrs, inputs: Types, result: StoredAs) -> Any:
        """A norm that does not subtract the mean."""
        return IntegerNormAttrs(False, attrs.epsilon, result.quant, result.minimum, result.maximum)

    def infer(self, attrs: RmsNormAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The type of x."""
        x, scale = inputs
        if x.dtype != "float32" or not x.shape or scale != TensorType(x.shape[-1:], "float32"):
            raise TypeMismatch(f"rms_norm of {x} by {scale}")
        return (x,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A sum and a factor for each row."""
        x, scale, epsilon = tensor_of(inputs[0]), inputs[1], node.attrs.epsilon
        *outer, length = x.shape
        factors = target.table("scale", scale.data) if isinstance(scale, Constant) else scale
        define, rows = target.definition, tuple(outer)
        squares = define.reduce(
            "squares",
            [("k", 0, length)],
            init=lambda *row: 0,
            update=lambda acc, *at: acc + x[at] * x[at],
            shape=rows,
            dtype="float32",
        )
        root = define.compute(
            "factor",
            lambda *row: 1.0 / intrinsic("sqrt_f32", squares[row] / float(length) + epsilon),
            shape=rows,
            dtype="float32",
        )

        def element(*at: Any) -> Any:
            return x[at] * root[at[:-1]] * factors[at[-1]]

        return target.compute("element", node.output.type.shape, "float32", element)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Write its parts: ONNX has the operator only from opset 23 on."""
        x, scale = (out.own(value) for value in node.inputs)
        name = node.output.name
        square, mean, sum_, root, normal = (
            out.fresh(f"{name}.{part}") for part in ("square", "mean", "sum", "root", "normal")
        )
        out.emit("Mul", [x, x], square)
        axes = [len(node.output.type.shape) - 1]
        if out.opset >= 18:
            listed = out.initializer(f"{name}.axes", np.asarray(axes, np.int64))
            out.emit("ReduceMean", [square, listed], mean, keepdims=1)
        else:
            out.emit("ReduceMean", [square], mean, axes=axes, keepdims=1)
        epsilon = out.initializer(f"{name}.epsilon", np.asarray(node.attrs.epsilon, np.float32))
        out.emit("Add", [mean, epsilon], sum_)
        out.emit("Sqrt", [sum_], root)
        out.emit("Div", [x, root], normal)
        out.emit("Mul", [normal, scale], out.define_own(node.output))
