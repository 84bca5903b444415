"""Sums of products in the words of libraries: shapes, padding, weights, how they are rescaled."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from edgec.loop.ir import Binary, Const, Expr, Load, Store
from edgec.loop.rewrite import blocks_of, with_constant
from edgec.loop.values import Array
from edgec.targets.common.kernels.rescaling import SINGLE, TFLM16, TFLM_ANY
from edgec.targets.common.limits import find_limits
from edgec.targets.common.nests import find_param, stored_value
from edgec.targets.common.sums import Kind

if TYPE_CHECKING:
    from edgec.targets.rule import Nest

Sort = Literal["conv", "depthwise", "dense"]
_SORTS: dict[Kind, Sort] = {
    Kind.WINDOWS: "conv", Kind.CHANNEL_WINDOWS: "depthwise", Kind.MATRIX: "dense",
}  # fmt: skip
#: The functions that rescale sums, by their name in `Products.rounding`.
_ROUNDINGS = {
    "requantize_tflm": "tflm", "requantize_tflm_right": "tflm", "requantize_single": "single",
    "requantize_onnx": "onnx", "requantize_tflm16": "tflm16", "requantize_tflm16_high": "tflm16",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Products:
    """A convolution, depthwise convolution or dense layer.

        out[o] = limited(rescaled(bias[o] + sum((x[i] + offset) * weights[o, i])) + zero_point)

    x, out: shapes, NHWC; of dense layers (rows, channels). weights: OHWI; HWC for depthwise, OI for
    dense layers. kernel, stride, dilation: (height, width); padding: above and to the left; it
    holds -offset, which adds nothing. bias, and by `rounding` multiplier and shift (to the left;
    "tflm", "single", "tflm16") or scale ("onnx") have one entry for each channel of the output.
    rounding is "" for sums that are stored directly, such as floats. minimum, maximum: of stored
    results; infinite where floats have no limit.
    """

    sort: Sort
    x: tuple[int, ...]
    out: tuple[int, ...]
    weights: Array
    bias: Array
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    offset: int = 0
    rounding: str = ""
    multiplier: Array | None = None
    shift: Array | None = None
    scale: Array | None = None
    zero_point: int = 0
    minimum: float = -inf
    maximum: float = inf

    @property
    def padding_after(self) -> tuple[int, int]:
        """Padding below and to the right: how far the windows reach outside there."""
        below, right = (
            max((outs - 1) * stride + (kernel - 1) * dilation + 1 - before - extent, 0)
            for outs, stride, kernel, dilation, before, extent in zip(
                self.out[1:3], self.stride, self.kernel, self.dilation, self.padding, self.x[1:3],
                strict=True,
            )
        )  # fmt: skip
        return below, right

    @property
    def macs(self) -> int:
        """Products, including products with padding."""
        taps = self.weights[0].size if self.sort != "depthwise" else self.weights[..., 0].size
        return int(np.prod(self.out)) * int(taps)


def products_of(nest: Nest) -> Products | None:
    """The description of a nest that sums products by constant weights; None for other nests."""
    sort = _sort(nest)
    if sort is None:
        return None
    x, out = (find_param(nest.func, name).shape for name in ("x", "out"))
    offset, ending, placed = find_offset(nest), _ending(nest), _placed(nest, sort)
    if offset is None or ending is None or placed is None:
        return None
    found: dict[str, Any] = {**placed, **ending}
    return Products(sort, x, out, nest.tables["w"], nest.tables["bias"], offset=offset, **found)


def _sort(nest: Nest) -> Sort | None:
    """The kind of a nest's sums, if each channel has a bias and no input feeds several channels."""
    if nest.sums is None or not {"w", "bias"} <= nest.tables.keys():
        return None
    sort = _SORTS.get(nest.sums.kind)
    x, out = (find_param(nest.func, name).shape for name in ("x", "out"))
    has_multiplier = sort == "depthwise" and x[-1] != out[-1]
    return None if nest.tables["bias"].shape != out[-1:] or has_multiplier else sort


def _placed(nest: Nest, sort: Sort) -> dict[str, Any] | None:
    """Position of windows, as fields of `Products`; None if not known."""
    if sort == "dense":
        return {}
    window = nest.window
    if window is None:
        return None
    return {
        "kernel": window.kernel, "stride": window.stride, "dilation": window.dilation,
        "padding": window.corner,
    }  # fmt: skip


def find_offset(nest: Nest) -> int | None:
    """The number that the nest adds to each input."""
    block = blocks_of(nest.func.body)["acc"]
    if not isinstance(block.body, Store) or not isinstance(block.body.value, Binary):
        return None
    product = block.body.value.right
    if not isinstance(product, Binary):
        return None
    found = with_constant(product.left, "add")
    return 0 if found is None else int(found[1])


def _ending(nest: Nest) -> dict[str, object] | None:
    """Rescaling of the sums, as fields of `Products`."""
    assert nest.sums is not None
    if not nest.sums.is_rescaled:
        return _limits(stored_value(nest.func))
    limits = find_limits(nest.func, (TFLM_ANY, SINGLE, TFLM16))
    rounding = None if limits is None else _ROUNDINGS.get(limits.rescaling.function)
    if limits is None or rounding is None:
        return None
    names = tuple(limits.rescaling.tables)
    if not set(names) <= nest.tables.keys():
        return None
    channels = find_param(nest.func, "out").shape[-1]
    found = {name: np.broadcast_to(nest.tables[name], (channels,)) for name in names}
    if "shift" in found:
        shift = found["shift"].astype(np.int32)
        found["shift"] = -shift if limits.rescaling.is_down else shift
    return {
        "rounding": rounding, "zero_point": limits.zero_point, "minimum": limits.minimum,
        "maximum": limits.maximum, **{k: np.ascontiguousarray(v) for k, v in found.items()},
    }  # fmt: skip


def _limits(expr: Expr | None) -> dict[str, object] | None:
    """The limits of sums that are stored directly; None if they are changed first."""
    found: dict[str, object] = {}
    for op, name in (("min", "maximum"), ("max", "minimum")):
        number, expr = _without(expr, op)
        if number is not None:
            found[name] = float(number.value)
    return found if isinstance(expr, Load) and expr.buffer.name == "acc" else None


def _without(expr: Expr | None, op: str) -> tuple[Const | None, Expr | None]:
    """The number that an operation has on either side, and the other side; None for others."""
    if isinstance(expr, Binary) and expr.op == op:
        for number, other in ((expr.left, expr.right), (expr.right, expr.left)):
            if isinstance(number, Const):
                return number, other
    return None, expr
