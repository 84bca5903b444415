"""Operators with a counterpart in TOSA, found by their traits: products, pools, moves and
rescalings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgec.exporters.tosa.text import CannotSay, Tensor, TosaText, element_of, numbers
from edgec.exporters.tosa.values import (
    can_rescale,
    limited,
    padded,
    rescaled,
    reshaped,
    sliced,
    transposed,
)
from edgec.graph.ir import Node
from edgec.graph.traits import IntegerForm, Movement, Storage
from edgec.numerics.fixed_point import quantize_multiplier

_FLOAT_MEAN = (IntegerForm.MEAN, "float32")
Pairs = tuple[tuple[int, int], tuple[int, int]]
#: An operator's inputs in order, as values of the text.
Operands = Sequence[Tensor]


def write_operator(out: TosaText, node: Node, operands: Operands) -> Tensor | None:
    """The result of a node, None where TOSA has no single word for it. Raises CannotSay."""
    for write in (_products, _pool, _move, _rescale, _limit):
        made = write(out, node, operands)
        if made is not None:
            return made
    return None


def _zero(out: TosaText, operand: Tensor, number: int = 0) -> Tensor:
    """The zero point of an operand as an operand."""
    return out.constant(np.array([number], operand.dtype))


def _products(out: TosaText, node: Node, operands: Operands) -> Tensor | None:
    products, output = node.op.products, node.output.type
    if products is None:
        return None
    x, weights, bias = operands
    if output.dtype not in ("int32", "float32"):
        raise CannotSay(f"sums of products in {output.dtype}")
    quant = node.inputs[0].type.quant
    zero = 0 if quant is None else quant.zero_point[0]
    given = [x, weights, bias, _zero(out, x, zero), _zero(out, weights)]
    if not products.window:
        return _matrix(out, node, given)
    return _scattered(out, node, given) if products.scatters else _windows(out, node, given)


def _matrix(out: TosaText, node: Node, operands: Operands) -> Tensor:
    """A product of matrices as a convolution of one pixel."""
    x, weights, *others = operands
    x, weights = (
        reshaped(out, each, (each.shape[0], 1, 1, each.shape[1])) for each in (x, weights)
    )
    shape, once = (x.shape[0], 1, 1, weights.shape[0]), (1, 1)
    padding = ((0, 0), (0, 0))
    made = _convolution(out, "conv2d", [x, weights, *others], shape, padding, once, once)
    return reshaped(out, made, node.output.type.shape)


def _windows(out: TosaText, node: Node, operands: Operands) -> Tensor:
    products, attrs, output = node.op.products, node.attrs, node.output.type
    assert products is not None
    x, weights, *others = operands
    kernel = [weights.shape[axis] for axis in products.window]
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, attrs.dilation, strict=True)]
    if products.is_depthwise:
        height, width, outputs = weights.shape
        weights = reshaped(out, weights, (height, width, x.shape[3], outputs // x.shape[3]))
    x, padding = _whole_windows(out, x, reach, attrs.stride, attrs.padding, output.shape)
    kind = "depthwise_conv2d" if products.is_depthwise else "conv2d"
    return _convolution(
        out, kind, [x, weights, *others], output.shape, padding, attrs.stride, attrs.dilation
    )


def _convolution(
    out: TosaText, kind: str, operands: Operands, shape: Sequence[int], padding: Pairs,
    stride: Sequence[int], dilation: Sequence[int],
) -> Tensor:  # fmt: skip
    dtype = operands[2].dtype
    return out.op(
        kind, operands, shape, dtype, acc_type=element_of(dtype),
        pad=numbers(*(number for pair in padding for number in pair)), stride=numbers(*stride),
        dilation=numbers(*dilation),
    )  # fmt: skip


def _scattered(out: TosaText, node: Node, operands: Operands) -> Tensor:
    """Padding of the output, which may be negative, in place of a corner and extents."""
    attrs, shape = node.attrs, node.output.type.shape
    pads: list[int] = []
    for axis in (0, 1):
        size = operands[1].shape[axis + 1]
        whole = (operands[0].shape[axis + 1] - 1) * attrs.stride[axis] + size
        pads += [-attrs.corner[axis], shape[axis + 1] - whole + attrs.corner[axis]]
        if min(pads[-2:]) <= -size:
            raise CannotSay("an output that leaves out whole windows")
    return out.op("transpose_conv2d", operands, shape, node.output.type.dtype,
                  acc_type=element_of(node.output.type.dtype),
                  out_pad=numbers(*pads), stride=numbers(*attrs.stride))  # fmt: skip


def _whole_windows(
    out: TosaText, x: Tensor, reach: Sequence[int], stride: Sequence[int], padding: Pairs,
    output: Sequence[int],
) -> tuple[Tensor, Pairs]:  # fmt: skip
    """Input and padding whose rows and columns are all read, as TOSA requires."""
    extents, pairs = list(x.shape), []
    for axis in (0, 1):
        before, _ = padding[axis]
        read = (output[axis + 1] - 1) * stride[axis] + reach[axis]
        after = read - before - x.shape[axis + 1]
        if after < 0:
            extents[axis + 1] += after
        pairs.append((before, max(after, 0)))
    return sliced(out, x, (0, 0, 0, 0), extents), (pairs[0], pairs[1])


def _pool(out: TosaText, node: Node, operands: Operands) -> Tensor | None:
    attrs, output = node.attrs, node.output.type
    known = (IntegerForm.SHARED, "int8"), (IntegerForm.SHARED, "float32"), _FLOAT_MEAN
    found = (node.integer_form, output.dtype)
    if not hasattr(attrs, "kernel") or len(output.shape) != 4 or found not in known:
        return None
    x, padding = _whole_windows(
        out, operands[0], attrs.kernel, attrs.stride, attrs.padding, output.shape
    )
    said = {
        "kernel": numbers(*attrs.kernel),
        "stride": numbers(*attrs.stride),
        "pad": numbers(*(number for pair in padding for number in pair)),
    }
    if found == _FLOAT_MEAN:
        zeros = [_zero(out, x), _zero(out, x)]
        return out.op("avg_pool2d", [x, *zeros], output.shape, output.dtype, acc_type="f32", **said)
    made = out.op("max_pool2d", [x], output.shape, output.dtype, **said)
    return made if output.is_float else _between(out, made, attrs.minimum, attrs.maximum)


def _between(out: TosaText, x: Tensor, low: int, high: int) -> Tensor:
    """int8 limited to bounds; unchanged where these are the bounds of the dtype."""
    return x if (low, high) == (-128, 127) else limited(out, x, low, high)


def _move(out: TosaText, node: Node, operands: Operands) -> Tensor | None:
    write = _MOVES.get(node.op.movement) if node.op.movement else None
    if node.op.storage is Storage.REINTERPRET:
        return operands[0]
    return None if write is None else write(out, node, operands)


def _part(out: TosaText, node: Node, operands: Operands) -> Tensor | None:
    attrs = node.attrs
    if len(operands) != 1 or any(step != 1 for step in getattr(attrs, "stride", (0,))):
        return None
    return sliced(out, operands[0], attrs.begin, node.output.type.shape)


def _joined(out: TosaText, node: Node, operands: Operands) -> Tensor:
    output = node.output.type
    return out.op("concat", operands, output.shape, output.dtype, axis=f"{node.attrs.axis} : i32")


_MOVES: dict[Movement, Callable[[TosaText, Node, Operands], Tensor | None]] = {
    Movement.RESHAPE: lambda out, node, x: reshaped(out, x[0], node.output.type.shape),
    Movement.COPY: lambda out, node, x: x[0],
    Movement.PERMUTE: lambda out, node, x: transposed(out, x[0], node.attrs.permutation),
    Movement.PAD: lambda out, node, x: padded(out, x[0], node.attrs.padding, node.attrs.value),
    Movement.JOIN: _joined,
    Movement.PART: _part,
}


def _rescale(out: TosaText, node: Node, operands: Operands) -> Tensor | None:
    """Accumulators, or stored values, to stored values by fixed-point factors."""
    attrs, x = node.attrs, node.inputs[0].type
    if node.op.storage is not Storage.REQUANTIZE or attrs.rounding not in ("tflm", "single"):
        return None
    if x.dtype not in ("int8", "int32") or attrs.dtype != "int8":
        return None
    pairs = np.array([quantize_multiplier(real) for real in attrs.multiplier], np.int64)
    multiplier, shift = pairs[:, 0], pairs[:, 1]
    if not can_rescale(multiplier, shift):
        raise CannotSay("factors that its rescale cannot represent")
    zeros = (0 if x.quant is None else x.quant.zero_point[0], attrs.output.zero_point[0])
    made = rescaled(
        out, operands[0], (multiplier, shift), zero_points=zeros, dtype="int8",
        twice=attrs.rounding == "tflm",
    )  # fmt: skip
    return _between(out, made, attrs.minimum, attrs.maximum)


def _limit(out: TosaText, node: Node, operands: Operands) -> Tensor | None:
    """A clip of floats."""
    if not node.op.is_limit:
        return None
    return limited(out, operands[0], node.attrs.minimum, node.attrs.maximum)
