"""Operators of a float graph on tensors of PyTorch: for gradients, which integers do not have.

Values have the graph's layout, channels last, with any number of samples in front. Only an
operator's traits and attributes are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from edgec.errors import EdgecError
from edgec.graph.ir import Node
from edgec.graph.operator import Fusion
from edgec.graph.traits import Arithmetic, IntegerForm, Movement
from edgec.graph.types import Array
from edgec.ops.reduce import ReduceAttrs

#: Half the distance over which the slope of a function of one number is taken.
_STEP = 2.0**-8
_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def compute(node: Node, operands: Sequence[Any]) -> Any:
    """The result of a float node with one output. Raises EdgecError if it has no gradient."""
    for write in (_product, _arithmetic, _limit, _pool, _mean, _move, _element):
        made = write(node, operands)
        if made is not None:
            return made
    raise EdgecError(
        f"{node.op.name} {node.name} cannot be trained",
        hint="remove it from the module: a softmax, for example, can be a part of the loss",
    )


def _first(x: Any) -> Any:
    return x.permute(_FIRST)


def _last(x: Any) -> Any:
    return x.permute(_LAST)


def _sides(padding: Sequence[tuple[int, int]]) -> list[int]:
    """Padding of height and width in PyTorch's order."""
    (top, bottom), (left, right) = padding
    return [left, right, top, bottom]


def _product(node: Node, operands: Sequence[Any]) -> Any:
    products, attrs = node.op.products, node.attrs
    if products is None:
        return None
    x, weights, bias = operands
    if not products.window:
        return functional.linear(x, weights, bias)
    if products.scatters:
        return _scattered(node, x, weights, bias)
    image = functional.pad(_first(x), _sides(attrs.padding))
    groups = 1
    kernels = weights.permute(_FIRST) if not products.is_depthwise else weights
    if products.is_depthwise:
        kernels, groups = weights.permute(2, 0, 1)[:, None], x.shape[3]
    return _last(functional.conv2d(
        image, kernels, bias, attrs.stride, 0, attrs.dilation, groups
    ))  # fmt: skip


def _scattered(node: Node, x: Any, weights: Any, bias: Any) -> Any:
    attrs = node.attrs
    whole = functional.conv_transpose2d(_first(x), weights.permute(3, 0, 1, 2), None, attrs.stride)
    (top, left), (rows, columns) = attrs.corner, attrs.output
    part = whole[:, :, top : top + rows, left : left + columns]
    missing = [0, columns - part.shape[3], 0, rows - part.shape[2]]
    return _last(functional.pad(part, missing)) + bias


def _arithmetic(node: Node, operands: Sequence[Any]) -> Any:
    if node.op.computes is None or len(operands) != 2:
        return None
    left, right = operands
    if node.op.computes is Arithmetic.PRODUCT:
        return left * right
    if node.op.computes is Arithmetic.QUOTIENT:
        return left / right
    return left - right if node.op.computes is Arithmetic.DIFFERENCE else left + right


def _limit(node: Node, operands: Sequence[Any]) -> Any:
    if not node.op.is_limit:
        return None
    return torch.clamp(operands[0], node.attrs.minimum, node.attrs.maximum)


def _pool(node: Node, operands: Sequence[Any]) -> Any:
    attrs, form = node.attrs, node.integer_form
    if not hasattr(attrs, "kernel") or form not in (IntegerForm.MEAN, IntegerForm.SHARED):
        return None
    x, sides = _first(operands[0]), _sides(attrs.padding)
    if form is IntegerForm.SHARED:
        image = functional.pad(x, sides, value=-torch.inf)
        return _last(functional.max_pool2d(image, attrs.kernel, attrs.stride))
    there = functional.pad(torch.ones_like(x[:1, :1]), sides)
    counts = functional.avg_pool2d(there, attrs.kernel, attrs.stride)
    sums = functional.avg_pool2d(functional.pad(x, sides), attrs.kernel, attrs.stride)
    return _last(sums / counts)


def _mean(node: Node, operands: Sequence[Any]) -> Any:
    attrs = node.attrs
    if not isinstance(attrs, ReduceAttrs) or attrs.kind not in ("mean", "sum"):
        return None
    reduce = torch.mean if attrs.kind == "mean" else torch.sum
    return reduce(operands[0], dim=attrs.axes, keepdim=True)


def _move(node: Node, operands: Sequence[Any]) -> Any:
    move = _MOVES.get(node.op.movement) if node.op.movement is not None else None
    return None if move is None else move(node, operands)


def _part(node: Node, operands: Sequence[Any]) -> Any:
    attrs, x = node.attrs, operands[0]
    for axis, (begin, step, count) in enumerate(
        zip(attrs.begin, attrs.stride, attrs.shape, strict=True)
    ):
        if axis:  # samples stay
            places = torch.arange(count) * step + begin
            x = x.index_select(axis, places)
    return x


def _padded(node: Node, operands: Sequence[Any]) -> Any:
    sides = [number for pair in reversed(node.attrs.padding) for number in pair]
    return functional.pad(operands[0], sides, value=node.attrs.value)


def _reshaped(node: Node, operands: Sequence[Any]) -> Any:
    return operands[0].reshape(len(operands[0]), *node.output.type.shape[1:])


_MOVES: dict[Movement, Callable[[Node, Sequence[Any]], Any]] = {
    Movement.RESHAPE: _reshaped,
    Movement.PERMUTE: lambda node, x: x[0].permute(node.attrs.permutation),
    Movement.JOIN: lambda node, x: torch.cat(list(x), node.attrs.axis),
    Movement.PART: _part,
    Movement.PAD: _padded,
    Movement.COPY: lambda node, x: x[0],
}


def _element(node: Node, operands: Sequence[Any]) -> Any:
    """A function of one number: its values by the operator itself, its slope by differences."""
    x = operands[0]
    is_one = len(node.activations) == 1 and node.activations[0] is node.inputs[0]
    if node.op.fusion is not Fusion.ELEMENTWISE or not is_one:
        return None

    def values(data: Array) -> Array:
        inputs = [data, *(other.detach().numpy() for other in operands[1:])]
        types = [node.input_types[0].with_shape(data.shape), *node.input_types[1:]]
        results = node.op.infer(node.attrs, *types)
        (made,) = node.op.evaluate(node.attrs, inputs, types, results)
        return np.asarray(made)

    return _Slope.apply(x, values)  # type: ignore[no-untyped-call]


class _Slope(torch.autograd.Function):
    """A function of NumPy with a gradient."""

    @staticmethod
    def forward(context: Any, x: Any, values: Callable[[Array], Array]) -> Any:
        data = x.detach().numpy()
        with np.errstate(all="ignore"):
            rise = values(data + np.float32(_STEP)) - values(data - np.float32(_STEP))
        context.slope = torch.from_numpy(rise / np.float32(2 * _STEP))
        return torch.from_numpy(values(data))

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        return gradients[0] * context.slope, None


class _Exact(torch.autograd.Function):
    """Other numbers in place of a tensor's, whose gradient they get."""

    @staticmethod
    def forward(context: Any, x: Any, numbers: Array) -> Any:
        return torch.from_numpy(np.array(numbers, np.float32).reshape(x.shape))

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        return gradients[0], None


def exactly(x: Any, numbers: Array) -> Any:
    """These numbers, with the gradient of x: a straight path through the rounding."""
    return _Exact.apply(x, numbers)  # type: ignore[no-untyped-call]
