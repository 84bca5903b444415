"""ATen operators whose result is a fixed choice of elements: one Gather by constant indices.

A `Map` has, for each element of the result, its index in the concatenated flat sources. NumPy makes
it by applying torch's operation to element numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.aten import Call, Operand, Result, aten, ints
from edgec.graph.ir import Constant, Value
from edgec.graph.types import Array


def chosen(call: Call, numbers: Array, *sources: Operand) -> Value:
    """The elements of these numbers, in the shape of `numbers`."""
    values = [call.value(source) for source in sources]
    flat = [call.shaped(value, [value.type.elements]) for value in values if value is not None]
    row = flat[0] if len(flat) == 1 else call.onnx("Concat", *flat, axis=0)
    if np.array_equal(numbers.reshape(-1), np.arange(row.type.elements)):
        return call.shaped(row, numbers.shape)
    return call.shaped(call.onnx("Gather", row, numbers.reshape(-1), axis=0), numbers.shape)


def numbered(shape: Sequence[int], first: int = 0) -> Array:
    """A tensor whose elements are their own numbers."""
    return first + np.arange(int(np.prod(shape))).reshape(tuple(shape))


@aten("as_strided.default", "as_strided_copy.default")
def as_strided(call: Call, x: Value, size: Sequence[int], stride: Sequence[int],
               offset: int | None = None) -> Result:  # fmt: skip
    """Elements at distances in memory."""
    return chosen(call, _strided(call, x, size, stride, offset), x)


def _strided(call: Call, x: Value, size: Sequence[int], stride: Sequence[int],
             offset: int | None) -> Array:  # fmt: skip
    """Which elements of x lie at distances in the memory that torch has for it."""
    own, start = call.memory or ((), 0)
    lies = _offsets(x.type.shape, own) + start
    found = np.full(int(lies.max(initial=0)) + 1, -1)
    found[lies] = numbered(x.type.shape)
    offsets = _offsets(size, stride) + (start if offset is None else offset)
    if offsets.max(initial=0) >= len(found):
        raise ImportFailed("it reaches outside of the tensor that it is a view of")
    numbers: Array = found[offsets]
    if numbers.min(initial=0) < 0:
        raise ImportFailed("it reaches between the elements of the tensor that it is a view of")
    return numbers


def _offsets(size: Sequence[int], stride: Sequence[int]) -> Array:
    grids = np.indices(tuple(size)) if size else np.zeros((0,), int)
    offsets: Array = sum(
        (g * s for g, s in zip(grids, stride, strict=True)), np.zeros(tuple(size), int)
    )
    return offsets


@aten("diagonal.default", "diagonal_copy.default")
def diagonal(call: Call, x: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Result:
    """The diagonal of two axes, as the last axis."""
    return chosen(call, np.diagonal(numbered(x.type.shape), offset, axis1, axis2), x)


@aten("unfold.default", "unfold_copy.default")
def unfold(call: Call, x: Value, axis: int, size: int, step: int) -> Result:
    """Windows along an axis, their elements along a new last one."""
    if not x.type.shape:
        return call.shaped(x, [size])
    windows = np.lib.stride_tricks.sliding_window_view(numbered(x.type.shape), size, axis)
    axis %= len(x.type.shape)
    return chosen(call, windows[(slice(None),) * axis + (slice(None, None, step),)], x)


@aten("roll.default")
def roll(call: Call, x: Value, shifts: Sequence[int], axes: Sequence[int] = ()) -> Result:
    """Elements rotated along axes."""
    return chosen(call, np.roll(numbered(x.type.shape), tuple(shifts), tuple(axes) or None), x)


@aten("slice_scatter.default")
def slice_scatter(call: Call, x: Value, source: Value, axis: int = 0, start: int | None = None,
                  end: int | None = None, step: int = 1) -> Result:  # fmt: skip
    """A tensor with every step-th index of an axis replaced."""
    return _with(call, x, source, axis, slice(start, end, step))


@aten("select_scatter.default")
def select_scatter(call: Call, x: Value, source: Value, axis: int, index: int) -> Result:
    """A tensor with one index of an axis replaced."""
    return _with(call, x, source, axis, index)


def _with(call: Call, x: Value, source: Value, axis: int, key: slice | int) -> Value:
    numbers = numbered(x.type.shape)
    axis %= len(x.type.shape)
    numbers[(slice(None),) * axis + (key,)] = numbered(source.type.shape, x.type.elements)
    return chosen(call, numbers, x, call.cast(source, x.type.dtype))


@aten("diagonal_scatter.default")
def diagonal_scatter(call: Call, x: Value, source: Value, offset: int = 0, axis1: int = 0,
                     axis2: int = 1) -> Result:  # fmt: skip
    """A tensor with a diagonal replaced."""
    numbers = numbered(x.type.shape)
    replaced = np.diagonal(numbered(x.type.shape), offset, axis1, axis2)
    numbers.reshape(-1)[replaced] = numbered(source.type.shape, x.type.elements)
    return chosen(call, numbers, x, source)


@aten("as_strided_scatter.default")
def as_strided_scatter(call: Call, x: Value, source: Value, size: Sequence[int],
                       stride: Sequence[int], offset: int | None = None) -> Result:  # fmt: skip
    """A tensor with elements at distances in memory replaced."""
    numbers = numbered(x.type.shape)
    replaced = _strided(call, x, size, stride, offset)
    numbers.reshape(-1)[replaced] = numbered(source.type.shape, x.type.elements)
    return chosen(call, numbers, x, source)


def coordinates(index: Array, axis: int) -> tuple[Array, ...]:
    """Coordinates of elements: given along one axis, each element's own along the others."""
    own: list[Array] = list(np.indices(index.shape))
    own[axis] = index
    return tuple(own)


def fixed(indices: Sequence[Value | None]) -> tuple[Array | slice, ...] | None:
    """Indices as NumPy takes them, or None if one of them is computed."""
    if any(value is not None and not isinstance(value, Constant) for value in indices):
        return None
    return tuple(i.data if isinstance(i, Constant) else slice(None) for i in indices)


def chosen_by_index(call: Call, x: Value, key: tuple[Array | slice, ...]) -> Value:
    """Indexing by constant tensors of integers or truth values."""
    return chosen(call, numbered(x.type.shape)[key], x)


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(call: Call, x: Value, indices: Sequence[Value | None], values: Value,
              accumulate: bool = False) -> Result:  # fmt: skip
    """A tensor with indexed elements replaced, or added to."""
    key = fixed(indices)
    if key is None:
        return _computed_put(call, x, indices, values, accumulate)
    numbers = numbered(x.type.shape)
    target = numbers[key]
    source = np.broadcast_to(numbered(values.type.shape), target.shape)
    if accumulate:
        return added(call, x, target.reshape(-1), source.reshape(-1), values)
    numbers.reshape(-1)[target] = source + x.type.elements
    return chosen(call, numbers, x, call.cast(values, x.type.dtype))


def added(call: Call, x: Value, target: Array, source: Array, values: Value) -> Value:
    """x with elements `source` of the values added to the elements `target`, which may repeat.

    Each round adds at most one value to each element, in order.
    """
    elements = values.type.elements
    zeros = np.zeros(1, x.type.dtype)
    result = x
    rounds = _occurrence(target)
    for number in range(int(rounds.max(initial=-1)) + 1):
        numbers = np.full(x.type.shape, elements)
        now = rounds == number
        numbers.reshape(-1)[target[now]] = source[now]
        summand = chosen(call, numbers, call.cast(values, x.type.dtype), zeros)
        result = call.onnx("Add", result, summand)
    return result


def _occurrence(target: Array) -> Array:
    """Number of earlier occurrences of each number."""
    seen: dict[int, int] = {}
    counts = np.zeros(len(target), int)
    for position, number in enumerate(target.tolist()):
        counts[position] = seen.get(number, 0)
        seen[number] = counts[position] + 1
    return counts


def _computed_put(call: Call, x: Value, indices: Sequence[Value | None], values: Value,
                  accumulate: bool) -> Value:  # fmt: skip
    """Use ScatterND for indices of the first axes, and Where for a mask of one number.

    Indices of one other axis use ScatterElements, which moves no axis: caches are written so.
    """
    given = [value for value in indices if value is not None]
    is_one = indices[0] is not None and len(given) == values.type.elements == 1
    if is_one and given[0].type.dtype == "bool":
        return _masked_put(call, x, given[0], call.cast(values, x.type.dtype), accumulate)
    reduction = "add" if accumulate else "none"
    if _is_along(indices):
        return _put_along(call, x, len(indices) - 1, given[0], values, reduction)
    if len(given) != len(indices):
        raise ImportFailed("indices of several axes must index the first axes")
    where = positions(call, x, given)
    shape = (*where.type.shape[:-1], *x.type.shape[len(given) :])
    updates = _of_shape(call, call.cast(values, x.type.dtype), shape)
    return call.onnx("ScatterND", x, where, updates, reduction=reduction)


def _is_along(indices: Sequence[Value | None]) -> bool:
    """Whether there is a list of indices for one axis alone, which is not the first."""
    *others, last = indices
    is_alone = bool(others) and all(other is None for other in others)
    return is_alone and last is not None and len(last.type.shape) == 1


def _put_along(call: Call, x: Value, axis: int, indices: Value, values: Value,
               reduction: str) -> Value:  # fmt: skip
    """Parts of x along an axis replaced, or added to, at these indices."""
    form = [1] * axis + [-1] + [1] * (len(x.type.shape) - axis - 1)
    shape = list(x.type.shape)
    shape[axis] = indices.type.elements
    spread = call.onnx("Expand", call.onnx("Reshape", indices, ints(form)), ints(shape))
    updates = _of_shape(call, call.cast(values, x.type.dtype), shape)
    return call.onnx("ScatterElements", x, spread, updates, axis=axis, reduction=reduction)


def _of_shape(call: Call, value: Value, shape: Sequence[int]) -> Value:
    same = value.type.shape == tuple(shape)
    return value if same else call.onnx("Expand", value, ints(shape))


def _masked_put(call: Call, x: Value, mask: Value, number: Value, accumulate: bool) -> Value:
    """One number where the mask of the first axes holds."""
    rest = len(x.type.shape) - len(mask.type.shape)
    condition = call.shaped(mask, (*mask.type.shape, *(1,) * rest))
    one = call.shaped(number, ())
    return call.onnx("Where", condition, call.onnx("Add", x, one) if accumulate else one, x)


@aten("masked_scatter.default")
def masked_scatter(call: Call, x: Value, mask: Value, source: Value) -> Result:
    """The next element of the source wherever a mask holds, else x."""
    shape = call.shape
    full = mask if mask.type.shape == shape else call.onnx("Expand", mask, ints(shape))
    flat = call.shaped(call.cast(full, "int64"), [full.type.elements])
    number = call.onnx("Sub", call.onnx("CumSum", flat, np.asarray(0, np.int64)), ints([1]))
    place = call.onnx("Max", number, ints([0]))
    taken = call.onnx("Gather", call.shaped(source, [source.type.elements]), place, axis=0)
    return call.onnx("Where", full, call.shaped(taken, shape), x)


def positions(call: Call, x: Value, given: Sequence[Value]) -> Value:
    """Indices of the first axes as rows of coordinates, for GatherND and ScatterND."""
    if any(value.type.dtype == "bool" for value in given):
        raise ImportFailed("the number of elements that a mask selects is not known")
    shape = np.broadcast_shapes(*(value.type.shape for value in given))
    columns = []
    for axis, value in enumerate(given):
        full = value if value.type.shape == shape else call.onnx("Expand", value, ints(shape))
        extent = call.like(x.type.shape[axis], full.type.dtype)
        columns.append(call.shaped(call.onnx("Mod", full, extent), [*shape, 1]))
    return call.onnx("Concat", *columns, axis=-1)


@aten("scatter.src", "scatter.value", "scatter_reduce.two")
def scatter(call: Call, x: Value, axis: int, index: Value, source: Operand,
            reduce: str | None = None, include_self: bool = True) -> Result:  # fmt: skip
    """A tensor with an element for each index replaced, or reduced with the old one."""
    if not x.type.shape:
        x, index = call.shaped(x, [1]), call.shaped(index, [1])
    updates = _updates(call, index.type.shape, source, x.type.dtype)
    kind = _REDUCTIONS.get(reduce or "", "none")
    if reduce and not include_self:
        x = _neutralized(call, x, axis, index, reduce)
    if reduce == "mean":
        return call.shaped(_mean(call, x, axis, index, updates, include_self), call.shape)
    if kind == "none" and isinstance(index, Constant):
        return _scattered(call, x, axis, index.data, updates)
    made = call.onnx("ScatterElements", x, index, updates, axis=axis, reduction=kind)
    return call.shaped(made, call.shape)


#: ONNX's words for how a scatter reduces; a mean is a sum first.
_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _neutralized(call: Call, x: Value, axis: int, index: Value, reduce: str) -> Value:
    """x with the reduction's neutral element wherever an index points."""
    bounds = None if x.type.is_float else np.iinfo(x.type.dtype)
    least, most = (bounds.min, bounds.max) if bounds else (-np.inf, np.inf)
    number = {"prod": 1, "amax": least, "amin": most}.get(reduce, 0)
    values = np.full(index.type.shape, number, x.type.dtype)
    return call.onnx("ScatterElements", x, index, values, axis=axis)


def _mean(call: Call, x: Value, axis: int, index: Value, updates: Value,
          include_self: bool) -> Value:  # fmt: skip
    """Sums divided by their counts; x may be one of the summands."""
    one = np.ones((), x.type.dtype)
    ones = np.ones(index.type.shape, x.type.dtype)
    start = np.full(x.type.shape, int(include_self), x.type.dtype)
    by = {"axis": axis, "reduction": "add"}
    counts = call.onnx("ScatterElements", start, index, ones, **by)
    sums = call.onnx("ScatterElements", x, index, updates, **by)
    return call.onnx("Div", sums, call.onnx("Max", counts, one))


@aten("scatter_add.default")
def scatter_add(call: Call, x: Value, axis: int, index: Value, source: Value) -> Result:
    """A tensor with an element for each index added."""
    return scatter(call, x, axis, index, source, "sum")


def _updates(call: Call, shape: tuple[int, ...], source: Operand, dtype: str) -> Value:
    """The updates of a scatter: the first elements along each axis, or a number everywhere."""
    if isinstance(source, Value):
        source = call.shaped(source, [1]) if not source.type.shape else source
        return chosen(call, numbered(source.type.shape)[tuple(map(slice, shape))], source)
    return call.builder.constant(f"{call.name}.source", np.full(shape, source, np.dtype(dtype)))


def _scattered(call: Call, x: Value, axis: int, index: Array, updates: Value) -> Value:
    numbers = numbered(x.type.shape)
    numbers[coordinates(index, axis)] = numbered(updates.type.shape, x.type.elements)
    return call.shaped(chosen(call, numbers, x, updates), call.shape)
