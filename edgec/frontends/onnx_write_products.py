"""How products, pools, arithmetic and functions of one element are written as ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.onnx_writer import TO_FIRST, OnnxWriter, writer
from edgec.graph.ir import Constant, Node
from edgec.graph.types import Array


def _pads(padding: Any) -> list[int]:
    (top, bottom), (left, right) = padding
    return [top, left, bottom, right]


def _as_stored(data: Array) -> Array:
    return data


@writer("conv2d", "depthwise_conv2d")
def _convolution(out: OnnxWriter, node: Node) -> None:
    x, weights, bias = node.inputs
    is_depthwise = node.op.name == "depthwise_conv2d"

    def change(data: Array) -> Array:
        # [KH, KW, O] to [O, 1, KH, KW], or [O, KH, KW, C] to [O, C, KH, KW].
        return data.transpose(2, 0, 1)[:, np.newaxis] if is_depthwise else data.transpose(TO_FIRST)

    operands = [out.first(x), out.operand(weights, change, 0), out.operand(bias, _as_stored, 0)]
    attrs = node.attrs
    out.emit(
        "Conv", operands, out.define_first(node.output),
        group=x.type.shape[3] if is_depthwise else 1, strides=attrs.stride,
        dilations=attrs.dilation, pads=_pads(attrs.padding),
    )  # fmt: skip


@writer("transpose_conv2d")
def _transposed(out: OnnxWriter, node: Node) -> None:
    """What is cut off at the end may be negative: then the output goes on beyond the windows."""
    x, weights, bias = node.inputs
    attrs = node.attrs
    beyond = [
        attrs.stride[n] * (x.type.shape[n + 1] - 1)
        + weights.type.shape[n + 1] - attrs.corner[n] - attrs.output[n]
        for n in (0, 1)
    ]  # fmt: skip

    def change(data: Array) -> Array:
        return data.transpose(3, 0, 1, 2)  # [O, KH, KW, C] to [C, O, KH, KW]

    operands = [out.first(x), out.operand(weights, change, 1), out.operand(bias, _as_stored, 0)]
    out.emit(
        "ConvTranspose", operands, out.define_first(node.output), strides=attrs.stride,
        pads=[*attrs.corner, *(max(n, 0) for n in beyond)],
        output_padding=[max(-n, 0) for n in beyond],
    )  # fmt: skip


@writer("dense")
def _dense(out: OnnxWriter, node: Node) -> None:
    x, weights, bias = node.inputs
    operands = [
        out.own(x), out.operand(weights, _as_stored, 0), out.operand(bias, _as_stored, 0)
    ]  # fmt: skip
    out.emit("Gemm", operands, out.define_own(node.output), transB=1)


@writer("max_pool2d", "avg_pool2d")
def _pool(out: OnnxWriter, node: Node) -> None:
    attrs = node.attrs
    kind = "MaxPool" if node.op.name == "max_pool2d" else "AveragePool"
    out.emit(
        kind, [out.first(node.inputs[0])], out.define_first(node.output),
        kernel_shape=attrs.kernel, strides=attrs.stride, pads=_pads(attrs.padding),
    )  # fmt: skip


def _own_operands(out: OnnxWriter, node: Node) -> list[str]:
    """What a node reads, in the order of its own axes."""
    return [
        out.own(value) if out.constant_of(value) is None else out.operand(value, _as_stored, 0)
        for value in node.inputs
    ]


@writer("matmul")
def _matmul(out: OnnxWriter, node: Node) -> None:
    out.emit("MatMul", _own_operands(out, node), out.define_own(node.output))


@writer("layer_norm")
def _layer_norm(out: OnnxWriter, node: Node) -> None:
    operands = _own_operands(out, node)
    out.emit(
        "LayerNormalization", operands, out.define_own(node.output), epsilon=node.attrs.epsilon
    )


@writer("gelu", "gelu_tanh")
def _gelu(out: OnnxWriter, node: Node) -> None:
    inputs, output, _ = out.places(node)
    approximate = "tanh" if node.op.name == "gelu_tanh" else "none"
    out.emit("Gelu", inputs, output, approximate=approximate)


@writer("softmax")
def _softmax(out: OnnxWriter, node: Node) -> None:
    if node.attrs.beta != 1.0:
        raise ImportFailed(f"softmax with beta {node.attrs.beta} cannot be written as ONNX")
    out.emit("Softmax", [out.own(node.inputs[0])], out.define_own(node.output), axis=-1)


@writer("log_softmax")
def _log_softmax(out: OnnxWriter, node: Node) -> None:
    out.emit("LogSoftmax", [out.own(node.inputs[0])], out.define_own(node.output), axis=-1)


#: Operators without attributes, by ONNX's names.
_PLAIN = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min",
    "logistic": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "erf": "Erf", "neg": "Neg", "abs": "Abs", "prelu": "PRelu", "hard_swish": "HardSwish",
}  # fmt: skip


@writer(*_PLAIN)
def _plain(out: OnnxWriter, node: Node) -> None:
    inputs, output, _ = out.places(node)
    out.emit(_PLAIN[node.op.name], inputs, output)


@writer("rsqrt")
def _rsqrt(out: OnnxWriter, node: Node) -> None:
    inputs, output, _ = out.places(node)
    root = out.fresh(f"{output}.sqrt")
    out.emit("Sqrt", inputs, root)
    one = out.initializer(f"{output}.one", np.asarray(1.0, np.float32))
    out.emit("Div", [one, root], output)


@writer("squared_difference")
def _squared_difference(out: OnnxWriter, node: Node) -> None:
    inputs, output, _ = out.places(node)
    difference = out.fresh(f"{output}.difference")
    out.emit("Sub", inputs, difference)
    out.emit("Mul", [difference, difference], output)


@writer("leaky_relu")
def _leaky_relu(out: OnnxWriter, node: Node) -> None:
    inputs, output, _ = out.places(node)
    out.emit("LeakyRelu", inputs, output, alpha=node.attrs.alpha)


@writer("hard_sigmoid")
def _hard_sigmoid(out: OnnxWriter, node: Node) -> None:
    inputs, output, _ = out.places(node)
    out.emit("HardSigmoid", inputs, output, alpha=node.attrs.alpha, beta=node.attrs.beta)


@writer("clip")
def _clip(out: OnnxWriter, node: Node) -> None:
    inputs, output, _ = out.places(node)
    low, high = node.attrs.minimum, node.attrs.maximum
    if low == 0.0 and np.isinf(high):
        out.emit("Relu", inputs, output)
        return
    bounds = [
        ""
        if np.isinf(bound)
        else out.initializer(f"{output}.{name}", np.asarray(bound, np.float32))
        for name, bound in (("minimum", low), ("maximum", high))
    ]
    out.emit("Clip", [*inputs, *bounds], output)


@writer("quantize")
def _quantize(out: OnnxWriter, node: Node) -> None:
    inputs, output, _ = out.places(node)
    parameters = out.parameters(output, node.attrs.output, node.attrs.dtype)
    out.emit("QuantizeLinear", [*inputs, *parameters], output)


@writer("dequantize")
def _dequantize(out: OnnxWriter, node: Node) -> None:
    (stored,) = node.inputs
    if isinstance(stored, Constant):
        return  # written where it is used, in the order that its user needs
    inputs, output, _ = out.places(node)
    quant = stored.type.quant
    assert quant is not None
    parameters = out.parameters(output, quant, stored.type.dtype)
    out.emit("DequantizeLinear", [*inputs, *parameters], output)
