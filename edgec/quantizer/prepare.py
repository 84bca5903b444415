"""Rewrite a float function into forms that quantize well; its results stay, but for last bits.

1. A mean over axes that lie side by side, without the last one, is an average pooling.
2. Subtracting a constant is adding its negative; subtracting a value of the same shape is adding
   its negatives from a table. A squared difference is the square of such a sum.
3. Dividing by constants is multiplying by their reciprocals.
4. A normalization written as several operators is one operator (`edgec.passes.fuse_norms`).
5. The last hidden state of an LSTM or GRU is the last step of its sequence.
6. Masks before a softmax are finite (`edgec.quantizer.masks`).
7. Updates added to zeros at distinct indices are stored there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Arithmetic, IntegerForm
from edgec.ops.add import Add, AddAttrs, negated
from edgec.ops.avg_pool2d import AvgPool2d, AvgPool2dAttrs
from edgec.ops.elementwise import is_squared_difference
from edgec.ops.mul import Mul, MulAttrs
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.reshape import Reshape, ReshapeAttrs
from edgec.ops.scattered import adds_to_zeros
from edgec.ops.slice import Slice, SliceAttrs
from edgec.passes.fuse_norms import fuse_norms
from edgec.passes.rewriter import Rewriter
from edgec.passes.simplify_views import simplify_views
from edgec.quantizer.masks import with_masks


def prepare(function: Function) -> Function:
    """The same function in operators that have an integer form."""
    return simplify_views(Rewriter(with_masks(fuse_norms(function))).run(_visit))


def _visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.outputs[0].type.dtype != "float32":
        return None
    if isinstance(node.attrs, ReduceAttrs) and node.attrs.kind == "mean":
        return _pooled(rewriter, node, inputs[0])
    if node.integer_form is IntegerForm.RECURRENT:
        return _with_last_step(rewriter, node, inputs)
    if node.op.computes is Arithmetic.QUOTIENT:
        return _times_reciprocal(rewriter, node, inputs)
    if is_squared_difference(node):
        return _squared(rewriter, node, inputs)
    if node.op.computes is Arithmetic.DIFFERENCE:
        return _as_sum(rewriter, node, inputs)
    return _placed(rewriter, node, inputs)


def _placed(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    """7. Updates of zeros."""
    if not adds_to_zeros(node):
        return None
    return rewriter.remake(node, inputs, replace(node.attrs, reduction="none"))


def _as_sum(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    """2. A difference."""
    negative = _negative(rewriter, node, inputs)
    if negative is None:
        return None
    return rewriter.remake(node, [inputs[0], negative], AddAttrs(), op=Add)


def _squared(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    """2. Write a squared difference as a sum times the same sum."""
    negative = _negative(rewriter, node, inputs)
    if negative is None:
        return None
    difference = rewriter.builder.op(
        Add, [inputs[0], negative], AddAttrs(), name=f"{node.name}/difference", sources=()
    )
    return rewriter.remake(node, [difference, difference], MulAttrs(), op=Mul)


def _negative(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """The summand that replaces the second operand of a subtraction."""
    other = inputs[1]
    if isinstance(other, Constant):
        return rewriter.builder.constant(f"{other.name}.negative", np.negative(other.data))
    if inputs[0].type.shape != other.type.shape:
        return None
    return negated(rewriter.builder, other, f"{node.name}/negative", node.sources)


def _times_reciprocal(
    rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
) -> Sequence[Value] | None:
    """A quotient by several constants; one by a single constant becomes part of a table."""
    x, divisor = inputs
    if not isinstance(divisor, Constant) or divisor.type.elements == 1:
        return None
    with np.errstate(divide="ignore", over="ignore"):
        factors = np.reciprocal(divisor.data)
    if not np.isfinite(factors).all():
        return None
    factor = rewriter.builder.constant(f"{divisor.name}.reciprocal", factors)
    return rewriter.remake(node, [x, factor], MulAttrs(), op=Mul)


def _pooled(rewriter: Rewriter, node: Node, x: Value) -> Sequence[Value] | None:
    axes, shape = node.attrs.axes, x.type.shape
    first, last = axes[0], axes[-1]
    if axes != tuple(range(first, last + 1)) or last == len(shape) - 1:
        return None
    builder = rewriter.builder
    before, across, after = shape[:first], shape[first : last + 1], shape[last + 1 :]
    image = (math.prod(before), math.prod(across), 1, math.prod(after))
    if len(axes) == 2 and len(shape) == 4:
        image = shape  # as it is
    seen = builder.op(Reshape, [x], ReshapeAttrs(image), name=f"{node.name}/image", sources=())
    pool = AvgPool2dAttrs(kernel=image[1:3], stride=(1, 1))
    mean = builder.op(AvgPool2d, [seen], pool, name=node.name, sources=node.sources)
    return rewriter.remake(node, [mean], ReshapeAttrs(node.output.type.shape), op=Reshape,
                           sources=())  # fmt: skip


def _with_last_step(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value]:
    y, _, *cells = rewriter.keep(node, inputs)
    steps, batch, units = y.type.shape
    last = SliceAttrs((steps - 1, 0, 0), (1, 1, 1), (1, batch, units))
    builder, old = rewriter.builder, node.outputs[1]
    step = builder.op(Slice, [y], last, name=f"{node.name}/last_step", sources=())
    hidden = builder.op(
        Reshape, [step], ReshapeAttrs((batch, units)), name=f"{node.name}/last_hidden",
        origins=[old.origin], sources=node.sources,
    )  # fmt: skip
    return y, hidden, *cells
