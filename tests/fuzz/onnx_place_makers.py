"""Makers of operators that move, choose, scatter and sample elements, and of those made of sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_makers import Proposal, any_value, axis_of, floats, makes, weights
from onnx_ml_makers import MAKERS
from random_models import Maker, random_array

#: All makers, including `onnx_makers`.
__all__ = ["MAKERS"]


def _ints(maker: Maker, values: Any) -> str:
    return maker.constant(np.asarray(values, np.int64))


@makes("CumSum", "CumProd")
def _cumulate(maker: Maker, kind: str) -> Proposal:
    x = floats(maker)
    fields = {name: int(maker.rng.random() < 0.5) for name in ("exclusive", "reverse")}
    axis = maker.constant(np.asarray(axis_of(maker, x), np.int32))
    return Proposal(kind, [x, axis], fields)


@makes("GatherElements", "ScatterElements")
def _elements(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, floats(maker)
    axis, like = axis_of(maker, x), maker.tensors[x]
    shape = [int(rng.integers(1, n + 1)) for n in like.shape]
    extent = like.shape[axis]
    if kind == "GatherElements":
        places = rng.integers(-extent, extent, shape)
        return Proposal(kind, [x, _ints(maker, places)], {"axis": axis})
    # Each element once: what a repeated place holds is not defined without a reduction.
    shape[axis] = int(rng.integers(1, extent + 1))
    lanes = np.argsort(rng.random([*shape[:axis], extent, *shape[axis:][1:]]), axis=axis)
    places = np.take(lanes, range(shape[axis]), axis=axis)
    updates = maker.constant(random_array(rng, shape, like.dtype))
    fields: dict[str, Any] = {"axis": axis}
    if maker.opset >= 16 and rng.random() < 0.5:
        fields["reduction"] = str(rng.choice(["add", "mul"]))
    return Proposal(kind, [x, _ints(maker, places), updates], fields)


@makes("GatherND", "ScatterND")
def _points(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, floats(maker)
    like = maker.tensors[x]
    depth = int(rng.integers(1, len(like.shape) + 1)) if like.shape else 0
    if not depth:
        raise LookupError
    most = int(np.prod(like.shape[:depth]))
    count = int(rng.integers(1, min(most, 4) + 1))
    flat = rng.choice(most, count, replace=False)
    places = np.stack(np.unravel_index(flat, like.shape[:depth]), axis=-1)
    if kind == "GatherND":
        return Proposal(kind, [x, _ints(maker, places)])
    updates = maker.constant(random_array(rng, (count, *like.shape[depth:]), like.dtype))
    return Proposal(kind, [x, _ints(maker, places), updates])


@makes("TopK")
def _top(maker: Maker, kind: str) -> Proposal:
    # The order of NaNs is not defined: functions of numbers make some, inputs have none.
    names = [*maker.inputs, *(step.outputs[0] for step in maker.steps if step.kind == "Compress"
                              and step.inputs[0] in maker.inputs)]  # fmt: skip
    given = [maker.tensors[name] for name in names]
    x = maker.pick(lambda t: t.dtype == "float32" and any(t is tensor for tensor in given))
    axis = axis_of(maker, x)
    count = int(maker.rng.integers(1, maker.tensors[x].shape[axis] + 1))
    fields = {"axis": axis, "largest": int(maker.rng.random() < 0.7)}
    return Proposal(kind, [x, _ints(maker, [count])], fields, 2)


@makes("OneHot")
def _one_hot(maker: Maker, kind: str) -> Proposal:
    at = maker.pick(lambda t: t.dtype in ("int32", "int64") and len(t.shape) < 4)
    ends = maker.constant(np.float32([0, 1]))
    depth = maker.constant(np.int64(maker.rng.integers(2, 6)))
    return Proposal(kind, [at, depth, ends], {"axis": int(maker.rng.choice([-1, 0]))})


@makes("EyeLike", "Shape", "Size")
def _of_shape(maker: Maker, kind: str) -> Proposal:
    x = any_value(maker)
    if kind == "EyeLike" and len(maker.tensors[x].shape) != 2:
        raise LookupError
    return Proposal(kind, [x])


@makes("GridSample")
def _grid(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, floats(maker, 4)
    n = maker.tensors[x].shape[0]
    # Places inside: at the edges modes of different opsets differ.
    places = rng.uniform(-0.9, 0.9, (n, 3, 2, 2)).astype(np.float32)
    fields: dict[str, Any] = {
        "align_corners": int(rng.random() < 0.5),
        "padding_mode": str(rng.choice(["zeros", "border", "reflection"])),
    }
    return Proposal(kind, [x, maker.constant(places)], fields)


@makes("Einsum")
def _einsum(maker: Maker, kind: str) -> Proposal:
    x = floats(maker, 3)
    _, b, c = maker.tensors[x].shape
    if maker.rng.random() < 0.5:
        return Proposal(kind, [x, weights(maker, (c, 3))], {"equation": "abc,cd->abd"})
    return Proposal(kind, [x, weights(maker, (b, c))], {"equation": "abc,bc->ac"})


@makes("Compress")
def _compress(maker: Maker, kind: str) -> Proposal:
    x = any_value(maker)
    axis = axis_of(maker, x)
    kept = maker.rng.random(maker.tensors[x].shape[axis]) < 0.6
    if not kept.any():
        raise LookupError
    return Proposal(kind, [x, maker.constant(kept)], {"axis": axis})


@makes("CastLike")
def _cast_like(maker: Maker, kind: str) -> Proposal:
    return Proposal(kind, [any_value(maker), any_value(maker)])


@makes("RoiAlign", "MaxRoiPool")
def _regions(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, floats(maker, 4)
    images, _, height, width = maker.tensors[x].shape
    count = int(rng.integers(1, 4))
    corners = np.sort(rng.uniform(0, 1, (2, count, 2)), axis=0) * [width, height]
    boxes = np.concatenate([*corners], 1).astype(np.float32)
    numbers = rng.integers(0, images, count)
    shape = [int(extent) for extent in rng.integers(1, 4, 2)]
    if kind == "MaxRoiPool":
        rows = np.concatenate([numbers[:, None].astype(np.float32), boxes], 1)
        return Proposal(kind, [x, maker.constant(rows)], {"pooled_shape": shape})
    fields = {"output_height": shape[0], "output_width": shape[1],
              "sampling_ratio": int(rng.integers(0, 3))}  # fmt: skip
    return Proposal(kind, [x, maker.constant(boxes), _ints(maker, numbers)], fields)


@makes("Det")
def _determinant(maker: Maker, kind: str) -> Proposal:
    x = maker.pick(
        lambda t: t.dtype == "float32" and len(t.shape) > 1 and t.shape[-1] == t.shape[-2]
    )
    return Proposal(kind, [x])


@makes("TfIdfVectorizer")
def _ngrams(maker: Maker, kind: str) -> Proposal:
    x = maker.pick(lambda t: t.dtype in ("int32", "int64") and len(t.shape) in (1, 2))
    fields: dict[str, Any] = {
        "min_gram_length": 1, "max_gram_length": 2, "mode": str(maker.rng.choice(["TF", "IDF"])),
        "max_skip_count": int(maker.rng.integers(0, 3)), "ngram_counts": [0, 2],
        "ngram_indexes": [2, 0, 1], "pool_int64s": [0, 1, 0, 1],
    }  # fmt: skip
    return Proposal(kind, [x], fields)


@makes("DeformConv")
def _deformed(maker: Maker, kind: str) -> Proposal:
    rng, x = maker.rng, floats(maker, 4)
    n, channels, height, width = maker.tensors[x].shape
    if min(height, width) < 2:
        raise LookupError
    places = rng.uniform(-1, 1, (n, 8, height - 1, width - 1)).astype(np.float32)
    return Proposal(kind, [x, weights(maker, (3, channels, 2, 2)), maker.constant(places)])


@makes("Range", "ConstantOfShape", "HannWindow", "HammingWindow", "BlackmanWindow")
def _made_of_constants(maker: Maker, kind: str) -> Proposal:
    rng = maker.rng
    if kind == "Range":
        ends = (np.float32(value) for value in (rng.integers(-3, 3), rng.integers(4, 8), 1.5))
        return Proposal(kind, [maker.constant(np.asarray(end)) for end in ends])
    if kind == "ConstantOfShape":
        return Proposal(kind, [_ints(maker, rng.integers(1, 4, 2))])
    return Proposal(kind, [maker.constant(np.asarray(rng.integers(2, 9)))])


@makes("DFT", "STFT")
def _spectrum(maker: Maker, kind: str) -> Proposal:
    """Along the axis before the last one, which has the parts of a number."""
    rng = maker.rng
    x = maker.pick(
        lambda t: t.dtype == "float32" and len(t.shape) == 3 and t.shape[2] == 1 < t.shape[1]
    )
    if maker.opset < 17:
        raise LookupError
    length = maker.tensors[x].shape[1]
    if kind == "STFT":
        frame, step = int(rng.integers(2, length + 1)), int(rng.integers(1, length))
        window = maker.constant(np.hanning(frame + 2)[1:-1].astype(np.float32))
        step_name = maker.constant(np.asarray(step, np.int64))
        return Proposal(kind, [x, step_name, window], {"onesided": int(rng.random() < 0.5)})
    fields: dict[str, Any] = {"inverse": int(rng.random() < 0.5)}
    if not fields["inverse"]:
        fields["onesided"] = int(rng.random() < 0.5)
    if maker.opset < 20:
        return Proposal(kind, [x], {**fields, "axis": 1})
    return Proposal(kind, [x, "", maker.constant(np.asarray(1, np.int64))], fields)


@makes("Col2Im")
def _image_of_columns(maker: Maker, kind: str) -> Proposal:
    """Columns of windows of one element, or of all of a small image."""
    x = floats(maker, 3)
    _, channels, columns = maker.tensors[x].shape
    if maker.opset < 18:
        raise LookupError
    if maker.rng.random() < 0.5 and channels % 4 == 0:
        return Proposal(kind, [x, _ints(maker, [2, columns + 1]), _ints(maker, [2, 2])])
    return Proposal(kind, [x, _ints(maker, [1, columns]), _ints(maker, [1, 1])])


@makes("MaxUnpool")
def _unpooled(maker: Maker, kind: str) -> Proposal:
    """To places of a larger image, each taken once."""
    x = floats(maker, 4)
    shape = maker.tensors[x].shape
    most = 4 * int(np.prod(shape))
    places = np.sort(maker.rng.permutation(most)[: most // 4]).reshape(shape)
    return Proposal(kind, [x, _ints(maker, places)], {"kernel_shape": [2, 2], "strides": [2, 2]})
