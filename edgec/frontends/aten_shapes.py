"""ATen operators that move elements, and operators that create constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.aten import Call, Operand, Result, aten, ints
from edgec.frontends.aten_maps import (
    chosen,
    chosen_by_index,
    coordinates,
    fixed,
    numbered,
    positions,
)
from edgec.graph.ir import Constant, Value
from edgec.graph.types import Array


@aten("view.default", "_unsafe_view.default", "reshape.default", "unsqueeze.default",
      "squeeze.dim", "squeeze.dims", "squeeze.default", "view_copy.default")  # fmt: skip
def view(call: Call, x: Value, *_: object) -> Result:
    """The same elements in the shape that torch derives."""
    return call.shaped(x, call.shape)


@aten("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default",
      "contiguous.default", "_to_copy.default", "_to_dim_order_copy.default", "to.dtype",
      "resolve_conj.default", "resolve_neg.default")  # fmt: skip
def copy(call: Call, x: Value, *_: object, **__: object) -> Result:
    """The same elements, perhaps in another dtype; layouts of memory have no meaning here."""
    return call.cast(x, call.dtype)


@aten("copy.default")
def overwrite(call: Call, x: Value, source: Value, non_blocking: bool = False) -> Result:
    """The new value of a buffer."""
    return expand(call, call.cast(source, call.dtype))


@aten("permute.default")
def permute(call: Call, x: Value, axes: Sequence[int]) -> Result:
    """Axes in another order."""
    if not axes:
        return x
    return call.onnx("Transpose", x, perm=tuple(axis % len(axes) for axis in axes))


@aten("t.default")
def matrix_transpose(call: Call, x: Value) -> Result:
    """A matrix with its axes swapped."""
    return x if len(x.type.shape) < 2 else permute(call, x, (1, 0))


@aten("transpose.int")
def transpose(call: Call, x: Value, first: int, second: int) -> Result:
    """Two axes swapped."""
    order = list(range(len(x.type.shape)))
    order[first], order[second] = order[second], order[first]
    return permute(call, x, order)


@aten("expand.default")
def expand(call: Call, x: Value, *_: object) -> Result:
    """Axes of extent 1 repeated."""
    return x if x.type.shape == call.shape else call.onnx("Expand", x, ints(call.shape))


@aten("repeat.default")
def repeat(call: Call, x: Value, repeats: Sequence[int]) -> Result:
    """The whole tensor again and again along each axis."""
    extra = len(repeats) - len(x.type.shape)
    return call.onnx("Tile", call.shaped(x, (*(1,) * extra, *x.type.shape)), ints(repeats))


@aten("cat.default")
def concatenate(call: Call, values: Sequence[Value], axis: int = 0) -> Result:
    """Values joined along an axis; torch omits empty ones."""
    kept = [value for value in values if value.type.elements]
    return kept[0] if len(kept) == 1 else call.onnx("Concat", *kept, axis=axis)


@aten("stack.default")
def stack(call: Call, values: Sequence[Value], axis: int = 0) -> Result:
    """Values joined along a new axis."""
    form = list(call.shape)
    form[axis] = 1
    return concatenate(call, [call.shaped(value, form) for value in values],
                       axis % len(form))  # fmt: skip


@aten("slice.Tensor", "slice_copy.Tensor")
def cut(call: Call, x: Value, axis: int = 0, start: int | None = None, end: int | None = None,
        step: int = 1) -> Result:  # fmt: skip
    """Every step-th element along an axis."""
    first, last, _ = slice(start, end, step).indices(x.type.shape[axis])
    if (first, last, step) == (0, x.type.shape[axis], 1):
        return x
    return call.onnx("Slice", x, ints([first]), ints([last]), ints([axis % len(x.type.shape)]),
                     ints([step]))  # fmt: skip


@aten("select.int", "select_copy.int")
def select(call: Call, x: Value, axis: int, index: int | Value) -> Result:
    """One index of an axis, which goes; data may say which."""
    if isinstance(index, Value):
        return call.onnx("Gather", x, index, axis=axis)
    place = index % x.type.shape[axis]
    part = cut(call, x, axis, place, place + 1)
    assert isinstance(part, Value)
    return call.shaped(part, call.shape)


@aten("_local_scalar_dense.default")
def number_of(call: Call, x: Value) -> Result:
    """The one element as a number, which other operators take for an index."""
    return call.shaped(x, ())


@aten("split_with_sizes.default", "split_with_sizes_copy.default")
def split(call: Call, x: Value, sizes: Sequence[int], axis: int = 0) -> Result:
    """Parts of these sizes along an axis."""
    if 0 in sizes:
        stops = np.cumsum(sizes).tolist()
        form = list(x.type.shape)
        parts: list[Value] = []
        for size, stop in zip(sizes, stops, strict=True):
            form[axis] = size
            part = cut(call, x, axis, stop - size, stop) if size else _made(call, np.zeros(form))
            assert isinstance(part, Value)
            parts.append(part)
        return tuple(parts)
    return call.onnx_all("Split", x, ints(sizes), results=len(sizes), axis=axis)


@aten("flip.default")
def flip(call: Call, x: Value, axes: Sequence[int]) -> Result:
    """Axes in reversed order."""
    if not axes or not x.type.shape:
        return x
    chosen = [axis % len(x.type.shape) for axis in axes]
    least = np.iinfo(np.int64).min + 1
    return call.onnx("Slice", x, ints([-1] * len(chosen)), ints([least] * len(chosen)),
                     ints(chosen), ints([-1] * len(chosen)))  # fmt: skip


@aten("constant_pad_nd.default")
def pad(call: Call, x: Value, widths: Sequence[int], value: float = 0) -> Result:
    """A constant around a tensor; negative widths cut."""
    return _padded(call, x, widths, "constant", call.like(value, call.dtype))


@aten("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def pad_by_reflection(call: Call, x: Value, widths: Sequence[int]) -> Result:
    """The mirrored border around a tensor."""
    return _padded(call, x, widths, "reflect", None)


@aten("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def pad_by_edge(call: Call, x: Value, widths: Sequence[int]) -> Result:
    """The outermost elements again."""
    return _padded(call, x, widths, "edge", None)


def _padded(call: Call, x: Value, widths: Sequence[int], mode: str, fill: Operand) -> Value:
    """torch lists (before, after) of the last axis first."""
    rank = len(x.type.shape)
    before, after = [0] * rank, [0] * rank
    for position in range(len(widths) // 2):
        before[rank - 1 - position] = widths[2 * position]
        after[rank - 1 - position] = widths[2 * position + 1]
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        if first < 0 or last < 0:
            part = cut(call, x, axis, max(-first, 0), x.type.shape[axis] + min(last, 0))
            assert isinstance(part, Value)
            x, before[axis], after[axis] = part, max(first, 0), max(last, 0)
    return call.onnx("Pad", x, ints([*before, *after]), fill, mode=mode)


@aten("embedding.default")
def embedding(call: Call, weights: Value, indices: Value, *_: object) -> Result:
    """A row of the weights for each index."""
    return call.onnx("Gather", weights, indices, axis=0)


@aten("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(
    call: Call, weights: Value, indices: Value, offsets: Value, *options: Any
) -> Result:
    """The sum (mode 0), mean or largest of the rows of each bag; bags begin at the offsets."""
    given = (*options, *(False, 0, False, None, False, -1)[len(options) :])
    _, mode, _, factors, include_last, padding = given
    if not isinstance(offsets, Constant) or padding >= 0:
        raise ImportFailed("bags have to begin at constant offsets, without padding_idx")
    rows, count = call.onnx("Gather", weights, indices, axis=0), indices.type.elements
    if factors is not None:
        rows = call.onnx("Mul", rows, call.shaped(factors, [count, 1]))
    starts = offsets.data[: offsets.data.size - int(include_last)]
    sizes = np.diff(np.append(starts, count))
    inside = np.arange(max(sizes.max(initial=0), 1)) < sizes[:, None]
    numbered_rows = starts[:, None] + np.arange(inside.shape[1])
    neutral = np.full((1, weights.type.shape[1]), -np.inf if mode == 2 else 0, rows.type.dtype)
    places = np.where(inside, numbered_rows, count)  # the neutral row comes after all rows
    bags = call.onnx("Gather", call.onnx("Concat", rows, neutral, axis=0), places, axis=0)
    kind = ("ReduceSum", "ReduceSum", "ReduceMax")[mode]
    made = call.onnx(kind, bags, ints([1]), keepdims=0)
    if mode == 1:
        counts = np.maximum(sizes, 1)[:, None].astype(rows.type.dtype)
        made = call.onnx("Div", made, counts)
    elif mode == 2 and not sizes.all():
        made = call.onnx("Where", (sizes > 0)[:, None], made, np.zeros((), rows.type.dtype))
    return made, None, None, None


@aten("index_select.default")
def index_select(call: Call, x: Value, axis: int, indices: Value) -> Result:
    """These indices of an axis."""
    if not x.type.shape:
        return call.shaped(x, call.shape)
    return call.onnx("Gather", x, indices, axis=axis)


@aten("gather.default")
def gather(call: Call, x: Value, axis: int, indices: Value, sparse_grad: bool = False) -> Result:
    """An element for each index, the other coordinates its own."""
    if not x.type.shape:
        return call.onnx("Expand", x, ints(call.shape)) if call.shape else x
    if isinstance(indices, Constant):
        return chosen(call, numbered(x.type.shape)[coordinates(indices.data, axis)], x)
    return call.onnx("GatherElements", x, indices, axis=axis)


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(call: Call, x: Value, indices: Sequence[Value | None]) -> Result:
    """Indexing by tensors: of one axis, of all leading axes together, or by constants of any."""
    given = [(axis, value) for axis, value in enumerate(indices) if value is not None]
    if len(given) == 1 and given[0][1].type.dtype != "bool":
        axis, places = given[0]
        return call.onnx("Gather", x, places, axis=axis)
    key = fixed(indices)
    if key is not None:
        return chosen_by_index(call, x, key)
    if len(given) == 1:
        return _where(call, x, *given[0])
    if [axis for axis, _ in given] != list(range(len(given))):
        raise ImportFailed("indices of several axes must index the first axes")
    return call.onnx("GatherND", x, positions(call, x, [value for _, value in given]))


def _where(call: Call, x: Value, axis: int, mask: Value) -> Value:
    """The parts of x where a mask over some of its axes is true: their number depends on data."""
    after = x.type.shape[axis + len(mask.type.shape) :]
    whole = call.shaped(x, (*x.type.shape[:axis], mask.type.elements, *after))
    return call.onnx("Compress", whole, call.shaped(mask, [mask.type.elements]), axis=axis)


@aten("masked_select.default")
def masked_select(call: Call, x: Value, mask: Value) -> Result:
    """The elements where a mask is true; both are broadcast to one shape."""
    shape = ints(np.broadcast_shapes(x.type.shape, mask.type.shape))
    return _where(call, call.onnx("Expand", x, shape), 0, call.onnx("Expand", mask, shape))


@aten("nonzero.default")
def nonzero(call: Call, x: Value) -> Result:
    """A row of places for each element that is not zero: data decide how many."""
    return call.onnx("Transpose", call.onnx("NonZero", x), perm=(1, 0))


@aten("_unique2.default")
def unique(call: Call, x: Value, is_sorted: bool = True, inverse: bool = False,
           counts: bool = False) -> Result:  # fmt: skip
    """The distinct values, the index of each element's value, and how often each value occurs."""
    values, _, numbers, times = call.onnx_all("Unique", x, sorted=1, results=4)
    return (
        values,
        call.shaped(numbers, x.type.shape) if inverse else None,
        times if counts else None,
    )


@aten("full.default", "full_like.default", "new_full.default", "scalar_tensor.default",
      "fill.Scalar")  # fmt: skip
def full(call: Call, *arguments: object, **_: object) -> Result:
    """The same number everywhere."""
    numbers = [a for a in arguments if isinstance(a, (int, float))]
    return _made(call, np.full(call.shape, numbers[-1]))


@aten("zeros.default", "zeros_like.default", "empty.memory_format",
      "empty_permuted.default", "empty_strided.default")  # fmt: skip
def zeros(call: Call, *_: object, **__: object) -> Result:
    """Zeros; also for torch's uninitialized memory."""
    return _made(call, np.zeros(call.shape))


@aten("ones.default", "ones_like.default")
def ones(call: Call, *_: object, **__: object) -> Result:
    """Ones."""
    return _made(call, np.ones(call.shape))


@aten("arange.start_step")
def arange(call: Call, start: float, end: float, step: float = 1, **_: object) -> Result:
    """Numbers at equal distances."""
    return _made(call, start + step * np.arange(call.shape[0]))


@aten("eye.default", "eye.m")
def eye(call: Call, *_: object, **__: object) -> Result:
    """Ones on the diagonal."""
    return _made(call, np.eye(call.shape[0], call.shape[1]))


def _made(call: Call, data: Array) -> Value:
    return call.builder.constant(call.name, data.astype(call.dtype))
