"""Sums of float32 products for one row of inputs (`runtime_c/kernels/cortex_m/products_f32.h`)."""

from __future__ import annotations

from edgec.loop.ir import Buffer, For, Load, PrimFunc, Store
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.values import ExprValue, as_expr
from edgec.numerics.term import Var, as_term
from edgec.targets.cortex_m.kernels.float_rows import UNIT, FloatForm, conv_row

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
    """out[o] = limited bias[o] + x[k] * w[o, k] + ... for all k in order."""
    return conv_row(
        as_term(0), depth, height=1, width=1, kernel_h=1, kernel_w=1, stride_h=1, stride_w=1,
        dilation_h=1, top=0, left=0, pixels=1, channels=channels, bounds=bounds, low=low, high=high,
    )  # fmt: skip


register(
    Microkernel(
        ADD_PRODUCTS, add_products, sizes=("count",), header="cortex_m/products_f32.h",
        needs=frozenset({"fpu"}), instructions=lambda count: 24 + 9.5 * count, code_bytes=230,
    )
)  # fmt: skip
register(
    Microkernel(
        DENSE, dense_row, sizes=("depth", "channels", "bounds", "low", "high"),
        header="cortex_m/products_f32.h", needs=frozenset({"fpu"}), alignment=(("bias", 4),),
        stream=FloatForm().stream(lambda depth, **_: depth), code_bytes=600, weight_bits=32,
        instructions=lambda depth, channels, **_: 40 + -(-channels // UNIT) * (60 + 9.5 * depth),
    )
)  # fmt: skip
