"""unique: which rows of a tensor differ, how often each stands there, and where.

Every row is compared with all others. NaNs are equal to each other and come after all numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.dtype import is_float
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value as LoopValue
from edgec.loop.values import cast, index, select
from edgec.numerics.narrow_float import STORED_IN
from edgec.ops.broadcast import operand_tensors
from edgec.ops.nonzero import require_computed, write_count
from edgec.ops.onnx_graph import OnnxGraph, own_operands
from edgec.ops.op import Op, RawNode, axis_of, from_onnx
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.scattered import AxisAttrs, GatherAt
from edgec.ops.transpose import transposed

#: By dtype: the ONNX type code of a type that holds all its numbers and that runtimes compare; 0
#: for itself.
_WIDE = {
    "float32": 0, "float64": 0, "int64": 0,
    **dict.fromkeys(("bool", "uint8", "uint16", "uint32", "int8", "int16", "int32"), 7),
}  # fmt: skip


@dataclass(frozen=True)
class UniqueAttrs:
    """ordered: the rows come in their order, element by element; else in that in which they stand
    first.
    """

    ordered: bool = True


@register
class Unique(Op[UniqueAttrs]):
    """x [rows, elements] of any numbers -> index of each distinct row's first occurrence int64
    [rows], each row's distinct number int64 [rows], counts of the distinct rows int64 [rows],
    number of distinct rows int32 [1]. Unused elements are 0.
    """

    name = "unique"
    attrs_class = UniqueAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: UniqueAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One entry for each row."""
        (x,) = inputs
        if len(x.shape) != 2 or not x.elements or x.dtype in STORED_IN or x.quant is not None:
            raise TypeMismatch(f"unique of {x}: it needs rows of plain numbers")
        row = TensorType(x.shape[:1], "int64")
        return row, row, row, TensorType((1,), "int32")

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Unique, which has it for floats and int64; the distinct rows themselves are not read."""
        (x,), (firsts, numbers, counts, count) = own_operands(out, node), node.outputs
        wide = _WIDE.get(node.inputs[0].type.dtype)
        if wide is None:
            raise ImportFailed(f"{node.name}: unique of {node.inputs[0].type} has no ONNX form")
        if wide:
            given, x = x, out.fresh(f"{node.name}.wide")
            out.emit("Cast", [given], x, to=wide)
        outputs = [out.define_own(value) for value in (firsts, numbers, counts)]
        out.emit_several(
            "Unique", [x], [out.fresh(f"{node.name}.rows"), *outputs], axis=0,
            sorted=int(node.attrs.ordered),
        )  # fmt: skip
        for value in (firsts, counts):
            write_count(out, value, 0, count)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Which rows stand first, their numbers, and the results derived from these."""
        attrs: UniqueAttrs = node.attrs
        (x,) = operand_tensors(target, inputs)
        rows, steps = x.shape[0], [("k", 0, x.shape[0])]
        order, define = _order(target, x), target.definition

        def first_equal(acc: LoopValue, i: Any, k: Any) -> LoopValue:
            return select(order(i, k).equals(0) & (index(k) < acc), index(k), acc)

        stands = define.reduce(
            "stands", steps, init=lambda i: index(i), update=first_equal, shape=(rows,),
            dtype="int32",
        )  # fmt: skip

        def one_before(acc: LoopValue, i: Any, k: Any) -> LoopValue:
            before = order(i, k) < 0 if attrs.ordered else stands[k] < stands[i]
            return select(stands[k].equals(index(k)) & before, acc + 1, acc)

        number = define.reduce(
            "number", steps, init=lambda i: 0, update=one_before, shape=(rows,), dtype="int32"
        )
        _write(target, stands, number)
        return target.targets[0]


def _write(target: Lowering, stands: Tensor, number: Tensor) -> None:
    """The outputs, from where an equal row stands first and from each row's number."""
    firsts, numbers, counts, count = target.targets
    define, steps = target.definition, [("k", 0, stands.shape[0])]

    def counted(holds: Any) -> Any:
        return lambda acc, j, k: select(holds(j, k), acc + 1, acc)

    def is_first(j: Any, k: Any) -> LoopValue:
        return stands[k].equals(index(k))

    def has_number(j: Any, k: Any) -> LoopValue:
        return number[k].equals(index(j))

    define.compute(numbers, lambda i: cast(number[i], "int64"))
    define.reduce(
        firsts, steps, init=lambda j: 0,
        update=lambda acc, j, k: select(
            has_number(j, k) & is_first(j, k), index(k, "int64"), acc
        ),
    )  # fmt: skip
    define.reduce(counts, steps, init=lambda j: 0, update=counted(has_number))
    define.reduce(count, steps, init=lambda j: 0, update=counted(is_first))


def _order(target: Lowering, x: Tensor) -> Any:
    """(i, k) -> below 0 if row k comes before row i, 0 if they are equal, else above."""
    rows, elements = x.shape

    def differ(i: Any, k: Any, m: Any) -> LoopValue:
        one, other = x[i, m], x[k, m]
        sign = cast(other > one, "int32") - cast(other < one, "int32")
        if is_float(x.dtype):
            sign = sign + (cast(one.equals(one), "int32") - cast(other.equals(other), "int32"))
        return sign

    if elements == 1:
        return lambda i, k: differ(i, k, 0)
    found = target.definition.reduce(
        "order", [("m", 0, elements)], init=lambda i, k: 0,
        update=lambda acc, i, k, m: select(acc.equals(0), differ(i, k, m), acc),
        shape=(rows, rows), dtype="int32",
    )  # fmt: skip
    return lambda i, k: found[i, k]


@from_onnx("Unique", since=11)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """ONNX Unique: values, where they stand first, which of them each is, and how often."""
    require_computed(raw, 0)
    x, axis = raw.operand(0), raw.attribute("axis")

    def made(op: Any, inputs: Sequence[Value], attrs: Any, what: str) -> Value:
        return builder.op(op, inputs, attrs, name=f"{raw.name}/{what}", sources=(raw.name,))

    if axis is None:
        x = made("reshape", [x], ReshapeAttrs((x.type.elements,)), "flat")
    along = 0 if axis is None else axis_of(int(axis), len(x.type.shape))
    first = x
    if along:
        others = (a for a in range(len(x.type.shape)) if a != along)
        first = transposed(builder, x, (along, *others), f"{raw.name}/first")
    rows = first.type.shape[0]
    shape = (rows, math.prod(first.type.shape[1:]))
    flat = made("reshape", [first], ReshapeAttrs(shape), "rows")
    attrs = UniqueAttrs(bool(raw.attribute("sorted", 1)))
    firsts, numbers, counts, count = builder.node(
        Unique, [flat], attrs, name=f"{raw.name}/unique", sources=(raw.name,)
    ).outputs
    for value in (firsts, counts):
        builder.open(value, 0, count)
    values = builder.op(GatherAt, [x, firsts], AxisAttrs(along), name=raw.name)
    return values, firsts, numbers, counts
