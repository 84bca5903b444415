"""Tensor types: shape, dtype and quantization, the static facts of a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.numerics.narrow_float import STORED_IN
from edgec.numerics.term import Term

Array = npt.NDArray[Any]
Arrays = Sequence[Array]

#: numpy's names; the element types that the graph IR knows.
DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float32", "float64", *STORED_IN,
)  # fmt: skip


@dataclass(frozen=True)
class Quant:
    """Affine quantization: real = scale * (stored - zero_point).

    One scale and zero point for the whole tensor (`axis` None) or one for each index along
    `axis`. Scales are Python floats that hold the source's float32 values exactly, so that
    products of two scales are exact as well (24 + 24 bits fit in 53).
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    def __post_init__(self) -> None:
        if len(self.scale) != len(self.zero_point):
            raise ValueError(f"{len(self.scale)} scales but {len(self.zero_point)} zero points")
        if self.axis is None and len(self.scale) != 1:
            raise ValueError("several scales need an axis")

    @property
    def per_tensor(self) -> bool:
        """One scale and zero point for all elements."""
        return self.axis is None

    def with_axis(self, axis: int | None) -> Quant:
        """The same parameters along another axis (after a transpose)."""
        return replace(self, axis=axis)

    def taken(self, axis: int, indices: Sequence[int]) -> Quant:
        """The entries at these indices along `axis`, in this order; all for another axis."""
        if self.axis != axis:
            return self
        scale = tuple(self.scale[i] for i in indices)
        return Quant(scale, tuple(self.zero_point[i] for i in indices), axis)


@dataclass(frozen=True)
class TensorType:
    """Shape (row-major), element type and quantization of a value.

    extents: where a size is open, every dimension as a term over symbols; `shape` is then the
    largest that each can be. Elements lie row after row at the sizes of a run.
    """

    shape: tuple[int, ...]
    dtype: str
    quant: Quant | None = None
    extents: tuple[Term, ...] | None = None

    def __post_init__(self) -> None:
        if self.extents is not None:
            bounds = tuple(term.bounds()[1] for term in self.extents)
            if bounds != self.shape or any(term.bounds()[0] < 0 for term in self.extents):
                sizes = ", ".join(map(str, self.extents))
                raise ValueError(f"sizes {sizes} do not lie in 0 to {list(self.shape)}")
        if self.dtype not in DTYPES:
            raise ValueError(f"unknown dtype {self.dtype!r}")

    @property
    def elements(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @cached_property
    def nbytes(self) -> int:
        """Size in bytes, without padding."""
        return self.elements * np.dtype(self.dtype).itemsize

    @property
    def is_quantized(self) -> bool:
        """Integers that stand for real numbers."""
        return self.quant is not None

    @property
    def is_float(self) -> bool:
        """A floating-point dtype."""
        return "float" in self.dtype

    def scalar_quant(self) -> tuple[float, int]:
        """Scale and zero point of a per-tensor quantized type; ValueError otherwise."""
        if self.quant is None or not self.quant.per_tensor:
            raise ValueError(f"{self} is not quantized per tensor")
        return self.quant.scale[0], self.quant.zero_point[0]

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The same element type and quantization with another shape."""
        return replace(self, shape=shape, extents=None)

    def __str__(self) -> str:
        text = f"{self.dtype}[{', '.join(map(str, self.extents or self.shape))}]"
        if self.quant is None:
            return text
        if self.quant.per_tensor:
            return f"{text} quant({self.quant.scale[0]!r}, {self.quant.zero_point[0]})"
        return f"{text} quant({len(self.quant.scale)} scales along {self.quant.axis})"


#: Types of a node's inputs or outputs.
Types = Sequence[TensorType]
