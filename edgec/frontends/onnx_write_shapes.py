"""How operators that move elements, or take some together, are written as ONNX."""

from __future__ import annotations

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.onnx_writer import TO_FIRST, OnnxWriter, writer
from edgec.graph.ir import Constant, Node


@writer("reshape")
def _reshape(out: OnnxWriter, node: Node) -> None:
    shape = out.initializer(f"{node.name}.shape", np.asarray(node.output.type.shape, np.int64))
    out.emit("Reshape", [out.own(node.inputs[0]), shape], out.define_own(node.output))


@writer("transpose")
def _transpose(out: OnnxWriter, node: Node) -> None:
    order = node.attrs.permutation
    out.emit("Transpose", [out.own(node.inputs[0])], out.define_own(node.output), perm=order)


def _axis(axis: int, first: bool) -> int:
    """An axis of [N, H, W, C] as one of the tensor that is written."""
    return TO_FIRST.index(axis) if first else axis


def _listed(values: object, first: bool) -> list[int]:
    """What is listed for each axis of a value, for each of the tensor that is written."""
    items = [int(value) for value in np.asarray(values).reshape(-1)]
    return [items[axis] for axis in TO_FIRST] if first else items


@writer("concat")
def _concat(out: OnnxWriter, node: Node) -> None:
    inputs, output, first = out.places(node)
    out.emit("Concat", inputs, output, axis=_axis(node.attrs.axis, first))


@writer("pad")
def _pad(out: OnnxWriter, node: Node) -> None:
    inputs, output, first = out.places(node)
    before, after = (_listed([p[end] for p in node.attrs.padding], first) for end in (0, 1))
    pads = out.initializer(f"{output}.pads", np.asarray([*before, *after], np.int64))
    value = out.initializer(f"{output}.value", np.asarray(node.attrs.value, node.output.type.dtype))
    out.emit("Pad", [*inputs, pads, value], output)


@writer("slice")
def _slice(out: OnnxWriter, node: Node) -> None:
    inputs, output, first = out.places(node)
    begin, stride, shape = (
        _listed(values, first) for values in (node.attrs.begin, node.attrs.stride, node.attrs.shape)
    )
    # Backwards, an end before the first element is a very negative number.
    ends = [
        b + s * n if s > 0 or b + s * n >= 0 else np.iinfo(np.int64).min
        for b, s, n in zip(begin, stride, shape, strict=True)
    ]
    ranges = [
        out.initializer(f"{output}.{name}", np.asarray(values, np.int64))
        for name, values in (
            ("starts", begin), ("ends", ends), ("axes", range(len(begin))), ("steps", stride),
        )
    ]  # fmt: skip
    out.emit("Slice", [*inputs, *ranges], output)


#: ONNX's words for (align_corners, half_pixel_centers): of coordinates, and of nearest pixels.
_COORDINATES = {
    (False, False): ("asymmetric", "floor"),
    (True, False): ("align_corners", "round_prefer_ceil"),
    (False, True): ("half_pixel", "round_prefer_ceil"),
}


@writer("resize")
def _resize(out: OnnxWriter, node: Node) -> None:
    attrs = node.attrs
    shape = [node.output.type.shape[axis] for axis in TO_FIRST]
    operands = [out.first(node.inputs[0]), "", ""]
    output = out.define_first(node.output)
    operands.append(out.initializer(f"{output}.sizes", np.asarray(shape, np.int64)))
    coordinates, nearest = _COORDINATES[attrs.align_corners, attrs.half_pixel_centers]
    kind = {"mode": "linear"}
    if attrs.method == "nearest":
        kind = {"mode": "nearest", "nearest_mode": nearest}
    out.emit("Resize", operands, output, coordinate_transformation_mode=coordinates, **kind)


@writer("gather")
def _gather(out: OnnxWriter, node: Node) -> None:
    x, indices = node.inputs
    if not isinstance(indices, Constant):
        raise ImportFailed(f"{node.name}: gathering by computed indices cannot be written as ONNX")
    names = [out.own(x), out.own(indices)]
    out.emit("Gather", names, out.define_own(node.output), axis=node.attrs.axis)


@writer("reduce")
def _reduce(out: OnnxWriter, node: Node) -> None:
    inputs, output, first = out.places(node)
    axes = sorted(_axis(axis, first) for axis in node.attrs.axes)
    kind = f"Reduce{node.attrs.kind.capitalize()}"
    if node.attrs.kind == "sum" or out.opset >= 18:
        listed = out.initializer(f"{output}.axes", np.asarray(axes, np.int64))
        out.emit(kind, [*inputs, listed], output, keepdims=1)
        return
    out.emit(kind, inputs, output, axes=axes, keepdims=1)
