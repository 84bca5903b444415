"""transpose_conv2d: each input element spreads its products over a window of the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import IntegerForm, Products
from edgec.graph.types import Array, Arrays, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast, maximum, minimum
from edgec.numerics.ordered_sum import without_negative_zeros
from edgec.ops.accumulate import widened
from edgec.ops.activation import append_activation
from edgec.ops.broadcast import constant_of, tensor_of
from edgec.ops.conv2d import centred, check_operands, with_bias
from edgec.ops.offset_weights import append_products, offset_scales
from edgec.ops.onnx_graph import OnnxGraph, as_stored
from edgec.ops.op import Op, RawNode, from_tflite
from edgec.ops.requantize import append_requantize, product_multipliers, tflite_operands
from edgec.ops.window import Pair, same_padding


@dataclass(frozen=True)
class TransposeConv2dAttrs:
    """Pairs of (height, width). stride: output rows between the windows of neighbouring inputs.

    corner: rows of the first window before the output. output: extents of the output; rows of
    windows beyond it are cut off, and rows that no window reaches hold the bias.
    """

    stride: Pair
    corner: Pair
    output: Pair


@register
class TransposeConv2d(Op[TransposeConv2dAttrs]):
    """x [N, H, W, C], weights [O, KH, KW, C], bias [O] -> [N, OH, OW, O].

    out[h * stride + kh - corner] += x[h] * weights[kh], along both axes. Dtypes as `conv2d`;
    floats from the bias on, product after product in the order kernel row, kernel column, input
    channel.
    """

    name = "transpose_conv2d"
    attrs_class = TransposeConv2dAttrs
    constant_inputs = (1, 2)
    fusion = Fusion.COMPLEX
    tolerance = 2e-6
    products = Products(outputs=0, inputs=3, window=(1, 2), scatters=True)
    integer_form = IntegerForm.PRODUCTS
    approximates = True

    def infer(self, attrs: TransposeConv2dAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The attributes' extents; the accumulators' dtype without quantization."""
        x, weights, bias = inputs
        dtype = check_operands(self.name, x, weights, bias)
        if len(x.shape) != 4 or len(weights.shape) != 4:
            raise TypeMismatch("transpose_conv2d needs an input and weights of rank 4")
        if x.shape[3] != weights.shape[3]:
            raise TypeMismatch(
                f"transpose_conv2d weights read {weights.shape[3]} channels, the input has"
                f" {x.shape[3]}"
            )
        if bias.shape != weights.shape[:1]:
            raise TypeMismatch(f"bias {list(bias.shape)} for {weights.shape[0]} channels")
        if min(*attrs.stride, *attrs.output, *x.shape, *weights.shape) < 1 or min(attrs.corner) < 0:
            raise TypeMismatch("transpose_conv2d needs extents and strides of at least 1")
        return (TensorType((x.shape[0], *attrs.output, weights.shape[0]), dtype),)

    def attrs_at(
        self, attrs: TransposeConv2dAttrs, largest: Types, inputs: Types
    ) -> TransposeConv2dAttrs:
        """An output that is a stride shorter for each element that the input is."""
        (rows, columns), (down, right) = attrs.output, attrs.stride
        high, wide = (
            m - n for m, n in zip(largest[0].shape[1:3], inputs[0].shape[1:3], strict=True)
        )
        return replace(attrs, output=(rows - high * down, columns - wide * right))

    def evaluate(
        self, attrs: TransposeConv2dAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """Kernel position by kernel position on a canvas that holds every window whole."""
        x, weights, bias = inputs
        batch, height, width, _ = x.shape
        outputs, kernel_h, kernel_w, _ = weights.shape
        (stride_h, stride_w), (top, left), (rows, columns) = (
            attrs.stride,
            attrs.corner,
            attrs.output,
        )
        extents = (
            max((height - 1) * stride_h + kernel_h, top + rows),
            max((width - 1) * stride_w + kernel_w, left + columns),
        )
        is_float = output_types[0].is_float
        canvas = np.zeros((batch, *extents, outputs), np.float32 if is_float else np.float64)
        if is_float:
            canvas[...] = without_negative_zeros(bias)
        else:
            x = centred(x, input_types[0])
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            for kh, kw in np.ndindex(kernel_h, kernel_w):
                part = canvas[
                    :,
                    kh : kh + (height - 1) * stride_h + 1 : stride_h,
                    kw : kw + (width - 1) * stride_w + 1 : stride_w,
                ]
                taps = weights[:, kh, kw, :]
                if not is_float:
                    part += x @ taps.T.astype(np.float64)
                    continue
                for channel in range(x.shape[3]):
                    part += x[..., channel, None] * taps[:, channel]
        result = canvas[:, top : top + rows, left : left + columns]
        if is_float:
            return (np.ascontiguousarray(result),)
        return (with_bias(result, bias, output_types[0].dtype),)

    def macs(self, attrs: TransposeConv2dAttrs, inputs: Types) -> int:
        """Every tap of every input element, cut off or not."""
        x, weights, _ = inputs
        return x.elements * weights.shape[0] * weights.shape[1] * weights.shape[2]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation per output element, over the windows that reach it."""
        attrs: TransposeConv2dAttrs = node.attrs
        x, w, bias = tensor_of(inputs[0]), constant_of(inputs[1]).data, constant_of(inputs[2]).data
        quant = node.inputs[0].type.quant
        offset = 0 if quant is None else -quant.zero_point[0]
        if node.output.type.is_float:
            bias = without_negative_zeros(bias)
        weights, biases = target.table("w", w), target.table("bias", bias)
        steps = [
            _Steps(x.shape[axis + 1], w.shape[axis + 1], attrs.stride[axis], attrs.corner[axis])
            for axis in (0, 1)
        ]
        rows, columns = steps
        return target.reduce(
            "acc",
            node.output.type.shape,
            node.output.type.dtype,
            [
                ("kh", lambda n, h, w, c: rows.first(h), lambda n, h, w, c: rows.last(h)),
                ("kw", lambda n, h, w, c: columns.first(w), lambda n, h, w, c: columns.last(w)),
                ("ic", 0, x.shape[3]),
            ],
            init=lambda n, h, w, c: biases[c],
            update=lambda acc, n, h, w, c, kh, kw, ic: (
                acc
                + widened(x[n, rows.read(h, kh), columns.read(w, kw), ic], acc, offset)
                * cast(weights[c, rows.tap(h, kh), columns.tap(w, kw), ic], acc.dtype)
            ),
        )

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """ConvTranspose with [C, O, KH, KW].

        The rows cut off at the end may be negative: then the output extends beyond the windows.
        """
        x, weights, bias = node.inputs
        attrs = node.attrs
        beyond = [
            attrs.stride[n] * (x.type.shape[n + 1] - 1)
            + weights.type.shape[n + 1] - attrs.corner[n] - attrs.output[n]
            for n in (0, 1)
        ]  # fmt: skip
        operands = [
            out.first(x), out.operand(weights, lambda data: data.transpose(3, 0, 1, 2), 1),
            out.operand(bias, as_stored, 0),
        ]  # fmt: skip
        out.emit(
            "ConvTranspose", operands, out.define_first(node.output), strides=attrs.stride,
            pads=[*attrs.corner, *(max(n, 0) for n in beyond)],
            output_padding=[max(-n, 0) for n in beyond],
        )  # fmt: skip


@dataclass(frozen=True)
class _Steps:
    """Along one axis, the kernel positions that reach an output position: every `stride`-th.

    Step k of position p is kernel position phase + k * stride, where phase = (p + corner) modulo
    stride; it reads the input at (p + corner) / stride - k.
    """

    extent: int
    kernel: int
    stride: int
    corner: int

    def first(self, position: Any) -> Any:
        return maximum(0, (position + self.corner) // self.stride - (self.extent - 1))

    def last(self, position: Any) -> Any:
        phase = (position + self.corner) % self.stride
        steps = (self.kernel + self.stride - 1 - phase) // self.stride
        return minimum(steps, (position + self.corner) // self.stride + 1)

    def tap(self, position: Any, step: Any) -> Any:
        return (position + self.corner) % self.stride + step * self.stride

    def read(self, position: Any, step: Any) -> Any:
        return (position + self.corner) // self.stride - step


@from_tflite("TRANSPOSE_CONV")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite TRANSPOSE_CONV, of the extents that the file declares for its output.

    Its first input, the output's shape, may be computed; it is not read.
    """
    declared = raw.output_types[0]
    if len(raw.inputs) not in (3, 4) or declared is None or raw.inputs[2] is None:
        raise ImportFailed("it needs an output shape, weights, an input and perhaps a bias")
    reordered = (raw.operand(2), raw.operand(1), *raw.inputs[3:])
    operands = tflite_operands(builder, replace(raw, inputs=reordered), channel_axis=0)
    x, weights, _ = operands
    if len(x.type.shape) != 4 or len(weights.type.shape) != 4 or len(declared.shape) != 4:
        raise ImportFailed("the input, the weights or the output are not of rank 4")
    channels, *kernel, _ = weights.type.shape
    stride = raw.attribute("stride")
    corner = (0, 0)
    if raw.attribute("padding") == "SAME":
        # Of the convolution that this one transposes, from the output to the input.
        top, left = (
            same_padding(declared.shape[axis + 1], kernel[axis], stride[axis])[0] for axis in (0, 1)
        )
        corner = (top, left)
    attrs = TransposeConv2dAttrs(stride, corner, (declared.shape[1], declared.shape[2]))
    if x.type.is_float:
        return append_activation(builder, raw, "transpose_conv2d", operands, attrs)
    multiplier = product_multipliers(x.type, offset_scales(weights, channels), declared)
    acc = append_products(builder, raw, "transpose_conv2d", operands, attrs)
    return append_requantize(builder, raw, acc, multiplier)


#: TfLitePadding of MediaPipe's options.
_SAME, _VALID = 1, 2


@from_tflite("CUSTOM:Convolution2DTransposeBias")
def import_mediapipe(builder: GraphBuilder, raw: RawNode) -> Value:
    """MediaPipe's transposed convolution of floats with a bias.

    Source: MediaPipe's util/tflite/operations/transpose_conv_bias.cc, Prepare: with SAME padding
    the windows overlap the output's edge by max(0, kernel - (extent - 1) % stride - 1).
    """
    if len(raw.inputs) != 3 or None in raw.inputs:
        raise ImportFailed("it needs an input, weights and a bias")
    x, weights, bias = tflite_operands(builder, raw, channel_axis=0)
    if not x.type.is_float or len(x.type.shape) != 4 or len(weights.type.shape) != 4:
        raise ImportFailed("the input and the weights are not float32 of rank 4")
    stride = raw.attribute("stride_height"), raw.attribute("stride_width")
    padding = raw.attribute("padding")
    if min(stride) < 1 or padding not in (_SAME, _VALID):
        raise ImportFailed(f"stride {stride} and padding {padding}")
    corner, output = [], []
    for axis in (0, 1):
        extent, kernel, step = x.type.shape[axis + 1], weights.type.shape[axis + 1], stride[axis]
        cut = max(0, kernel - (extent - 1) % step - 1) if padding == _SAME else 0
        corner.append(cut // 2)
        output.append(step * (extent - 1) + kernel - cut)
    attrs = TransposeConv2dAttrs(stride, (corner[0], corner[1]), (output[0], output[1]))
    return builder.op("transpose_conv2d", [x, weights, bias], attrs, name=raw.name)
