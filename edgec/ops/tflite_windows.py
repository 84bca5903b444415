"""TFLite's windows without an operator of their own: over volumes, of norms, of channels."""

from __future__ import annotations

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.activation import append_activation
from edgec.ops.add import AddAttrs
from edgec.ops.avg_pool2d import AvgPool2dAttrs, tflite_pool
from edgec.ops.direct_conv import DirectConvAttrs
from edgec.ops.direct_conv_transpose import DirectConvTransposeAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.pad import PadAttrs
from edgec.ops.parts import Parts
from edgec.ops.slice import constant_integers
from edgec.ops.tflite_window_sums import reduced_windows
from edgec.ops.transpose import TransposeAttrs
from edgec.ops.window import same_padding

#: Operators whose LiteRT reference kernel is missing or differs from its default kernel.
WRONG_REFERENCES = (
    "LOCAL_RESPONSE_NORMALIZATION", "SEGMENT_SUM", "STABLEHLO_AND", "STABLEHLO_SHIFT_LEFT"
)  # fmt: skip
#: The axes of [N, D, H, W, C] with the channels before the others, and back.
_FIRST, _LAST = (0, 4, 1, 2, 3), (0, 2, 3, 4, 1)


def _finished(builder: GraphBuilder, raw: RawNode, made: Value, bias: Value | None) -> Value:
    """Channels-first sums with their bias and activation, channels last."""
    parts = Parts(builder, raw)
    if bias is not None:
        line = parts.reshaped(bias, (bias.type.elements, 1, 1, 1), "bias")
        made = parts.op("add", [made, line], AddAttrs(), "biased")
    return append_activation(builder, raw, "transpose", [made], TransposeAttrs(_LAST))


@from_tflite("CONV_3D")
def import_conv_3d(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite CONV_3D of floats: input [N, D, H, W, C], weights [D, H, W, C, O]."""
    x, w = raw.operand(0), raw.operand(1)
    parts = Parts(builder, raw)
    strides, dilations = raw.attribute("stride"), raw.attribute("dilation")
    padding = _padding(raw, x.type.shape[1:4], w.type.shape[:3])
    operands = [parts.moved(x, _FIRST, "first"), parts.moved(w, (4, 3, 0, 1, 2), "taps")]
    attrs = DirectConvAttrs(strides, dilations, padding)
    made = parts.op("direct_conv", operands, attrs, "products")
    return _finished(builder, raw, made, raw.optional(2))


def _padding(
    raw: RawNode, extents: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    if raw.attribute("padding") == "VALID":
        return ((0, 0),) * len(extents)
    geometry = zip(extents, kernel, raw.attribute("stride"), raw.attribute("dilation"), strict=True)
    return tuple(same_padding(*axis) for axis in geometry)


@from_tflite("CONV_3D_TRANSPOSE")
def import_conv_3d_transpose(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite CONV_3D_TRANSPOSE of floats to a constant shape; weights [D, H, W, O, C]."""
    shape = constant_integers(raw.operand(0), "the output's shape")
    w, x = raw.operand(1), raw.operand(2)
    if len(shape) != 5 or shape[0] != x.type.shape[0] or shape[4] != w.type.shape[3]:
        raise ImportFailed(f"an output of {shape} for {x.type} and weights {w.type}")
    parts, extents = Parts(builder, raw), tuple(shape[1:4])
    cut = tuple(pair[0] for pair in _padding(raw, extents, w.type.shape[:3]))
    attrs = DirectConvTransposeAttrs(raw.attribute("stride"), raw.attribute("dilation"), cut,
                                     extents)  # fmt: skip
    operands = [parts.moved(x, _FIRST, "first"), parts.moved(w, (4, 3, 0, 1, 2), "taps")]
    made = parts.op("direct_conv_transpose", operands, attrs, "products")
    return _finished(builder, raw, made, raw.optional(3))


@from_tflite("L2_POOL_2D")
def import_l2_pool(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite L2_POOL_2D of floats: the root of the mean square of each window."""
    x = raw.operand(0)
    if not x.type.is_float:
        raise ImportFailed(f"{x.type.dtype} input: only float32 is supported")
    kernel, stride, padding, *_ = tflite_pool(raw)
    parts = Parts(builder, raw)
    squares = parts.op("mul", [x, x], MulAttrs(), "squares")
    mean = parts.op("avg_pool2d", [squares], AvgPool2dAttrs(kernel, stride, padding), "mean")
    return append_activation(builder, raw, "sqrt", [mean])


@from_tflite("LOCAL_RESPONSE_NORMALIZATION")
def import_local_response(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite LOCAL_RESPONSE_NORMALIZATION: x * (bias + alpha * squares around x) ** -beta.

    The sum of squares covers the radius on both sides, as in TensorFlow and LiteRT's optimized
    kernel. LiteRT's reference kernel omits the last square.
    """
    (x,) = raw.operands(1)
    parts, radius, rank = Parts(builder, raw), raw.attribute("radius"), len(x.type.shape)
    if radius < 0 or not x.type.is_float:
        raise ImportFailed(f"a radius of {radius} around {x.type}")
    squares = parts.op("mul", [x, x], MulAttrs(), "squares")
    around = PadAttrs((*((0, 0),) * (rank - 1), (radius, radius)))
    padded = parts.op("pad", [squares], around, "padded")
    window = [(1, 1, 1)] * (rank - 1) + [(2 * radius + 1, 1, 1)]
    total = reduced_windows(parts, padded, window, "add")
    numbers = (raw.attribute("bias"), raw.attribute("alpha"), -raw.attribute("beta"))
    bias, alpha, power = (parts.table(n, f"number{n}", "float32") for n in numbers)
    scaled = parts.op("mul", [total, alpha], MulAttrs(), "scaled")
    base = parts.op("add", [scaled, bias], AddAttrs(), "base")
    factor = parts.op("pow", [base, power], what="factor")
    return parts.op("mul", [x, factor], MulAttrs())
