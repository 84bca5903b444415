"""Sink and cancel transposes until none is left that an NCHW import put in.

1. A transpose moves down through operators that work element by element, and through concat, pad,
   slice and reductions with their axes renamed; with several inputs only if all have the same
   transpose or are constant. It also moves through a reshape that only adds or drops axes of one
   element, as around convolutions over one axis.
2. transpose(transpose(x)) is one transpose, or none.
3. dense(reshape(transpose(x))) absorbs the permutation into the order of its weights.
4. Remaining transposes move up through element-wise operators to the parameters and constants; a
   transpose of a constant is folded.
5. Element-wise operators after a convolution move above a reshape as in 1, next to their layer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.operator import Fusion
from edgec.graph.traits import Movement, Storage
from edgec.graph.types import TensorType
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.transpose import transposed
from edgec.passes.rewriter import Rewriter

Permutation = tuple[int, ...]


def sink_transposes(function: Function) -> Function:
    """Remove the transposes of a channels-first import from the inside of the graph."""
    sunk = Rewriter(function).run(_sink)
    return Rewriter(Rewriter(sunk).run(_Hoist(sunk))).run(_sink_view)


def _transpose_of(rewriter: Rewriter, value: Value) -> tuple[Value, Permutation] | None:
    node = rewriter.producer(value)
    if node is None or node.op.movement is not Movement.PERMUTE:
        return None
    return node.inputs[0], node.attrs.permutation


def _sink(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.op.movement is Movement.PERMUTE:
        return _compose(rewriter, node, inputs[0])
    if node.op.products is not None and not node.op.products.window:
        return _absorb(rewriter, node, inputs)
    if node.op.movement is Movement.RESHAPE:
        return _below_view(rewriter, node, inputs[0])
    if len(node.outputs) != 1:
        return None
    above = [_transpose_of(rewriter, value) for value in inputs]
    known = [entry[1] for entry in above if entry is not None]
    (output,) = node.outputs
    if not known or any(p != known[0] or len(p) != len(output.type.shape) for p in known):
        return None
    permutation = known[0]
    attrs = node.op.attrs_for_permutation(node.attrs, permutation)
    if attrs is None:
        return None
    inverse = tuple(int(axis) for axis in np.argsort(permutation))
    sunk: list[Value] = []
    for value, entry in zip(inputs, above, strict=True):
        inner = entry[0] if entry is not None else _constant_before(rewriter, value, inverse)
        if inner is None:
            return None
        sunk.append(inner)
    origin = output.origin.transposed(inverse) if output.origin else None
    (moved,) = rewriter.remake(node, sunk, attrs, origins=[origin])
    return (transposed(rewriter.builder, moved, permutation, f"{output.name}.transposed"),)


def _constant_before(rewriter: Rewriter, value: Value, inverse: Permutation) -> Value | None:
    """A constant operand of a node that moves above a transpose; None for other values.

    A constant that is stored in integers of one scale stays so.
    """
    above = rewriter.producer(value)
    if above is not None and above.op.storage is Storage.DEQUANTIZE:
        stored = _constant_before(rewriter, above.inputs[0], inverse)
        if stored is None or stored is above.inputs[0]:
            return None if stored is None else value
        return rewriter.builder.op(above.op, [stored], above.attrs, name=above.name, sources=())
    if not isinstance(value, Constant):
        return None
    if value.type.quant is not None and not value.type.quant.per_tensor:
        return None
    if value.data.size == 1:
        return value
    whole = value.data.reshape((1,) * (len(inverse) - value.data.ndim) + value.data.shape)
    data = np.ascontiguousarray(np.transpose(whole, inverse))
    return rewriter.builder.constant(f"{value.name}.nhwc", data, value.type.quant)


def _compose(rewriter: Rewriter, node: Node, value: Value) -> Sequence[Value] | None:
    above = _transpose_of(rewriter, value)
    if above is None:
        return None
    inner, first = above
    permutation = tuple(first[axis] for axis in node.attrs.permutation)
    if permutation == tuple(range(len(permutation))):
        return (inner,)
    return (transposed(rewriter.builder, inner, permutation, node.name),)


def _below_view(rewriter: Rewriter, node: Node, value: Value) -> Sequence[Value] | None:
    """reshape(transpose(x)) -> transpose(reshape(x)), where only axes of one element come or go."""
    above = _transpose_of(rewriter, value)
    (output,) = node.outputs
    if above is None or output.type.extents is not None or not _is_of_layer(rewriter, above[0]):
        return None
    inner, permutation = above
    order = _order_before(value.type.shape, permutation, output.type.shape)
    if order is None or order == tuple(range(len(order))):
        return None
    attrs = ReshapeAttrs(tuple(output.type.shape[axis] for axis in order))
    origin = output.origin.transposed(order) if output.origin else None
    (view,) = rewriter.remake(node, [inner], attrs, origins=[origin])
    inverse = tuple(int(axis) for axis in np.argsort(order))
    return (transposed(rewriter.builder, view, inverse, f"{output.name}.transposed"),)


def _is_of_layer(rewriter: Rewriter, value: Value) -> bool:
    """Whether it is a convolution's result or an input, through views and element-wise operators.

    Views of other layers stay: attention's views are found by name to restore open sizes.
    """
    node = rewriter.producer(value)
    while node and node.inputs and (node.op.movement or node.op.is_elementwise):
        node = rewriter.producer(node.inputs[0])
    return node is None or (node.op.products is not None and bool(node.op.products.window))


def _order_before(
    shape: tuple[int, ...], permutation: Permutation, after: tuple[int, ...]
) -> Permutation | None:
    """The axes of a view `after` of a transposed value, in the order before the transpose.

    shape: of the transposed value. None if the view changes axes of several elements.
    An axis of one element stays in front of its right neighbour, and first if it is first.
    """
    longer, found = ([a for a, n in enumerate(each) if n != 1] for each in (shape, after))
    if [shape[a] for a in longer] != [after[a] for a in found]:
        return None
    stands = dict(zip(longer, found, strict=True))
    order: list[int] = [a for a in range(len(after)) if not found or a < found[0]]
    for old in sorted(stands, key=permutation.__getitem__):
        place = stands[old]
        before = max((a for a in found if a < place), default=place - 1)
        order += [*range(before + 1, place), place]
    return (*order, *(a for a in range(len(after)) if a not in order))


def _sink_view(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    """f(reshape(x)) -> reshape(f(x)), where x is of a convolution or of another f."""
    view = rewriter.producer(inputs[0]) if _is_unary(node) else None
    if view is None or not _may_move(rewriter, view, node.output):
        return None
    inner, output = view.inputs[0], node.output
    moved = rewriter.builder.op(
        node.op, [inner], node.attrs, name=node.name, output_names=[f"{output.name}.viewed"],
        sources=node.sources,
    )  # fmt: skip
    made = rewriter.builder.op(
        view.op, [moved], ReshapeAttrs(output.type.shape), name=view.name,
        output_names=[output.name], origins=[output.origin], sources=view.sources,
    )  # fmt: skip
    return (made,)


def _follows_layer(above: Node | None) -> bool:
    """Whether a node is a convolution, or one that may have moved to one."""
    if above is None:
        return False
    products = above.op.products
    return _is_unary(above) or (products is not None and bool(products.window))


def _is_whole(type_: TensorType) -> bool:
    return type_.extents is None and (type_.quant is None or type_.quant.per_tensor)


def _may_move(rewriter: Rewriter, view: Node, output: Value) -> bool:
    """Whether the producer of `output` may precede a view; integers of a file stay where they can
    be compared.
    """
    if view.op.movement is not Movement.RESHAPE or not view.inputs[0].type.is_float:
        return False
    inner = view.inputs[0]
    is_whole = all(_is_whole(each.type) for each in (inner, view.output, output))
    is_same = _long_axes(inner.type.shape) == _long_axes(output.type.shape)
    return is_whole and is_same and _follows_layer(rewriter.producer(inner))


def _is_unary(node: Node) -> bool:
    is_one = len(node.inputs) == len(node.outputs) == 1
    return is_one and node.op.fusion is Fusion.ELEMENTWISE


def _long_axes(shape: tuple[int, ...]) -> list[int]:
    return [extent for extent in shape if extent != 1]


def _absorb(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    """dense(reshape(transpose(x)), w) -> dense(reshape(x), w in the order of x).

    Between the two there may be element-wise nodes (quantize, dequantize) and the weights may be
    a dequantized constant.
    """
    chain = _flattened(rewriter, inputs[0])
    if chain is None or inputs[0].type.shape[0] != 1:  # several rows, each with a part
        return None
    above, *steps = chain
    value, permutation = above.inputs[0], above.attrs.permutation
    if value.type.shape[0] != 1 or permutation[0] != 0:
        return None
    shape = above.output.type.shape  # in the order that the weights were made for
    weights = _permute_columns(rewriter, inputs[1], shape, permutation)
    if weights is None:
        return None
    for step in steps:  # flattened values have another order now: no provenance
        value = rewriter.builder.op(
            step.op, [value], step.attrs, name=step.name, sources=step.sources
        )
    return rewriter.keep(node, (value, weights, *inputs[2:]))


def _flattened(rewriter: Rewriter, value: Value) -> list[Node] | None:
    """The transpose above a value, with the reshape and element-wise nodes between."""
    chain: list[Node] = []
    while True:
        above = rewriter.producer(value)
        if above is None or len(above.inputs) != 1:
            return None
        chain.insert(0, above)
        if above.op.movement is Movement.PERMUTE:
            break
        if above.op.movement is not Movement.RESHAPE and above.op.fusion is not Fusion.ELEMENTWISE:
            return None
        value = above.inputs[0]
    reshapes = [node for node in chain if node.op.movement is Movement.RESHAPE]
    return chain if len(reshapes) == 1 else None


def _permute_columns(
    rewriter: Rewriter, weights: Value, shape: tuple[int, ...], permutation: Permutation
) -> Value | None:
    """Weights [O, K] whose K columns are reordered from `shape` order to the untransposed one."""
    above = rewriter.producer(weights)
    if above is not None and above.op.storage is Storage.DEQUANTIZE:
        inner = _permute_columns(rewriter, above.inputs[0], shape, permutation)
        if inner is None:
            return None
        return rewriter.builder.op(above.op, [inner], above.attrs, name=above.name)
    if not isinstance(weights, Constant):
        return None
    if weights.type.quant is not None and weights.type.quant.axis == 1:
        return None
    outputs = weights.type.shape[0]
    inverse = np.argsort(permutation)
    data = weights.data.reshape(outputs, *shape[1:])
    axes = (0, *(int(axis) for axis in inverse[1:]))
    data = np.ascontiguousarray(np.transpose(data, axes)).reshape(weights.type.shape)
    return rewriter.builder.constant(f"{weights.name}.nhwc", data, weights.type.quant)


class _Hoist:
    """Move a transpose up through single-use element-wise nodes to parameters and constants."""

    def __init__(self, function: Function) -> None:
        self.uses: dict[Value, int] = {}
        for node in function.nodes:
            for value in node.inputs:
                self.uses[value] = self.uses.get(value, 0) + 1
        for value in function.results:
            self.uses[value] = self.uses.get(value, 0) + 1

    def __call__(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op.movement is not Movement.PERMUTE:
            return None
        hoisted = self.hoist(rewriter, inputs[0], node.attrs.permutation, node.name)
        return None if hoisted is None else (hoisted,)

    def hoist(
        self, rewriter: Rewriter, value: Value, permutation: Permutation, name: str
    ) -> Value | None:
        if isinstance(value, Constant):
            quant = value.type.quant
            if quant is not None and quant.axis is not None:
                quant = quant.with_axis(permutation.index(quant.axis))
            origin = value.origin.transposed(permutation) if value.origin else None
            data = np.ascontiguousarray(np.transpose(value.data, permutation))
            return rewriter.builder.constant(f"{value.name}.nhwc", data, quant, origin)
        above = rewriter.producer(value)
        if above is None:
            return transposed(rewriter.builder, value, permutation, f"{value.name}.nhwc")
        if above.op.movement is Movement.PERMUTE:
            return None
        if (
            above.op.fusion is not Fusion.ELEMENTWISE
            or len(above.inputs) != 1
            or self.uses.get(value, 1) != 1
        ):
            return None
        inner = self.hoist(rewriter, above.inputs[0], permutation, name)
        if inner is None:
            # Half way up it would only stand between an operator and its quantize.
            return None
        origin = value.origin.transposed(permutation) if value.origin else None
        attrs = above.attrs
        return rewriter.builder.op(
            above.op, [inner], attrs, name=above.name, output_names=[f"{value.name}.nhwc"],
            origins=[origin], sources=above.sources,
        )  # fmt: skip
