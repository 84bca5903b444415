"""Powers: with some constant exponents as products and roots, else the rows of the table."""

from __future__ import annotations

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.cast import CastAttrs, cast_to
from edgec.ops.mul import MulAttrs
from edgec.ops.op import RawNode, from_onnx
from edgec.ops.row import FLOATS, INTEGERS


@from_onnx("Pow", since=7)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Pow; the exponents 0.5, 1, 2 and 3 as roots and products.

    ONNX Runtime rounds a cube once or twice, as the order of its input's axes has it.
    """
    x, exponent = raw.operands(2)
    if isinstance(exponent, Constant) and exponent.data.size == 1 and x.type.dtype == "float32":
        made = None
        if len(exponent.type.shape) <= len(x.type.shape):
            made = _as_products(builder, raw, x, float(exponent.data.reshape(())))
        if made is not None:
            return made
    dtypes = (x.type.dtype, exponent.type.dtype)
    if any(dtype not in (*FLOATS, *INTEGERS) for dtype in dtypes):
        raise ImportFailed(f"{dtypes[0]} to the power of {dtypes[1]} is not supported")
    return _computed(builder, raw, x, exponent)


def _computed(builder: GraphBuilder, raw: RawNode, x: Value, exponent: Value) -> Value:
    """Compute in the wider type, then convert to the base's type."""
    dtype = x.type.dtype
    if dtype in INTEGERS:
        wide = "int64" if exponent.type.dtype in INTEGERS else "float64"
    else:
        wide = dtype
    base = cast_to(builder, x, CastAttrs(wide), f"{raw.name}/base")
    power = cast_to(builder, exponent, CastAttrs(wide), f"{raw.name}/exponent")
    row = "int_pow" if wide == "int64" else "pow"
    name = raw.name if wide == dtype else f"{raw.name}/{wide}"
    made = builder.op(row, [base, power], name=name, sources=(raw.name,))
    return cast_to(builder, made, CastAttrs(dtype), raw.name)


def _as_products(builder: GraphBuilder, raw: RawNode, x: Value, power: float) -> Value | None:
    if power == 1:
        return x
    if power == 0.5:
        return builder.op("sqrt", [x], name=raw.name)
    if power == 2:
        return builder.op("mul", [x, x], MulAttrs(), name=raw.name)
    if power == 3:
        return builder.op("cube", [x], name=raw.name)
    return None
