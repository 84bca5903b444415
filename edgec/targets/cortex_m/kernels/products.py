"""Sums of float32 products for one row of inputs (`runtime_c/kernels/cortex_m/products_f32.h`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from edgec.loop.ir import Buffer, For, Load, PrimFunc, Seq, Stmt, Store
from edgec.loop.microkernel import Microkernel, Struct, register
from edgec.loop.values import ExprValue, as_expr
from edgec.numerics.term import Var, as_term
from edgec.targets.cortex_m.kernels.float_rows import UNIT, FloatForm, RowSizes, conv_row

ADD_PRODUCTS, DENSE = "ec_add_products_f32", "ec_dense_row_f32"


def add_products(count: int) -> PrimFunc:
    """sums[c] = sums[c] + x[k] * w[k, c], for k < count in order."""
    k, c = Var("k", 0, count), Var("c", 0, UNIT)
    sums = Buffer("sums", (UNIT,), "float32", "arena")
    x = Buffer("x", (count,), "float32", "arena")
    w = Buffer("w", (count, UNIT), "float32", "constant")
    here = (as_term(c),)
    product = ExprValue(Load(x, (as_term(k),))) * ExprValue(Load(w, (as_term(k), *here)))
    total = as_expr(ExprValue(Load(sums, here)) + product, "float32")
    each = For(c, as_term(0), as_term(UNIT), "serial", Store(sums, here, total))
    body = For(k, as_term(0), as_term(count), "serial", each)
    return PrimFunc("add_products", (sums, x, w), (), body)


def dense_row(depth: int, channels: int, bounds: int, low: int, high: int) -> PrimFunc:
    """out[o] = limited bias[o] + x[k] * w[o, k] + ... for all k in order, by units if they fit."""
    sizes = RowSizes(
        height=1, width=1, kernel_h=1, kernel_w=1, stride_h=1, stride_w=1, dilation_h=1, top=0,
        left=0, pixels=1, channels=channels, bounds=bounds, low=low, high=high,
    )  # fmt: skip
    if channels % UNIT:
        return conv_row(as_term(0), depth, **asdict(sizes))
    out, x = (
        Buffer("out", (channels,), "float32", "arena"),
        Buffer("x", (depth,), "float32", "arena"),
    )
    bias = Buffer("bias", (channels,), "float32", "constant")
    w = Buffer("w", (channels, depth), "float32", "constant")
    acc = Buffer("acc", (UNIT,), "float32", "register")
    unit, k = Var("out_o", 0, channels // UNIT), Var("acc_k", 0, depth)
    c, i = Var("acc_c", 0, UNIT), Var("out_i", 0, UNIT)
    here = (as_term(c),)
    channel = as_term(unit) * UNIT + as_term(c)
    product = ExprValue(Load(x, (as_term(k),))) * ExprValue(Load(w, (channel, as_term(k))))
    total = as_expr(ExprValue(Load(acc, here)) + product, "float32")
    sums = Seq((
        Store(acc, here, Load(bias, (channel,))), _loop(k, Store(acc, here, total)),
    ))  # fmt: skip
    value = as_expr(sizes.limited(ExprValue(Load(acc, (as_term(i),)))), "float32")
    ends = Store(out, (as_term(unit) * UNIT + as_term(i),), value)
    body = _loop(unit, Seq((_loop(c, sums), _loop(i, ends))))
    return PrimFunc("row", (out, x, bias, w), (acc,), body)


def row_macros(calls: Sequence[Mapping[str, int]]) -> dict[str, str]:
    """No code for outputs beside whole units, where no layer needs it."""
    return {} if any(call["channels"] % UNIT for call in calls) else {"EC_DENSE_ROW_WHOLE": "1"}


def _loop(var: Var, body: Stmt) -> For:
    return For(var, as_term(var.start), as_term(var.stop), "serial", body)


register(
    Microkernel(
        ADD_PRODUCTS, add_products, sizes=("count",), header="cortex_m/products_f32.h",
        needs=frozenset({"fpu"}), instructions=lambda count: 24 + 9.5 * count, code_bytes=230,
    )
)  # fmt: skip
_SIZES = ("depth", "channels", "bounds", "low", "high")
register(
    Microkernel(
        DENSE, dense_row, sizes=_SIZES, struct=Struct("ec_dense_row_sizes", _SIZES),
        header="cortex_m/products_f32.h", needs=frozenset({"fpu"}), alignment=(("bias", 4),),
        in_order=("out_o", 1), reads_first=True, macros=row_macros,
        stream=FloatForm().stream(lambda depth, **_: depth), code_bytes=600, weight_bits=32,
        instructions=lambda depth, channels, **_: 40 + -(-channels // UNIT) * (60 + 9.5 * depth),
    )
)  # fmt: skip
