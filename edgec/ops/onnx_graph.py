"""The graph to which operators export themselves as ONNX, without foreign types.

`edgec/frontends/onnx_writer.py` implements it; `Op.write_onnx` of each operator calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array, Quant, TensorType, Types

#: The order of the axes of [N, H, W, C] in [N, C, H, W].
TO_FIRST = (0, 3, 1, 2)


class OnnxGraph(Protocol):
    """Collects ONNX nodes and initializers. Values are channels-last here, in ONNX's windowed
    operators channels-first: a value may have a tensor in either order.
    """

    opset: int
    producers: Mapping[Value, Node]

    def fresh(self, name: str) -> str:
        """`name`, or `name_1`, … if it is taken."""

    def emit(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        """Append a node with one output."""

    def emit_several(
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> None:
        """Append a node with several outputs."""

    def initializer(self, name: str, data: Array) -> str:
        """Store constant data under a fresh name."""

    def own(self, value: Value) -> str:
        """The tensor of a value in the order of its own type."""

    def first(self, value: Value) -> str:
        """The tensor of a value [N, H, W, C] as [N, C, H, W]."""

    def define_own(self, value: Value) -> str:
        """A fresh tensor for a new value in its own order."""

    def define_first(self, value: Value) -> str:
        """A fresh tensor for a new value, channels-first."""

    def tensors_of(self, node: Node) -> tuple[list[str], str, bool]:
        """Tensors of a node that works in either order, and whether it is channels-first."""

    def constant_of(self, value: Value) -> Constant | None:
        """The constant that a value is, or that it is dequantized from."""

    def operand(
        self,
        value: Value,
        change: Callable[[Array], Array],
        axis: int,
        reorder: Callable[[Array], Array] | None = None,
    ) -> str:
        """Weights or a bias, rearranged by `change`; stored integers keep their dequantize.

        axis: the axis of the scales after `change`. reorder: the order of elements along it after
        `change`, if it differs.
        """

    def parameters(self, name: str, quant: Quant, dtype: str) -> list[str]:
        """Initializers of scale and zero point."""

    def is_read(self, value: Value) -> bool:
        """Whether a node reads a value, or it is a result that is written."""

    def open(self, value: Value, axis: int, number: Value) -> None:
        """Say that an axis of a value is only as large in the file as a number says."""

    def open_axes(self, value: Value) -> Collection[int]:
        """The axes of a value that are smaller in the file where data decide so."""

    def body(self, body: Function, given: Sequence[str]) -> list[str]:
        """Write the nodes of a body here, and return the tensors of its results."""

    def graph(
        self,
        name: str,
        inputs: Sequence[tuple[str, TensorType]],
        results: Types,
        write: Callable[[], Sequence[str]],
    ) -> Any:
        """A graph in a node, of the nodes that `write` emits; it returns the results."""


def as_stored(data: Array) -> Array:
    """A change that leaves an operand as it is."""
    return data


def write_own(out: OnnxGraph, node: Node, kind: str, **attributes: Any) -> None:
    """Append a node of the same operands and one output, each in the order of its own axes."""
    out.emit(kind, own_operands(out, node), out.define_own(node.output), **attributes)


def own_operands(out: OnnxGraph, node: Node) -> list[str]:
    """A node's inputs with their axes in the node's own order."""
    return [
        out.own(value) if out.constant_of(value) is None else out.operand(value, as_stored, 0)
        for value in node.inputs
    ]


def as_int64(out: OnnxGraph, value: Value, tensor: str) -> str:
    """A tensor of a value's integers, in the only dtype that some of ONNX's operators take."""
    if value.type.dtype == "int64":
        return tensor
    wide = out.fresh(f"{tensor}.int64")
    out.emit("Cast", [tensor], wide, to=7)  # TensorProto.INT64
    return wide


def onnx_pads(padding: Sequence[tuple[int, int]]) -> list[int]:
    """Padding of height and width in ONNX's order."""
    (top, bottom), (left, right) = padding
    return [top, left, bottom, right]


def write_convolution(
    out: OnnxGraph, node: Node, change: Callable[[Array], Array], group: int
) -> None:
    """Conv with weights that `change` brings to [O, C / group, KH, KW]."""
    x, weights, bias = node.inputs
    operands = [out.first(x), out.operand(weights, change, 0), out.operand(bias, as_stored, 0)]
    attrs = node.attrs
    out.emit(
        "Conv", operands, out.define_first(node.output), group=group, strides=attrs.stride,
        dilations=attrs.dilation, pads=onnx_pads(attrs.padding),
    )  # fmt: skip


def write_pool(out: OnnxGraph, node: Node, kind: str) -> None:
    attrs = node.attrs
    out.emit(
        kind, [out.first(node.inputs[0])], out.define_first(node.output),
        kernel_shape=attrs.kernel, strides=attrs.stride, pads=onnx_pads(attrs.padding),
    )  # fmt: skip


def written_axis(axis: int, first: bool) -> int:
    """An axis of [N, H, W, C] as one of the tensor that is written."""
    return TO_FIRST.index(axis) if first else axis


def written_list(values: object, first: bool) -> list[int]:
    """A list with an entry for each axis of a value, in the axis order of the written tensor."""
    items = [int(value) for value in np.asarray(values).reshape(-1)]
    return [items[axis] for axis in TO_FIRST] if first else items
