"""arg_reduce: the index of the largest or the smallest element along an axis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import IntegerForm
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast, index, maximum, minimum, select
from edgec.numerics.narrow_float import STORED_IN
from edgec.ops.broadcast import operand_tensors
from edgec.ops.cast import write_indices
from edgec.ops.fill_beyond import filled
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.reduce import known_axes, without_axes
from edgec.ops.reductions import BY_NAME
from edgec.ops.slice import constant_integers


@dataclass(frozen=True)
class ArgReduceAttrs:
    """axis: not negative; it has extent 1 in the result. largest: or the smallest. last: of equal
    elements the last index, else the first. dtype: of the indices, int32 or int64."""

    axis: int
    largest: bool = True
    last: bool = False
    dtype: str = "int64"


@register
class ArgReduce(Op[ArgReduceAttrs]):
    """Stored numbers of dtypes that C has; a positive scale changes no order."""

    name = "arg_reduce"
    attrs_class = ArgReduceAttrs
    fusion = Fusion.OPAQUE
    integer_form = IntegerForm.ORDER

    def whole_axes(self, attrs: ArgReduceAttrs, inputs: Types, position: int) -> Collection[int]:
        """The axis that is searched."""
        return (attrs.axis,)

    def infer(self, attrs: ArgReduceAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape with extent 1 along the axis."""
        (x,) = inputs
        if not 0 <= attrs.axis < len(x.shape) or attrs.dtype not in ("int32", "int64"):
            raise TypeMismatch(f"arg_reduce along {attrs.axis} of {x} to {attrs.dtype}")
        if x.dtype in STORED_IN:
            raise TypeMismatch(f"arg_reduce of {x}: it needs numbers that C has")
        if x.quant is not None and not x.quant.per_tensor:
            raise TypeMismatch("arg_reduce of a tensor that is quantized along an axis")
        shape = list(x.shape)
        shape[attrs.axis] = 1
        return (TensorType(tuple(shape), attrs.dtype),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The extreme element first, then where it stands; of NaN the first, as in PyTorch."""
        attrs: ArgReduceAttrs = node.attrs
        (x,) = operand_tensors(target, inputs)
        shape, axis = node.output.type.shape, attrs.axis
        extent = x.shape[axis]
        choose = maximum if attrs.largest else minimum

        def read(at: tuple[Any, ...], k: Any) -> Any:
            return x[(*at[:axis], k, *at[axis + 1 :])]

        def better(acc: Any, *at: Any) -> Any:
            element = read(at[:-1], at[-1])
            return _unless_nan(element, choose(element, acc), element)

        best = target.definition.reduce(
            target.unique("best"), [("k", 0, extent)], init=lambda *at: read(at, 0), update=better,
            shape=shape, dtype=x.dtype,
        )  # fmt: skip

        def place(acc: Any, *at: Any) -> Any:
            k = extent - 1 - at[-1] if not attrs.last else at[-1]
            element = read(at[:-1], k)
            found = select(element.equals(best[at[:-1]]), index(k), acc)
            return _unless_nan(element, found, index(k))

        found = target.definition.reduce(
            target.unique("place"), [("k", 0, extent)], init=lambda *at: 0, update=place,
            shape=shape, dtype="int32",
        )  # fmt: skip
        return target.compute(
            "element", shape, attrs.dtype, lambda *at: cast(found[at], attrs.dtype)
        )

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """ArgMax and ArgMin."""
        attrs: ArgReduceAttrs = node.attrs
        write_indices(
            out, "ArgMax" if attrs.largest else "ArgMin", [out.own(node.inputs[0])], node,
            axis=attrs.axis, keepdims=1, select_last_index=int(attrs.last),
        )  # fmt: skip


def _unless_nan(element: Any, chosen: Any, other: Any) -> Any:
    is_float = element.dtype.startswith("float")
    return select(element.equals(element), chosen, other) if is_float else chosen


def _appended(
    builder: GraphBuilder, raw: RawNode, attrs: ArgReduceAttrs, axis: int, keep: bool
) -> Value:
    x = raw.operand(0).type
    (axis,) = known_axes([axis], x)
    worst = BY_NAME["max" if attrs.largest else "min"].neutral(x.dtype)
    raw = filled(builder, raw, [axis], worst)
    return without_axes(builder, raw, "arg_reduce", replace(attrs, axis=axis), [axis], keep)


@from_onnx("ArgMax")
@from_onnx("ArgMin")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX's, whose indices are int64."""
    last = bool(raw.attribute("select_last_index", 0))
    attrs = ArgReduceAttrs(0, raw.kind == "ArgMax", last)
    keep = bool(raw.attribute("keepdims", 1))
    return _appended(builder, raw, attrs, int(raw.attribute("axis", 0)), keep)


@from_tflite("ARG_MAX")
@from_tflite("ARG_MIN")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite's, along a constant axis, which goes."""
    (axis,) = constant_integers(raw.optional(1), "the axis")
    attrs = ArgReduceAttrs(0, raw.kind == "ARG_MAX", dtype=raw.declared().dtype)
    return _appended(builder, raw, attrs, axis, keep=False)
