"""nonzero: the indices of all elements that are not zero, in order, and how many there are.

Of each element its rank is known: how many up to it are not zero. The place of number j is the
first one whose rank exceeds j, which bisection finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import Array, Arrays, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value as LoopValue
from edgec.loop.values import cast, index, minimum, select
from edgec.numerics.narrow_float import STORED_IN
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_graph import OnnxGraph, own_operands
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.scattered import AxisAttrs, GatherAt

#: Their codes in ONNX.
_INT32, _BOOL = 6, 9


@register
class Nonzero(Op[NoAttrs]):
    """x [...] of any numbers or bool -> indices int64 [rank, elements], how many int32 [1].

    A column has the index along each axis; columns that are not in use are zeros.
    """

    name = "nonzero"
    fusion = Fusion.OPAQUE

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A column for each element."""
        (x,) = inputs
        if not x.shape or not x.elements or x.dtype in STORED_IN or x.quant is not None:
            raise TypeMismatch(f"nonzero of {x}: it needs elements along axes, and plain numbers")
        return TensorType((len(x.shape), x.elements), "int64"), TensorType((1,), "int32")

    def evaluate(
        self, attrs: NoAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """NumPy's; loops take a step for each element."""
        found = np.array(np.nonzero(inputs[0]), np.int64)
        indices = np.zeros(output_types[0].shape, np.int64)
        indices[:, : found.shape[1]] = found
        return indices, np.array([found.shape[1]], np.int32)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """NonZero; its columns are the ones in use."""
        (given,), (indices, count) = own_operands(out, node), node.outputs
        if node.inputs[0].type.dtype != "bool":
            given, number = out.fresh(f"{node.name}.bool"), given
            out.emit("Cast", [number], given, to=_BOOL)
        out.emit("NonZero", [given], out.define_own(indices))
        write_count(out, indices, 1, count)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The columns in use, and the index of each along each axis."""
        (x,) = operand_tensors(target, inputs)
        indices, count = target.targets
        elements = math.prod(x.shape)

        def holds(at: tuple[Any, ...]) -> LoopValue:
            return x[at] if x.dtype == "bool" else x[at].equals(0).equals(0)

        found = indices_where(target, x.shape, count, holds)

        def along(axis: int) -> None:
            target.definition.compute(
                indices, lambda j: cast(select(index(j) < count[0], found(j)[axis], 0), "int64"),
                shape=(elements,), at=lambda j: (axis, j), name=f"axis{axis}",
            )  # fmt: skip

        for axis in range(len(x.shape)):
            along(axis)
        return indices


def indices_where(
    target: Lowering,
    shape: Sequence[int],
    count: Tensor,
    holds: Callable[[tuple[Any, ...]], LoopValue],
) -> Callable[[Any], tuple[LoopValue, ...]]:
    """Count in int32 [1] where something holds; number j -> its index along each axis."""
    define, elements = target.definition, math.prod(shape)
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]

    def counted(t: Any, i: Any) -> LoopValue:
        at = tuple(t // s % extent for s, extent in zip(strides, shape, strict=True))
        return select(holds(at), count[i] + 1, count[i])

    ranks = define.temporary("ranks", (elements,), "int32")
    define.compute(count, lambda i: 0, name="none")
    with define.steps("elements", elements):
        define.compute(count, counted, name="count")
        define.compute(ranks, lambda t, i: count[i], shape=(1,), at=lambda t, i: (t,), name="rank")
    found = _bisected(target, ranks)

    def indices_of(j: Any) -> tuple[LoopValue, ...]:
        whole = [found[j] / stride for stride in strides]
        return tuple(e - e / extent * extent for e, extent in zip(whole, shape, strict=True))

    return indices_of


def write_count(out: OnnxGraph, value: Value, axis: int, count: Value) -> None:
    """Say that an axis of a value is open in ONNX, and write how large it is where that is read."""
    out.open(value, axis, count)
    if not out.is_read(count):
        return
    tensor = out.own(value)
    shape, extent = out.fresh(f"{tensor}.shape"), out.fresh(f"{tensor}.extent")
    out.emit("Shape", [tensor], shape)
    place = out.initializer(f"{tensor}.axis", np.array([axis], np.int64))
    out.emit("Gather", [shape, place], extent)
    out.emit("Cast", [extent], out.define_own(count), to=_INT32)


def _bisected(target: Lowering, ranks: Tensor) -> Tensor:
    """Return for each number how many of the ascending ranks do not exceed it."""
    (elements,) = ranks.shape
    digits = elements.bit_length()
    powers = target.table("powers", 2 ** np.arange(digits, dtype=np.int32)[::-1].copy())

    def update(acc: LoopValue, j: Any, digit: Any) -> LoopValue:
        further = acc + powers[digit]
        last = minimum(further, elements) - 1
        is_below = (further <= elements) & (ranks[last] <= index(j))
        return select(is_below, further, acc)

    return target.definition.reduce(
        target.unique("found"), [("digit", 0, digits)], init=lambda j: 0, update=update,
        shape=(elements,), dtype="int32",
    )  # fmt: skip


def compressed(builder: GraphBuilder, x: Value, axis: int, condition: Value, name: str) -> Value:
    """The parts of x along an axis where a condition holds, which may be shorter than the axis."""
    if condition.type.elements > x.type.shape[axis]:
        raise ImportFailed(
            f"a condition of {condition.type.elements} elements for"
            f" {x.type.shape[axis]} along axis {axis}"
        )
    indices, count = builder.node("nonzero", [condition], name=f"{name}/places", sources=()).outputs
    builder.open(indices, 1, count)
    picked = ReshapeAttrs(condition.type.shape)
    row = builder.op("reshape", [indices], picked, name=f"{name}/row", sources=())
    return builder.op(GatherAt, [x, row], AxisAttrs(axis), name=name)


def require_computed(raw: RawNode, *positions: int) -> None:
    """Raise ImportFailed for a node of constants: its result is one, of its own size."""
    if all(isinstance(raw.operand(position), Constant) for position in positions):
        raise ImportFailed("its result is a constant")


@from_onnx("NonZero", since=9)
def import_nonzero(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX NonZero: one column for each element that is not zero."""
    require_computed(raw, 0)
    indices, count = builder.node("nonzero", [raw.operand(0)], name=raw.name).outputs
    builder.open(indices, 1, count)
    return indices
