"""How a kernel stores the constants that it reads as one array: a list of fields, as data.

    lanes = lanes_of(channels, 4)                                    # units of four channels
    fields = (Field("w", rows_at(lanes, taps), "int8"), Field("bias", lanes))

A field lists a constant, the positions of its entries, their order and their stored dtype. Packing,
reading back and the length are derived from the fields. Fields with the same number of units
alternate: all fields of the first unit come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Field:
    """Entries of one constant.

    at: [units, ...], indices of the entries in the flat constant, in stored order; -1 for a zero.
    dtype: of the stored number, `times` * entry + `plus`; both may be arrays that broadcast with
    `at`.
    """

    source: str
    at: Array
    dtype: str = "int32"
    times: Any = 1
    plus: Any = 0

    @property
    def units(self) -> int:
        """Number of occurrences."""
        return len(self.at)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the stored values."""
        return self.at.shape

    @property
    def unit_bytes(self) -> int:
        return prod(self.shape[1:]) * self.item_bytes

    @property
    def item_bytes(self) -> int:
        """Bytes of a number."""
        return np.dtype(self.dtype).itemsize

    def of_each(self, count: int, size: int) -> Field:
        """The entries of `count` constants of this size, one after the other, a unit each."""
        first = (np.arange(count) * size).reshape(-1, *[1] * (self.at.ndim - 1))
        return replace(self, at=np.where(self.at < 0, -1, self.at + first))

    def pack(self, arrays: Mapping[str, Array]) -> Array:
        """The bytes of all units, [units, bytes]."""
        flat = np.asarray(arrays[self.source]).reshape(-1)
        entries = np.where(self.at < 0, flat.dtype.type(0), flat[self.at])
        stored = np.ascontiguousarray(self.encode(entries).astype(self.dtype))
        return stored.reshape(self.units, -1).view(np.uint8)

    def unpack(self, packed: Array, found: dict[str, Array]) -> None:
        """Read what `pack` returned into the flat constants."""
        numbers = np.ascontiguousarray(packed).view(self.dtype).reshape(self.shape)
        known = self.at >= 0
        found[self.source][self.at[known]] = self.decode(numbers)[known]

    def encode(self, entries: Array) -> Array:
        """The numbers that are stored."""
        is_plain = isinstance(self.times, int) and isinstance(self.plus, int)
        if is_plain and (self.times, self.plus) == (1, 0):
            return entries
        if np.dtype(self.dtype).kind == "f":
            return np.asarray(entries.astype(self.dtype) * np.float32(self.times))
        return np.asarray(entries.astype(np.int64) * self.times + self.plus)

    def decode(self, numbers: Array) -> Array:
        """The entries, of the numbers that are stored."""
        if np.dtype(self.dtype).kind == "f":
            return np.asarray(numbers / np.float32(self.times))
        return np.asarray((numbers.astype(np.int64) - self.plus) // self.times)


@dataclass(frozen=True, eq=False)
class Joined(Field):
    """Numbers that combine several entries, along the last axis of `at`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the stored values."""
        return self.at.shape[:-1]


@dataclass(frozen=True, eq=False)
class Sums(Joined):
    """Sums of entries of 8 bits, each times 1, 256, ... or the negatives of these (`times`)."""

    def encode(self, entries: Array) -> Array:
        return np.asarray((entries.astype(np.int64) * self.times).sum(axis=-1))

    def decode(self, numbers: Array) -> Array:
        """The entries: a lower one borrows from those above it."""
        left, found = numbers.astype(np.int64), []
        for _ in self.times[:-1]:
            found.append((left + 128) % 256 - 128)
            left = (left - found[-1]) >> 8
        return np.asarray(np.stack([*found, left], axis=-1) * np.sign(self.times))


@dataclass(frozen=True, eq=False)
class Digits(Joined):
    """int4 entries side by side. times: the weight of each one's lowest bit."""

    def encode(self, entries: Array) -> Array:
        """The digits together."""
        digits = (entries.astype(np.int64) + self.plus) & 15
        return np.asarray((digits * self.times).sum(axis=-1))

    def decode(self, numbers: Array) -> Array:
        """The entries, with their signs."""
        bits = numbers.view(f"u{numbers.dtype.itemsize}").astype(np.int64)
        digits = bits[..., None] // self.times - self.plus
        return np.asarray((digits & 15 ^ 8) - 8)


@dataclass(frozen=True, eq=False)
class Totals(Field):
    """Weighted sums of the entries of a unit, modulo 2**32: `times` is the matrix of weights.

    Each sum has one entry more than another one, or one alone.
    """

    def encode(self, entries: Array) -> Array:
        return np.asarray(entries.astype(np.int64) @ np.transpose(self.times))

    def decode(self, numbers: Array) -> Array:
        found = np.zeros(self.at.shape, np.int64)
        is_known = np.zeros(self.at.shape[1], bool)
        for row in sorted(
            range(len(self.times)), key=lambda row: np.count_nonzero(self.times[row])
        ):
            weights = self.times[row]
            (new,) = np.flatnonzero((weights != 0) & ~is_known)
            left = numbers[:, row] - found @ weights
            found[:, new] = ((left + (1 << 31)) % (1 << 32) - (1 << 31)) // weights[new]
            is_known[new] = True
        return found


#: Constants by their names, changed for a call of these sizes.
Change = Callable[..., Mapping[str, Array]]


@dataclass(frozen=True)
class Stream:
    """Constants of a meaning that a C function reads as one array of `dtype`.

    The array replaces the first of `sources`. `fields(**sizes)` lists its contents.
    `prepare(arrays, **sizes)` adds computed constants for the fields, and `restore(arrays,
    **sizes)` reverses its changes.
    """

    sources: tuple[str, ...]
    fields: Callable[..., Sequence[Field]]
    prepare: Change | None = None
    restore: Change | None = None
    dtype: str = "int32"

    def words(self, **sizes: int) -> int:
        """The length of the array, in words of four bytes."""
        return _facts(self, tuple(sizes.items()))[0]

    def pack(self, arrays: Mapping[str, Array], **sizes: int) -> Array:
        """The array, from the constants by their names in the meaning."""
        given = self.prepare(arrays, **sizes) if self.prepare else arrays
        parts = [
            np.concatenate([field.pack(given) for field in fields], axis=1).reshape(-1)
            for _, fields in _by_units(self.fields(**sizes))
        ]
        held = np.concatenate(parts)
        return np.pad(held, (0, -held.size % 4)).view(self.dtype)

    def pack_parts(
        self, arrays: Mapping[str, Array], count: int, sizes: Mapping[str, int]
    ) -> Array:
        """The arrays of `count` calls, [count, words], of constants with a part for each.

        Parts of one unit, such as single channels, are packed together, since there are many.
        """
        rows = {name: array.reshape(count, -1) for name, array in arrays.items()}
        parts = [{name: row[i] for name, row in rows.items()} for i in range(count)]
        fields = self.fields(**sizes)
        if any(field.units > 1 for field in fields):
            return np.stack([self.pack(part, **sizes) for part in parts])
        given = [self.prepare(part, **sizes) if self.prepare else part for part in parts]
        flat = {f.source: np.stack([np.ravel(each[f.source]) for each in given]) for f in fields}
        packed = [f.of_each(count, flat[f.source].shape[1]).pack(flat) for f in fields]
        held = np.concatenate(packed, axis=1)
        return np.pad(held, ((0, 0), (0, -held.shape[1] % 4))).view(self.dtype)

    def unpack(self, words: Array, **sizes: int) -> Mapping[str, Array]:
        """The constants that `pack` was given, flat."""
        fields = self.fields(**sizes)
        found: dict[str, Array] = {}
        for source in {field.source for field in fields}:
            own = [field for field in fields if field.source == source]
            length = max(int(field.at.max(initial=-1)) for field in own) + 1
            is_float = np.dtype(own[0].dtype).kind == "f"
            found[source] = np.zeros(length, np.float32 if is_float else np.int64)
        held, place = np.ascontiguousarray(words).astype(self.dtype).view(np.uint8), 0
        for units, group in _by_units(fields):
            together = list(group)
            ends = np.cumsum([field.unit_bytes for field in together])
            part = held[place : place + units * int(ends[-1])].reshape(units, -1)
            place += part.size
            for field, packed in zip(together, np.split(part, ends[:-1], axis=1), strict=True):
                field.unpack(packed, found)
        given = self.restore(found, **sizes) if self.restore else found
        return {source: given[source] for source in self.sources if source in given}

    def describe(self, **sizes: int) -> str:
        """The contents of the array in the order of its fields; one constant's fields together."""
        return _facts(self, tuple(sizes.items()))[1]


@lru_cache(maxsize=4096)
def _facts(stream: Stream, sizes: tuple[tuple[str, int], ...]) -> tuple[int, str]:
    """The length of a stream in words, and its description: fields of large layers are large."""
    parts, length = [], 0
    for units, fields in _by_units(stream.fields(**dict(sizes))):
        counts: dict[str, int] = {}
        for field in fields:
            name = f"{field.dtype} {field.source}"
            counts[name] = counts.get(name, 0) + field.unit_bytes // field.item_bytes
            length += units * field.unit_bytes
        listed = ", ".join(f"{name}[{count}]" for name, count in counts.items())
        parts.append(f"{units} times {listed}" if units > 1 else listed)
    return -(-length // 4), "; ".join(parts)


def _by_units(fields: Sequence[Field]) -> Iterator[tuple[int, Iterator[Field]]]:
    """Neighbouring fields that alternate."""
    return groupby(fields, key=lambda field: field.units)


def unit_starts(channels: int, unit: int) -> list[int]:
    """The first channel of each unit of a stream; the last unit may overlap the one before."""
    return [min(first, channels - unit) for first in range(0, channels, unit)]


def lanes_of(channels: int, unit: int) -> Array:
    """The channels of each unit, [units, unit]."""
    return np.array(unit_starts(channels, unit))[:, None] + np.arange(unit)


def rows_at(lanes: Array, length: int) -> Array:
    """Indices of rows of `length` entries in an array of such rows, [*lanes.shape, length]."""
    return np.asarray(lanes[..., None] * length + np.arange(length))


def zeros(units: int, count: int) -> Array:
    """The places of the zeros that fill each unit."""
    return np.full((units, count), -1)
