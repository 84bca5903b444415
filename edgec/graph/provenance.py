"""Provenance: which tensor of the source model a value stands for, and how.

Passes rewrite shapes and layouts; `Origin` says how to get from the source's tensor to the value,
so that verification, profiles and reports speak the user's names at every stage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from edgec.graph.types import Array


@dataclass(frozen=True)
class Origin:
    """A value is the source tensor, transposed by `permutation`, then without removed channels.

    is_moved: the source tensor is uint8, and the value the same less 128, as int8.

    tensor: name in the model file (for TFLite without names: `tensor 17`).
    index: number of the tensor in the model file where it has one, else None.
    shape: the source tensor's own shape.
    permutation: axis i of the value is axis permutation[i] of the source; None: no permutation.
    kept_channels: indices along the value's last axis that still exist; None = all.
    removed: (channel, constant) for each channel that was removed as provably constant.
    """

    tensor: str
    shape: tuple[int, ...]
    index: int | None = None
    permutation: tuple[int, ...] | None = None
    kept_channels: tuple[int, ...] | None = None
    removed: tuple[tuple[int, int], ...] = ()
    is_moved: bool = False

    def transposed(self, permutation: tuple[int, ...]) -> Origin:
        """Provenance of `transpose(value, permutation)`."""
        before = self.permutation or tuple(range(len(permutation)))
        if len(before) != len(permutation):
            raise ValueError(f"cannot transpose provenance of rank {len(before)}")
        after = tuple(before[axis] for axis in permutation)
        return replace(self, permutation=None if after == tuple(range(len(after))) else after)

    def from_source(self, source: Array, shape: tuple[int, ...]) -> Array:
        """The value's elements, from the source tensor. `shape` is the value's shape."""
        array = source
        if self.permutation is not None:
            array = np.transpose(array.reshape(self.shape), self.permutation)
        if self.kept_channels is not None:
            array = array[..., list(self.kept_channels)]
        if self.is_moved:
            array = (array ^ np.uint8(128)).view(np.int8)
        return np.ascontiguousarray(array).reshape(shape)

    @property
    def unknown_channels(self) -> tuple[int, ...]:
        """Indices along the value's last axis that were removed without being constant."""
        if self.kept_channels is None:
            return ()
        axes = self.permutation or tuple(range(len(self.shape)))
        known = {*self.kept_channels, *(channel for channel, _ in self.removed)}
        return tuple(c for c in range(self.shape[axes[-1]]) if c not in known)

    def to_source(self, value: Array) -> Array:
        """The source tensor, given the value.

        Removed channels hold their constants, unknown ones 0.
        """
        array = value
        source_axes = self.permutation or tuple(range(len(self.shape)))
        full = tuple(self.shape[axis] for axis in source_axes)
        if self.kept_channels is not None:
            whole = np.zeros(full, array.dtype)
            whole[..., list(self.kept_channels)] = array.reshape(
                *full[:-1], len(self.kept_channels)
            )
            for channel, constant in self.removed:
                whole[..., channel] = constant
            array = whole
        array = array.reshape(full)
        if self.is_moved:
            array = array.view(np.uint8) ^ np.uint8(128)
        return np.transpose(array, np.argsort(source_axes)).copy()  # also of rank 0
