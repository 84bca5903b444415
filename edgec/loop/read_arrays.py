"""How a definition that is read on arrays reads them: at known indices as views, where it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.errors import ContractError
from edgec.loop.tape import Array
from edgec.loop.values import ArrayValue, noted

if TYPE_CHECKING:
    from edgec.loop.define import Tensor
    from edgec.loop.on_arrays import Trace

#: Cost of finding how the offsets follow each other, apart from the call itself.
_CALLS_OF_OFFSETS = 3


@lru_cache(maxsize=512)
def index_grids(shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Return the indices of each axis, along that axis: the same arrays for the same shape."""
    grids = []
    for position, extent in enumerate(shape):
        form = [1] * len(shape)
        form[position] = extent
        grids.append(np.arange(extent).reshape(form))
    return tuple(grids)


def gathered(tensor: Tensor, trace: Trace, indices: Sequence[Any]) -> ArrayValue:
    """The elements of a tensor at index grids.

    Raises ContractError where an index that counts leaves the tensor.
    """
    source = trace.buffers[tensor.name]
    grids = [i if isinstance(i, ArrayValue) else ArrayValue(np.asarray(i)) for i in indices]
    bounded = partial(_bounded, tensor.name, tensor.shape, trace.mask)
    if any(grid.tape is not None for grid in grids):
        return noted(Picked(tensor.shape, bounded), tensor.dtype, source, *grids)
    if trace.tape.work is not None:
        trace.tape.work.spend(_CALLS_OF_OFFSETS)
    known = bounded([grid.array for grid in grids])
    if all(map(is_, known, index_grids(tensor.shape))):
        return source
    offsets = offsets_of(known, tensor.shape)
    view: Callable[[Array], Array] | None = view_of(offsets, np.dtype(tensor.dtype))
    if view is None:
        where = sum(offsets[1:], offsets[0])
        view = view_of([where], np.dtype(tensor.dtype)) or partial(taken_at, where)
    return noted(view, tensor.dtype, source)


@dataclass(frozen=True)
class Picked:
    """A function of an array and index arrays: the elements there. bounded: indices inside it."""

    shape: tuple[int, ...]
    bounded: Callable[[Sequence[Array]], tuple[Array, ...]]

    def __call__(self, array: Array, *at: Array) -> Array:
        found: Array = array[self.bounded(at)]
        return found


def taken_at(where: Array, array: Array) -> Array:
    """The elements at offsets of an array, which is flat."""
    return np.take(array, where)


@dataclass(frozen=True)
class View:
    """A function of an array: the elements from offset `first` on, by steps along each axis."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    first: int
    steps: tuple[int, ...]

    def __call__(self, array: Array) -> Array:
        size = self.dtype.itemsize
        strides = tuple(step * size for step in self.steps)
        return np.ndarray(self.shape, self.dtype, array, self.first * size, strides)

    @property
    def offsets(self) -> Array:
        """The offset of each element."""
        total: Any = np.full((1,) * len(self.shape), self.first)
        for axis, (extent, step) in enumerate(zip(self.shape, self.steps, strict=True)):
            form = [extent if a == axis else 1 for a in range(len(self.shape))]
            total = total + (np.arange(extent) * step).reshape(form)
        return np.asarray(total).reshape(self.shape)


def _bounded(
    name: str, shape: tuple[int, ...], mask: Array | None, grids: Sequence[Array]
) -> tuple[Array, ...]:
    """The indices; where no step is they are moved into the tensor."""
    found = []
    for position, (grid, extent) in enumerate(zip(grids, shape, strict=True)):
        if grid.size and (grid.min() < 0 or grid.max() >= extent):
            bad = (grid < 0) | (grid >= extent)
            if mask is None or (bad & mask).any():
                raise ContractError(
                    f"index {position} of {name} leaves 0..{extent}",
                    details=(f"it ranges over {grid.min()}..{grid.max()}",),
                )
            grid = np.clip(grid, 0, extent - 1)
        found.append(grid)
    return tuple(found)


def offsets_of(grids: Sequence[Array], shape: tuple[int, ...]) -> list[Array]:
    """Numbers whose sums are the offsets of elements in a tensor, as C has it in memory."""
    rank = max((grid.ndim for grid in grids), default=0)
    return [
        grid.reshape((1,) * (rank - grid.ndim) + grid.shape) * prod(shape[position + 1 :])
        for position, grid in enumerate(grids)
    ] or [np.zeros((), np.intp)]


def view_of(offsets: Sequence[Array], dtype: np.dtype[Any]) -> View | None:
    """A function that returns the elements of a tensor at these offsets as a view.

    None unless each offset is a sum of multiples of the axes' positions. Axes along which
    the offsets are the same have one element.
    """
    found = [_steps(offset) for offset in offsets]
    if None in found:
        return None
    extents = np.broadcast_shapes(*(offset.shape for offset in offsets))
    steps = [sum(column) for column in zip(*(each for each in found if each), strict=True)]
    shape = tuple(extent if step else 1 for extent, step in zip(extents, steps, strict=True))
    return View(shape, dtype, sum(int(offset.flat[0]) for offset in offsets), tuple(steps))


def _steps(offset: Array) -> list[int] | None:
    """Return an offset's step along each axis; None if the step is not constant."""
    first = int(offset.flat[0])
    steps, expected = [], np.full((1,) * offset.ndim, first)
    for axis, extent in enumerate(offset.shape):
        step = int(np.moveaxis(offset, axis, 0)[1].flat[0]) - first if extent > 1 else 0
        line = np.arange(extent).reshape([-1 if a == axis else 1 for a in range(offset.ndim)])
        expected = expected + step * line
        steps.append(step)
    return steps if np.array_equal(expected, offset) else None
