"""Turn dequantize -> operator -> quantize into the operator on integers.

The results equal the QDQ model's runtime. With `x`, `w` and `y` the scales of input, weights and
output, and rounding `onnx`:

1. convolution, depthwise convolution, dense: integer accumulation, then one requantize with the
   multiplier float32(float32(x * w) / y); a clip in between becomes the requantize's bounds. int16
   values are accumulated in int64 and rescaled like TFLite's int16x8 kernels, since no ONNX runtime
   has int16 kernels; the same holds for 2 and 4.
2. add, mul and PReLU: the integer add, mul and PReLU.
3. max pooling, reshape, transpose, concat, pad, slice, gather and resizing, with equal parameters
   on both sides: the same on integers.
4. average pooling: the integer average pooling.
5. quantize(dequantize(x)) with the same parameters is x; with others it is an integer requantize,
   or a table of int8 to int8.
6. A reshape, transpose or pad with zeros moves before the dequantize that it reads, and a reshape
   or transpose after the quantize of a convolution or dense layer.
7. A float long short-term memory whose operands and sequence are quantized as TFLite's are: the
   integer one (`edgec.passes.fuse_lstm`).
8. Element-wise nodes of one int8 value: a table (`edgec.passes.tabulate`).
9. Comparisons and indices of the largest: the same on integers, rescaled to one scale.

Other nodes stay in float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.operator import Operator, get_op
from edgec.graph.traits import IntegerForm, Movement, Storage, StoredAs, stored_number
from edgec.graph.types import Quant
from edgec.numerics.fixed_point import Rounding
from edgec.ops.gru_float import GruFloatAttrs
from edgec.ops.integer_root import IntegerRoot, IntegerRootAttrs
from edgec.ops.lift import MOST_BITS, Lift, LiftAttrs
from edgec.ops.lookup import Lookup
from edgec.ops.lookup_int16 import LookupInt16
from edgec.ops.quantize import Dequantize, QuantizeAttrs
from edgec.ops.reinterpret import Reinterpret, ReinterpretAttrs
from edgec.ops.requantize import WIDENING, Requantize, RequantizeAttrs
from edgec.passes.fuse_gru import fused_gru
from edgec.passes.fuse_lstm import fused_lstm, recurrent_source
from edgec.passes.fuse_products import accumulate, multiply
from edgec.passes.rewriter import Rewriter
from edgec.passes.tabulate import expression_of, tabulate, tabulate_int16


def fuse_qdq(function: Function, rounding: Rounding = "onnx") -> Function:
    """Make the integer graph that a QDQ graph stands for."""
    once: dict[tuple[Value, QuantizeAttrs], Sequence[Value]] = {}

    def visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.op.storage is not Storage.QUANTIZE or node.output in function.results:
            return _visit(rewriter, node, inputs, rounding)
        # Training inserts one before every reader of a value; equal ones are merged.
        known = inputs[0], node.attrs
        if known not in once:
            made = _visit(rewriter, node, inputs, rounding)
            once[known] = rewriter.keep(node, inputs) if made is None else made
        return once[known]

    return Rewriter(function).run(visit)


def _visit(
    rewriter: Rewriter, node: Node, inputs: tuple[Value, ...], rounding: Rounding
) -> Sequence[Value] | None:
    if node.op.rearranges or _pads_zeros(node):
        return _move_integers(rewriter, node, inputs[0])
    if node.integer_form is IntegerForm.ORDER:
        return _ordered(rewriter, node, inputs)
    if node.op.storage is not Storage.QUANTIZE:
        return None
    above = rewriter.producer(inputs[0])
    bounds = _range(node.attrs)
    if above is not None and above.op.is_limit:
        bounds = _clip_bounds(above, node.attrs.output, *bounds)
        above = rewriter.producer(above.inputs[0])
    if above is None:
        return None
    if above.op.storage is Storage.DEQUANTIZE:
        return _restored(rewriter, node, inputs[0], above.inputs[0], bounds, rounding)
    is_whole = bounds == _range(node.attrs)
    sequence = recurrent_source(rewriter, inputs[0]) if is_whole else None
    if sequence is not None:
        operands = [_integer(rewriter, value) for value in sequence.inputs]
        fused = fused_gru if isinstance(sequence.attrs, GruFloatAttrs) else fused_lstm
        made = fused(rewriter, sequence, operands, node)
    else:
        made = _computed(rewriter, node, above, bounds, rounding)
        if made is None:
            return _table(rewriter, node, inputs[0])
    return None if made is None else (made,)


def _computed(
    rewriter: Rewriter, node: Node, above: Node, bounds: tuple[int, int], rounding: Rounding
) -> Value | None:
    """The integer form of an operator on dequantized operands."""
    views, source, within = _behind_views(rewriter, above, node.attrs.output, bounds)
    if views:
        above, bounds = source, within
    integers = [_integer(rewriter, value) for value in above.inputs]
    first = integers[int(0 in above.op.steering)]
    if first is None:
        return None
    if first.type.dtype == "int16" and rounding == "onnx":
        rounding = "tflm"
    result = StoredAs(node.attrs.output, node.attrs.dtype, *bounds, rounding)
    form = above.integer_form
    if form is IntegerForm.PRODUCTS:
        return _accumulated(rewriter, above, integers, node, result, views)
    if form is IntegerForm.SHARED:
        return _moved(rewriter, above, integers, node, result)
    if form is IntegerForm.MATRICES:
        return multiply(rewriter, above, integers, result, _identity(node, above))
    return _arithmetic(rewriter, above, integers, node, result)


def _accumulated(
    rewriter: Rewriter,
    above: Node,
    integers: list[Value | None],
    node: Node,
    result: StoredAs,
    views: list[Node],
) -> Value | None:
    """Sums of products and their requantize, then the views between them and the quantize."""
    identity = {"name": above.name} if views else _identity(node, above)
    made = accumulate(rewriter, above, integers, result, identity)
    for view in views:
        if made is not None:
            identity = _identity(node, view) if view is views[-1] else {"name": view.name}
            made = rewriter.builder.op(view.op, [made], view.attrs, **identity)
    return made


def _restored(
    rewriter: Rewriter,
    node: Node,
    real: Value,
    stored: Value,
    bounds: tuple[int, int],
    rounding: Rounding,
) -> Sequence[Value] | None:
    """Integers that are dequantized and quantized: themselves, a table of them, or rescaled."""
    is_same = (stored.type.quant, stored.type.dtype) == (node.attrs.output, node.attrs.dtype)
    if is_same and bounds == _range(node.attrs):
        return (stored,)
    return _table(rewriter, node, real) or _rescaled(rewriter, node, stored, bounds, rounding)


def _rescaled(
    rewriter: Rewriter, node: Node, stored: Value, bounds: tuple[int, int], rounding: Rounding
) -> Sequence[Value] | None:
    """Integers rescaled to another scale, of int8 or int16 per tensor."""
    given, quant = stored.type.quant, node.attrs.output
    if given is None or not (given.per_tensor and quant.per_tensor):
        return None
    if not {stored.type.dtype, node.attrs.dtype} <= {"int8", "int16"}:
        return None
    factor = given.scale[0] / quant.scale[0]
    attrs = RequantizeAttrs((factor,), quant, *bounds, rounding, node.attrs.dtype)
    made = rewriter.builder.op(Requantize, [stored], attrs, **_identity(node, node))
    return (made,)


def _behind_views(
    rewriter: Rewriter, above: Node, quant: Quant, bounds: tuple[int, int]
) -> tuple[list[Node], Node, tuple[int, int]]:
    """Views after a sum of products in order, the sum, and the bounds of clips between.

    Views of values quantized per tensor work on integers too: they occur after products of matrices
    of more than two axes, and after convolutions over one axis. No sum: no views.
    """
    views: list[Node] = []
    source: Node | None = above
    while source is not None and quant.per_tensor:
        if source.integer_form is IntegerForm.PRODUCTS:
            return views[::-1], source, bounds
        if source.op.is_limit:
            bounds = _clip_bounds(source, quant, *bounds)
        elif source.op.rearranges:
            views.append(source)
        else:
            break
        source = rewriter.producer(source.inputs[0])
    return [], above, bounds


def _arithmetic(
    rewriter: Rewriter, above: Node, integers: list[Value | None], node: Node, result: StoredAs
) -> Value | None:
    """The same on integers, unless its parameters are out of the integers' range."""
    operands = _operands(above, integers, result)
    if operands is None:
        return None
    types = [value.type for value in operands]
    attrs = above.op.attrs_for_integers(above.attrs, types, result)
    if attrs is None:
        return None
    op = above.op.integer_op(types[0].dtype)
    try:
        return rewriter.builder.op(op, operands, attrs, **_identity(node, above))
    except TypeMismatch:
        return None


def _operands(
    above: Node, integers: list[Value | None], result: StoredAs
) -> Sequence[Value] | None:
    """The operands of arithmetic on stored integers; None if there are none."""
    operands = _stored_operands(above, integers)
    if len(operands) != len(above.inputs) or not _are_finite(operands):
        return None
    form = above.integer_form
    dtypes = {value.type.dtype for value in operands if value.type.is_quantized}
    is_one = form in (IntegerForm.OPERANDS, IntegerForm.ONE_OPERAND) and dtypes == {result.dtype}
    return operands if is_one or form is IntegerForm.MEAN else None


def _stored_operands(above: Node, integers: list[Value | None]) -> Sequence[Value]:
    """The operands that are stored integers; if the operator takes only one, its constants too."""
    stored = [value for value in integers if value is not None]
    if above.integer_form is IntegerForm.ONE_OPERAND:
        return [*stored[:1], *above.inputs[1:]]
    return stored


def _are_finite(operands: Sequence[Value]) -> bool:
    """Whether the float operands are constants without an infinity or a NaN."""
    return all(
        isinstance(value, Constant) and bool(np.isfinite(value.data).all())
        for value in operands
        if value.type.is_float
    )


def _moved(
    rewriter: Rewriter, above: Node, integers: list[Value | None], node: Node, result: StoredAs
) -> Value | None:
    """The same move of stored integers, if inputs and result have the same parameters."""
    if not result.is_whole:
        return None
    operands = list(above.inputs)
    for place, given in enumerate(integers):
        if place in above.op.steering:
            continue
        if given is None:
            return None
        if above.op.reads_alike and given.type.quant != result.quant:
            given = _requantized(rewriter, above.inputs[place], node)
        operands[place] = given
    types = [value.type for n, value in enumerate(operands) if n not in above.op.steering]
    if any((type_.quant, type_.dtype) != (result.quant, result.dtype) for type_ in types):
        return None
    attrs = above.op.attrs_for_integers(above.attrs, types, result)
    if attrs is None:
        return None
    op = above.op.integer_op(result.dtype)
    return rewriter.builder.op(op, operands, attrs, **_identity(node, above))


def _ordered(rewriter: Rewriter, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
    """The same on stored integers, rescaled to one scale; a chosen element is dequantized."""
    stored = [_integer(rewriter, value) for value in inputs]
    operands = [given for given in stored if given is not None]
    quants = [given.type.quant for given in operands]
    if len(operands) < len(inputs) or not all(q is not None and q.per_tensor for q in quants):
        return None
    if any(given.type.dtype not in MOST_BITS for given in operands):
        return None
    if len(operands) > 1:
        bits = min(MOST_BITS[given.type.dtype] for given in operands)
        scales = [given.type.scalar_quant()[0] for given in operands]
        operands = [
            rewriter.builder.op(
                Lift, [given], LiftAttrs(bits, scale / max(scales)), name=f"{node.name}/lift{n}",
                sources=(),
            )
            for n, (given, scale) in enumerate(zip(operands, scales, strict=True))
        ]  # fmt: skip
    if not node.outputs[0].type.is_float:
        return rewriter.keep(node, tuple(operands))
    made = rewriter.builder.node(node.op, operands, node.attrs, name=node.name).outputs
    names = f"{node.name}/dequantize"
    real = rewriter.builder.op(Dequantize, made[:1], name=names, sources=node.sources)
    return (real, *made[1:])


def _requantized(rewriter: Rewriter, real: Value, node: Node) -> Value:
    """The integers under a dequantize with the parameters of a quantize, by a table if there is."""
    dequantize = rewriter.producer(real)
    assert dequantize is not None
    stored = dequantize.inputs[0]
    if not _has_table(stored, node.attrs):
        return stored
    attrs = tabulate(dequantize, [], real, node.attrs)
    return rewriter.builder.op(Lookup, [stored], attrs, name=f"{real.name}/lookup", sources=())


def _has_table(stored: Value, attrs: QuantizeAttrs) -> bool:
    """Whether a function of this value to these parameters is one of 256 results."""
    if isinstance(stored, Constant) or stored.type.quant is None:
        return False
    is_per_tensor = stored.type.quant.per_tensor and attrs.output.per_tensor
    return is_per_tensor and stored.type.dtype == "int8" and attrs.dtype == "int8"


def _table(rewriter: Rewriter, node: Node, real: Value) -> Sequence[Value] | None:
    """A quantize of a function of one stored int8 value, as a lookup."""
    found = expression_of(real, rewriter.producer)
    above = None if found is None else rewriter.producer(found[0])
    if found is None or above is None or above.op.storage is not Storage.DEQUANTIZE:
        return None
    stored = above.inputs[0]
    identity = _identity_of(node, found[1])
    if _has_table(stored, node.attrs):
        attrs = tabulate(above, found[1], real, node.attrs)
        return (rewriter.builder.op(Lookup, [stored], attrs, **identity),)
    if not found[1] or not _is_stored(stored, node.attrs):
        return None
    return _table_of_int16(rewriter, above, found[1], real, node, identity)


def _identity_of(node: Node, nodes: list[Node]) -> dict[str, Any]:
    """Return `_identity` for all nodes that one table replaces. A rescaling replaces none."""
    sources = tuple(dict.fromkeys(source for each in nodes for source in each.sources))
    return {**_identity(node, nodes[-1] if nodes else node), "sources": sources}


def _table_of_int16(
    rewriter: Rewriter,
    dequantize: Node,
    nodes: list[Node],
    real: Value,
    node: Node,
    identity: dict[str, Any],
) -> Sequence[Value] | None:
    """A quantize of a function of one stored value with int16 on either side."""
    least = _least(rewriter.producer(dequantize.inputs[0]))
    stored, dequantize = _in_int16(rewriter, dequantize.inputs[0], dequantize)
    wide = tabulate_int16(dequantize, nodes, real, node.attrs, least)
    if wide is None:
        return None
    ops: dict[type, type[Operator[Any]]] = {
        ReinterpretAttrs: Reinterpret, IntegerRootAttrs: IntegerRoot
    }  # fmt: skip
    try:
        op = get_op(ops.get(type(wide), LookupInt16))
        return (rewriter.builder.op(op, [stored], wide, **identity),)
    except TypeMismatch:
        return None


def _least(node: Node | None) -> int:
    """The least int16 that a node makes of any operands, as far as is known: 0 after a ReLU."""
    if node is None or node.output.type.dtype != "int16":
        return -32768
    if node.op.storage is Storage.TABULATE:
        return int(min(node.attrs.results)) + int(node.attrs.output.zero_point[0])
    return int(node.attrs.minimum) if node.op.clamps else -32768


def _is_stored(stored: Value, attrs: QuantizeAttrs) -> bool:
    """Whether a function of this value to these parameters is one of int8 or int16 per tensor."""
    given = stored.type.quant
    if isinstance(stored, Constant) or given is None:
        return False
    known = {stored.type.dtype, attrs.dtype} <= {"int8", "int16"}
    return known and given.per_tensor and attrs.output.per_tensor


def _in_int16(rewriter: Rewriter, stored: Value, dequantize: Node) -> tuple[Value, Node]:
    """A stored value and its dequantize, of int8 in steps of int16 that hold it exactly."""
    if stored.type.dtype == "int16":
        return stored, dequantize
    scale, _ = stored.type.scalar_quant()
    quant = Quant((scale / WIDENING,), (0,))
    attrs = RequantizeAttrs((float(WIDENING),), quant, -32768, 32767, "tflm", "int16")
    name = f"{stored.name}.int16"
    wide = rewriter.builder.op(Requantize, [stored], attrs, name=name, sources=())
    return wide, replace(dequantize, inputs=(wide,))


def _pads_zeros(node: Node) -> bool:
    """Whether a node pads with the number that a zero point is stored for."""
    if node.op.movement is not Movement.PAD:
        return False
    return bool(node.attrs.value == 0 and not np.signbit(node.attrs.value))


def _move_integers(rewriter: Rewriter, node: Node, value: Value) -> Sequence[Value] | None:
    """reshape(dequantize(x)) as dequantize(reshape(x)), so that later nodes find integers."""
    stored = _integer(rewriter, value)
    if stored is None or stored.type.quant is None or not stored.type.quant.per_tensor:
        return None
    builder = rewriter.builder
    moved: Value
    if isinstance(stored, Constant):
        if node.op.movement is not Movement.RESHAPE:
            return None
        data = stored.data.reshape(node.output.type.shape)
        moved = builder.constant(f"{node.name}.stored", data, stored.type.quant)
    else:
        attrs = node.attrs
        if node.op.movement is Movement.PAD:
            attrs = replace(attrs, value=stored.type.quant.zero_point[0])
        moved = builder.op(node.op, [stored], attrs, name=node.name, sources=node.sources)
    return rewriter.remake(node, [moved], op=Dequantize, name=f"{node.name}/dequantize")


def _identity(node: Node, above: Node) -> dict[str, Any]:
    """Name, provenance and sources of the integer node that replaces `above` and `node`."""
    (output,) = node.outputs
    return {
        "name": above.name,
        "output_names": [output.name],
        "origins": [output.origin],
        "sources": above.sources,
    }


def _integer(rewriter: Rewriter, value: Value) -> Value | None:
    """The integers under a dequantize, or None."""
    above = rewriter.producer(value)
    if above is None or above.op.storage is not Storage.DEQUANTIZE:
        return None
    return above.inputs[0]


def _range(attrs: QuantizeAttrs) -> tuple[int, int]:
    bounds = np.iinfo(attrs.dtype)
    return int(bounds.min), int(bounds.max)


def _clip_bounds(clip: Node, quant: Quant, low: int, high: int) -> tuple[int, int]:
    """A clip of real numbers as bounds of stored integers (quantizing is monotonic)."""
    if not quant.per_tensor:
        return low, high
    if math.isfinite(clip.attrs.minimum):
        low = stored_number(clip.attrs.minimum, quant, low, high)
    if math.isfinite(clip.attrs.maximum):
        high = stored_number(clip.attrs.maximum, quant, low, high)
    return low, high
