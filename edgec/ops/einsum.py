"""einsum: sums of products of elements whose axes are named by letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters, ascii_lowercase
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_graph import OnnxGraph, write_own
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.row import FLOATS, INTEGERS


@dataclass(frozen=True)
class EinsumAttrs:
    """inputs: a letter for each axis of each operand. output: the letters that stay, in order."""

    inputs: tuple[str, ...]
    output: str


@register
class Einsum(Op[EinsumAttrs]):
    """Numbers of one dtype. An axis of extent 1 is broadcast; axes absent from the output are
    summed.
    """

    name = "einsum"
    attrs_class = EinsumAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6
    onnx_since = 12

    def infer(self, attrs: EinsumAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The extents of the letters that stay."""
        extents = _extents(attrs, inputs)
        first = inputs[0]
        if first.dtype not in (*FLOATS, *INTEGERS) or any(
            x.dtype != first.dtype or x.quant is not None for x in inputs
        ):
            raise TypeMismatch(f"einsum of {' and '.join(map(str, inputs))}")
        if len(set(attrs.output)) != len(attrs.output) or set(attrs.output) - extents.keys():
            raise TypeMismatch(f"einsum to {attrs.output!r} of {', '.join(attrs.inputs)}")
        return (TensorType(tuple(extents[letter] for letter in attrs.output), first.dtype),)

    def macs(self, attrs: EinsumAttrs, inputs: Types) -> int:
        """A product for each choice of all letters."""
        total = 1
        for extent in _extents(attrs, inputs).values():
            total *= extent
        return total

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One sum for each element."""
        attrs: EinsumAttrs = node.attrs
        tensors = operand_tensors(target, inputs)
        extents = _extents(attrs, [value.type for value in node.inputs])
        summed = [letter for letter in extents if letter not in attrs.output]

        def product(*at: Any) -> Any:
            place = dict(zip((*attrs.output, *summed), at, strict=True))
            total = None
            for x, letters in zip(tensors, attrs.inputs, strict=True):
                axes = zip(letters, x.shape, strict=True)
                found = x[tuple(place[one] if extent > 1 else 0 for one, extent in axes)]
                total = found if total is None else total * found
            return total

        shape, dtype = node.output.type.shape, node.output.type.dtype
        if not summed:
            return target.compute("element", shape, dtype, product)
        steps = [(f"k{n}", 0, extents[letter]) for n, letter in enumerate(summed)]
        return target.reduce(
            "acc", shape, dtype, steps, init=lambda *at: 0,
            update=lambda acc, *at: acc + product(*at),
        )  # fmt: skip

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Einsum, every axis with its letter."""
        equation = f"{','.join(node.attrs.inputs)}->{node.attrs.output}"
        write_own(out, node, "Einsum", equation=equation)


def _extents(attrs: EinsumAttrs, inputs: Types) -> dict[str, int]:
    """The extent of each letter. Raises TypeMismatch where two do not fit."""
    found: dict[str, int] = {}
    if len(attrs.inputs) != len(inputs):
        raise TypeMismatch(f"einsum of {len(inputs)} operands as {', '.join(attrs.inputs)}")
    for letters, x in zip(attrs.inputs, inputs, strict=True):
        if len(letters) != len(x.shape):
            raise TypeMismatch(f"einsum of {x} as {letters!r}")
        for letter, extent in zip(letters, x.shape, strict=True):
            if 1 not in (extent, found.get(letter, extent)) and found.get(letter, extent) != extent:
                raise TypeMismatch(f"einsum: {letter!r} is {found[letter]} and {extent}")
            found[letter] = extent if found.get(letter, 1) == 1 else found[letter]
    return found


@from_onnx("Einsum", since=12)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Einsum."""
    operands = raw.operands()
    terms, output = _spelled_out(raw, operands)
    if output:
        return builder.op("einsum", operands, EinsumAttrs(tuple(terms), output), name=raw.name)
    return _to_one(builder, terms, operands, raw.name)


def _spelled_out(raw: RawNode, operands: Sequence[Value]) -> tuple[list[str], str]:
    """The operands' terms and the output's, with letters for the axes of an ellipsis."""
    left, arrow, output = raw.attribute("equation", "").replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise ImportFailed(f"{len(operands)} inputs for {len(inputs)} terms")
    named = {letter for term in (*inputs, output) for letter in term if letter.isalpha()}
    free = sorted({*ascii_lowercase} - named)
    ranks = [len(x.type.shape) - len(term.replace("...", ""))
             for x, term in zip(operands, inputs, strict=True)]  # fmt: skip
    open_ranks = (rank for rank, term in zip(ranks, inputs, strict=True) if "..." in term)
    most = max(open_ranks, default=0)
    if most > len(free) or min(ranks) < 0:
        raise ImportFailed(f"the equation {raw.attribute('equation', '')!r} does not fit")
    terms = [
        term.replace("...", "".join(free[most - max(rank, 0) : most]))
        for term, rank in zip(inputs, ranks, strict=True)
    ]
    if not arrow:
        once = sorted(letter for letter in named if left.count(letter) == 1)
        output = "..." * ("..." in left) + "".join(once)
    return terms, output.replace("...", "".join(free[:most]))


def _to_one(
    builder: GraphBuilder, terms: Sequence[str], operands: Sequence[Value], name: str
) -> Value:
    """The sum of all products: schedules want an axis, which has one element then."""
    one = next(letter for letter in ascii_letters if letter not in "".join(terms))
    first, *rest = operands
    longer = ReshapeAttrs((1, *first.type.shape))
    first = builder.op("reshape", [first], longer, name=f"{name}/axis")
    attrs = EinsumAttrs((one + terms[0], *terms[1:]), one)
    made = builder.op("einsum", [first, *rest], attrs, name=name)
    return builder.op("reshape", [made], ReshapeAttrs(()), name=f"{name}/number")
