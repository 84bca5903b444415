"""Bodies of operators on quantized tensors: QLinearConv and QLinearMatMul of ONNX, and those that
ONNX Runtime adds in its QOperator format.

Each is an operator of floats between DequantizeLinear and QuantizeLinear, which is how ONNX Runtime
makes them, too. The compiler then computes it in integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgec.errors import ImportFailed
from edgec.frontends.onnx_bodies import (
    BODIES,
    INPUTS,
    NUMBERS,
    Bodies,
    Use,
    attributes_of,
    ints,
    require_zero_points,
)

DOMAIN = "com.microsoft"


def _parameters(use: Use, scale: int) -> str:
    """A scale, and the zero point that follows it, if there is one."""
    names = [INPUTS[scale], *([INPUTS[scale + 1]] if use.has(scale + 1) else [])]
    return ", ".join(names)


def _dequantized(use: Use, result: str, data: int, axis: int = 0) -> str:
    """A float value of the integers at this position, whose scale and zero point follow."""
    along = f"<axis = {axis}>" if use.type(data + 1).elements > 1 else ""
    return f"{result} = DequantizeLinear{along}({INPUTS[data]}, {_parameters(use, data + 1)})\n"


def _quantized(use: Use, value: str, scale: int, like: int = 0) -> str:
    """The result. like: the input whose dtype it has where no zero point says one."""
    dtype = "" if use.has(scale + 1) else f"<output_dtype = {NUMBERS[use.type(like).dtype]}>"
    return f"x = QuantizeLinear{dtype}({value}, {_parameters(use, scale)})\n"


def _of_one(kind: str, *, drops: tuple[str, ...] = ()) -> Callable[[Use], str]:
    """An operator of one input, its scale and its zero point. drops: attributes it has not."""

    def body(use: Use) -> str:
        if use.get("channels_last", 0):
            raise ImportFailed("channels_last is not supported")
        kept = {key: value for key, value in use.attributes.items() if key not in drops}
        text = _dequantized(use, "p", 0) + f"q = {kind}{attributes_of(kept)}(p)\n"
        return text + _quantized(use, "q", 3)

    return body


def _of_two(kind: str) -> Callable[[Use], str]:
    def body(use: Use) -> str:
        text = _dequantized(use, "p", 0) + _dequantized(use, "q", 3)
        return text + f"r = {kind}(p, q)\n" + _quantized(use, "r", 6)

    return body


def _is_plain(use: Use) -> bool:
    """Whether both operands are integers that no QuantizeLinear made."""
    return use.type(0).quant is None and use.type(3).quant is None


def _matmul(use: Use) -> str:
    if _is_plain(use):
        return BODIES["QLinearMatMul"](use)
    require_zero_points(use)
    text = _dequantized(use, "p", 0) + _dequantized(use, "q", 3, len(use.type(3).shape) - 1)
    return text + "r = MatMul(p, q)\n" + _quantized(use, "r", 6)


def _conv(use: Use) -> str:
    if _is_plain(use):
        return BODIES["QLinearConv"](use)
    require_zero_points(use)
    text = _dequantized(use, "p", 0) + _dequantized(use, "q", 3)
    if use.has(8):
        text += "s = Mul(b, e)\nr = DequantizeLinear<axis = 0>(i, s)\n"
    text += f"t = Conv{attributes_of(use.attributes)}(p, q{', r' if use.has(8) else ''})\n"
    return text + _quantized(use, "t", 6)


def _gemm(use: Use) -> str:
    """The bias has the scale of the products; the result is float32 without a scale of its own."""
    across, alpha = int(use.get("transB", 0)), float(use.get("alpha", 1.0))
    text = _dequantized(use, "p", 0) + _dequantized(use, "q", 3, 1 - across)
    if use.has(6):
        last = max(len(use.type(6).shape) - 1, 0)
        text += f"o = Constant<value_float = {alpha!r}>()\ns0 = Mul(b, e)\ns = Mul(s0, o)\n"
        text += f"r = DequantizeLinear<axis = {last}>(g, s)\n"
    given: Mapping[str, Any] = {**use.attributes, "alpha": alpha}
    result = "t" if use.has(7) else "x"
    text += f"{result} = Gemm{attributes_of(dict(given))}(p, q{', r' if use.has(6) else ''})\n"
    return text + (_quantized(use, "t", 7) if use.has(7) else "")


def _concat(use: Use) -> str:
    """The result's scale and zero point come first, then each input with its own."""
    firsts = range(2, len(use.types), 3)
    text = "".join(_dequantized(use, f"p{first}", first) for first in firsts)
    names = ", ".join(f"p{first}" for first in firsts)
    return text + f"q = Concat{attributes_of(use.attributes)}({names})\n" + _quantized(use, "q", 0)


def _where(use: Use) -> str:
    text = _dequantized(use, "p", 1) + _dequantized(use, "q", 4)
    return text + "r = Where(a, p, q)\n" + _quantized(use, "r", 7)


def _softmax(use: Use) -> str:
    """Before operator set 13 all axes from the given one on are one."""
    shape = use.type(0).shape
    axis = use.axis("axis", -1, len(shape))
    text = _dequantized(use, "p", 0)
    if int(use.get("opset", 13)) >= 13 or axis == len(shape) - 1:
        return text + f"q = Softmax<axis = {axis}>(p)\n" + _quantized(use, "q", 3)
    text += f"f = Flatten<axis = {axis}>(p)\nm = Softmax<axis = 1>(f)\n" + ints("to", shape)
    return text + "q = Reshape(m, to)\n" + _quantized(use, "q", 3)


_ADDED: Bodies = {
    "QLinearAdd": _of_two("Add"), "QLinearMul": _of_two("Mul"), "QGemm": _gemm,
    "QLinearSigmoid": _of_one("Sigmoid"), "QLinearLeakyRelu": _of_one("LeakyRelu"),
    "QLinearGlobalAveragePool": _of_one("GlobalAveragePool", drops=("channels_last",)),
    "QLinearAveragePool": _of_one("AveragePool", drops=("channels_last",)),
    "QLinearConcat": _concat, "QLinearWhere": _where, "QLinearSoftmax": _softmax,
}  # fmt: skip
QOPERATORS: Bodies = {
    "QLinearConv": _conv, "QLinearMatMul": _matmul,
    **{f"{DOMAIN}.{name}": body for name, body in _ADDED.items()},
}  # fmt: skip
