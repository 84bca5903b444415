"""Powers with a constant exponent, as products, roots and quotients."""

from __future__ import annotations

from typing import Any

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant
from edgec.ops.mul import MulAttrs
from edgec.ops.op import RawNode, from_onnx


@from_onnx("Pow", since=7)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Pow with the exponent 0.5, 1, 2 or 3, as ONNX Runtime computes those: exactly rounded.

    Other exponents need a logarithm of which the last bits are everybody's own.
    """
    x, exponent = raw.operands(2)
    if x is None or x.type.dtype != "float32":
        raise ImportFailed(f"{x and x.type.dtype} input: only float32 is supported yet")
    if not isinstance(exponent, Constant) or exponent.data.size != 1:
        raise ImportFailed("the exponent must be one constant number")
    if len(exponent.type.shape) > len(x.type.shape):
        raise ImportFailed("the exponent has more axes than the input")
    power = float(exponent.data.reshape(()))
    if power == 1:
        return x
    if power == 0.5:
        return builder.op("sqrt", [x], name=raw.name)
    if power == 2:
        return builder.op("mul", [x, x], MulAttrs(), name=raw.name)
    if power == 3:
        square = builder.op("mul", [x, x], MulAttrs(), name=f"{raw.name}/2", sources=(raw.name,))
        return builder.op("mul", [square, x], MulAttrs(), name=raw.name)
    raise ImportFailed(f"the exponent {power:g} is not supported, only 0.5, 1, 2 and 3")
