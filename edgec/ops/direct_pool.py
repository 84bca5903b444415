"""direct_pool: windows over any number of axes, dilated or not, channels first.

Of two axes and windows without gaps `max_pool2d` and `avg_pool2d` are faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.dtype import integer_range, is_float
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, index, maximum, minimum, select
from edgec.ops.broadcast import operand_tensors
from edgec.ops.direct_conv import window_padding
from edgec.ops.onnx_graph import OnnxGraph, write_own
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.pad import PadAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.row import FLOATS, INTEGERS
from edgec.ops.scattered import ScatterAttrs
from edgec.ops.window import window_steps


@dataclass(frozen=True)
class DirectPoolAttrs:
    """kernel, strides, dilations: for each axis. before: padding before each. shape: the extents of
    the result. kind: "max", "mean", or "place" for where the largest element stands in its plane,
    and "column" for that counted column by column. counted: of a mean, how far padding before
    and after each axis counts as elements that are 0.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    shape: tuple[int, ...]
    kind: str = "max"
    counted: tuple[tuple[int, int], ...] = ()


@register
class DirectPool(Op[DirectPoolAttrs]):
    """x [N, C, ...]: the largest element, its place in all of x as int64, or the mean of floats."""

    name = "direct_pool"
    attrs_class = DirectPoolAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6
    onnx_since = 19

    def infer(self, attrs: DirectPoolAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The new extents."""
        (x,) = inputs
        _check_windows(attrs, x)
        known = FLOATS if attrs.kind == "mean" else (*FLOATS, *INTEGERS)
        if x.dtype not in known or x.quant is not None:
            raise TypeMismatch(f"the {attrs.kind} of windows needs {' or '.join(known)}, not {x}")
        dtype = "int64" if attrs.kind in ("place", "column") else x.dtype
        return (TensorType((*x.shape[:2], *attrs.shape), dtype),)

    def steps(self, attrs: DirectPoolAttrs, inputs: Types) -> int:
        """Count the steps of many large windows."""
        return window_steps(self.infer(attrs, *inputs)[0], attrs.kernel)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One accumulation over each window."""
        attrs: DirectPoolAttrs = node.attrs
        (x,) = operand_tensors(target, inputs)
        shape = node.output.type.shape
        if attrs.kind == "mean":
            return _mean(attrs, target, x, shape)
        largest = _largest(attrs, target, x, shape)
        if attrs.kind == "max":
            return target.compute("element", shape, x.dtype, lambda *at: largest[at])
        return _indices(attrs, target, x, largest)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """MaxPool, its indices, or AveragePool, with gaps in windows since opset 19."""
        attrs: DirectPoolAttrs = node.attrs
        named: dict[str, Any] = {
            "kernel_shape": attrs.kernel, "strides": attrs.strides, "dilations": attrs.dilations,
            **_onnx_padding(attrs, node.inputs[0].type.shape[2:]),
        }  # fmt: skip
        if attrs.kind in ("max", "mean"):
            write_own(out, node, "MaxPool" if attrs.kind == "max" else "AveragePool", **named)
            return
        x, indices = out.own(node.inputs[0]), out.define_own(node.output)
        outputs = [out.fresh(f"{indices}.largest"), indices]
        out.emit_several("MaxPool", [x], outputs, **named,
                         storage_order=int(attrs.kind == "column"))  # fmt: skip


def _onnx_padding(attrs: DirectPoolAttrs, extents: Sequence[int]) -> dict[str, Any]:
    """Pads that place all windows, and the last beyond them where more do not count."""
    pads, beyond = [], False
    for axis, (extent, before) in enumerate(zip(extents, attrs.before, strict=True)):
        reach = (attrs.kernel[axis] - 1) * attrs.dilations[axis] + 1
        wanted = (attrs.shape[axis] - 1) * attrs.strides[axis] + reach - extent - before
        counted = attrs.counted[axis][1] if any(map(sum, attrs.counted)) else max(wanted, 0)
        beyond |= wanted > counted
        pads.append(counted)
    counts = {"count_include_pad": 1} if any(map(sum, attrs.counted)) else {}
    return {"pads": [*attrs.before, *pads], "ceil_mode": int(beyond), **counts}


def _check_windows(attrs: DirectPoolAttrs, x: TensorType) -> None:
    """Raise TypeMismatch for windows that do not match x."""
    axes = len(x.shape) - 2
    listed = (attrs.kernel, attrs.strides, attrs.dilations, attrs.before, attrs.shape)
    if axes < 1 or {len(each) for each in listed} != {axes}:
        raise TypeMismatch(f"direct_pool of {x}: its windows have other axes")
    if min(*attrs.kernel, *attrs.strides, *attrs.dilations, *attrs.shape) < 1 or 0 in x.shape:
        raise TypeMismatch(f"direct_pool of {x} to {list(attrs.shape)}")


def _window(attrs: DirectPoolAttrs, x: Tensor, at: Sequence[Any]) -> tuple[list[Any], Value]:
    """The position in each axis, limited to x, and whether it is inside."""
    axes = len(attrs.kernel)
    indices, inside = [], None
    for axis, extent in enumerate(x.shape[2:]):
        place = at[axis] * attrs.strides[axis] + at[axes + axis] * attrs.dilations[axis]
        place = place - attrs.before[axis]
        here = (index(place) >= 0) & (index(place) < extent)
        inside = here if inside is None else inside & here
        indices.append(minimum(maximum(place, 0), extent - 1))
    assert inside is not None
    return indices, inside


def _steps(attrs: DirectPoolAttrs) -> list[tuple[str, Any, Any]]:
    return [(f"k{axis}", 0, size) for axis, size in enumerate(attrs.kernel)]


def _largest(attrs: DirectPoolAttrs, target: Lowering, x: Tensor, shape: Sequence[int]) -> Tensor:
    lowest = -math.inf if is_float(x.dtype) else integer_range(x.dtype)[0]

    def update(acc: Value, n: Any, c: Any, *at: Any) -> Any:
        indices, inside = _window(attrs, x, at)
        return maximum(acc, select(inside, x[(n, c, *indices)], lowest))

    return target.definition.reduce(
        target.unique("largest"), _steps(attrs), init=lambda *at: lowest, update=update,
        shape=shape, dtype=x.dtype,
    )  # fmt: skip


def _indices(attrs: DirectPoolAttrs, target: Lowering, x: Tensor, largest: Tensor) -> Tensor:
    """Index of the first of the largest elements."""
    extents, axes = x.shape[2:], len(x.shape) - 2
    order = range(axes) if attrs.kind == "place" else range(axes)[::-1]

    def update(acc: Value, n: Any, c: Any, *at: Any) -> Any:
        indices, inside = _window(attrs, x, at)
        flat = index(n * x.shape[1] + c)
        for axis in order:
            flat = flat * extents[axis] + index(indices[axis])
        is_it = inside & x[(n, c, *indices)].equals(largest[(n, c, *at[:axes])])
        return select(is_it & (acc < 0), flat, acc)

    found = target.definition.reduce(
        target.unique("place"), _steps(attrs), init=lambda *at: -1, update=update,
        shape=largest.shape, dtype="int32",
    )  # fmt: skip
    return target.compute(
        "element", largest.shape, "int64", lambda *at: cast(maximum(found[at], 0), "int64")
    )


def _mean(attrs: DirectPoolAttrs, target: Lowering, x: Tensor, shape: Sequence[int]) -> Tensor:
    axes = len(attrs.kernel)

    def add(acc: Value, n: Any, c: Any, *at: Any) -> Any:
        indices, inside = _window(attrs, x, at)
        return acc + select(inside, x[(n, c, *indices)], 0.0)

    def count(acc: Value, *at: Any) -> Any:
        inside = None
        for axis, (before, after) in enumerate(attrs.counted):
            place = at[axis] * attrs.strides[axis] + at[axes + axis] * attrs.dilations[axis]
            place = index(place - attrs.before[axis])
            here = (place >= -before) & (place < x.shape[axis + 2] + after)
            inside = here if inside is None else inside & here
        assert inside is not None
        return acc + select(inside, acc * 0.0 + 1.0, 0.0)

    total, members = (
        target.definition.reduce(
            target.unique(name), _steps(attrs), init=lambda *at: 0.0, update=update, shape=extents,
            dtype=x.dtype,
        )
        for name, update, extents in (("total", add, shape), ("members", count, attrs.shape))
    )  # fmt: skip
    return target.compute(
        "element", shape, x.dtype, lambda *at: total[at] / maximum(members[at[2:]], 1.0)
    )


def _windows(extent: int, pair: tuple[int, int], reach: int, stride: int, last: bool) -> int:
    """Number of windows; last: one more at the end, unless it begins in the padding."""
    room = extent + sum(pair) - reach
    count = room // stride + 1
    return count + (last and room % stride > 0 and count * stride < extent + pair[0])


def append_pool(
    builder: GraphBuilder, raw: RawNode, kind: str
) -> tuple[GraphValue, ...] | GraphValue:
    """ONNX's MaxPool, with its indices, and AveragePool."""
    x = raw.operand(0)
    extents = x.type.shape[2:]
    kernel = tuple(int(k) for k in raw.attribute("kernel_shape", ()))
    strides, dilations = (
        tuple(int(n) for n in raw.attribute(key, (1,) * len(extents)))
        for key in ("strides", "dilations")
    )
    if {len(kernel), len(strides), len(dilations)} != {len(extents)}:
        raise ImportFailed(f"windows of {list(kernel)} over {x.type}")
    padding = window_padding(raw, extents, kernel, strides, dilations)
    shape = []
    for axis, extent in enumerate(extents):
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        last = bool(raw.attribute("ceil_mode", 0))
        shape.append(_windows(extent, padding[axis], reach, strides[axis], last))
    counted = padding if raw.attribute("count_include_pad", 0) else ((0, 0),) * len(extents)
    before = tuple(pair[0] for pair in padding)
    attrs = DirectPoolAttrs(kernel, strides, dilations, before, tuple(shape), kind,
                            counted if kind == "mean" else ())  # fmt: skip
    made = builder.op("direct_pool", [x], attrs, name=raw.name)
    if len(raw.outputs) < 2 or not raw.outputs[1]:
        return made
    listed = replace(attrs, kind="column" if raw.attribute("storage_order", 0) else "place")
    return made, builder.op("direct_pool", [x], listed, name=f"{raw.name}/places",
                            sources=(raw.name,))  # fmt: skip


@from_onnx("MaxUnpool", since=9)
def import_max_unpool(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX MaxUnpool: each element at its place among zeros, which a larger output continues."""
    x, indices = raw.operand(0), raw.operand(1)
    shape = _unpooled(raw, x.type)
    zeros = np.zeros(shape, x.type.dtype).reshape(-1)
    flat = [
        builder.op("reshape", [value], ReshapeAttrs((value.type.elements,)),
                   name=f"{raw.name}/flat{number}", sources=())
        for number, value in enumerate((indices, x))
    ]  # fmt: skip
    table = builder.constant(f"{raw.name}.zeros", zeros)
    name, sources = f"{raw.name}/scatter", (raw.name,)
    made = builder.op("scatter", [table, *flat], ScatterAttrs(0), name=name, sources=sources)
    made = builder.op("reshape", [made], ReshapeAttrs(shape), name=f"{raw.name}/shape", sources=())
    if raw.optional(2) is None:
        return made
    wanted = [int(n) for n in raw.constant(2, "the output's shape").data.reshape(-1)]
    if len(wanted) != len(shape) or any(own > to for own, to in zip(shape, wanted, strict=True)):
        raise ImportFailed(f"an output of {wanted} for one of {list(shape)}")
    around = tuple((0, to - own) for own, to in zip(shape, wanted, strict=True))
    return builder.op("pad", [made], PadAttrs(around), name=raw.name)


def _unpooled(raw: RawNode, x: TensorType) -> tuple[int, ...]:
    """The shape before the pool, if no padding was cut."""
    axes = len(x.shape) - 2
    kernel, strides, pads = (
        [int(n) for n in raw.attribute(key, default)]
        for key, default in (
            ("kernel_shape", ()), ("strides", (1,) * axes), ("pads", (0,) * 2 * axes),
        )
    )  # fmt: skip
    if axes < 1 or (len(kernel), len(strides), len(pads)) != (axes, axes, 2 * axes):
        raise ImportFailed(f"windows of {kernel} over {x}")
    shape = (*x.shape[:2], *(
        strides[n] * (x.shape[n + 2] - 1) + kernel[n] - pads[n] - pads[n + axes]
        for n in range(axes)
    ))  # fmt: skip
    if min(shape) < 1:
        raise ImportFailed(f"an output of {list(shape)}")
    return shape
