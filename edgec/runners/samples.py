"""Generated inputs, and the hash that compares outputs across machines.

The published measurements use both, so that a hash printed by `edgec run --seed 1` can be looked up
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

# Numerical Recipes' linear congruential generator, modulo 2**32.
_LCG_FACTOR = 1664525
_LCG_INCREMENT = 1013904223

# FNV-1a, 32 bits: offset basis and prime.
_FNV_BASIS = 0x811C9DC5
_FNV_PRIME = 0x01000193


def within_limits(
    arrays: Sequence[npt.NDArray[np.generic]], limits: Sequence[int | None]
) -> list[npt.NDArray[np.generic]]:
    """The same arrays, where indices lie from 0 to below their limit: modulo the limit."""
    return [
        array if limit is None else (array.astype(np.uint64) % np.uint64(limit)).astype(array.dtype)
        for array, limit in zip(arrays, limits, strict=True)
    ]


def generate_inputs(
    seed: int, types: Iterable[tuple[Sequence[int], npt.DTypeLike]]
) -> tuple[npt.NDArray[np.generic], ...]:
    """Return one array for each (shape, dtype): the same for the same seed, everywhere.

    x starts at `seed`; for each element, or for each byte of a wider integer (little-endian),
    x = x * 1664525 + 1013904223 mod 2**32, and x >> 24 is the byte. A float element is that
    byte as int8 / 128, in [-1, 1); a bool is its lowest bit. Several inputs continue one stream.
    """
    state = seed & 0xFFFFFFFF
    arrays = []
    for shape, dtype in types:
        kind = np.dtype(dtype)
        elements = int(np.prod(tuple(shape), dtype=np.int64))
        whole = kind.kind in "iu"
        count = elements * kind.itemsize if whole else elements
        stream = _draw(state, count)
        if count:
            state = int(stream[-1])
        top = (stream >> np.uint32(24)).astype(np.uint8)
        if whole:
            flat = top.view(kind.newbyteorder("<")).astype(kind)
        elif kind.kind == "b":
            flat = (top & 1).astype(kind)
        else:
            flat = (top.view(np.int8).astype(np.float32) / np.float32(128)).astype(kind)
        arrays.append(flat.reshape(tuple(shape)))
    return tuple(arrays)


def generate_steps(
    seed: int, types: Sequence[tuple[Sequence[int], npt.DTypeLike]], steps: int
) -> list[list[npt.NDArray[np.generic]]]:
    """The inputs of several runs in a row: one stream, whose first step is `generate_inputs`."""
    arrays = list(generate_inputs(seed, [*types] * steps))
    return [arrays[at * len(types) : (at + 1) * len(types)] for at in range(steps)]


def _draw(state: int, count: int) -> npt.NDArray[np.uint32]:
    """Return the next `count` states: x[n] = a**n x[0] + c (1 + a + ... + a**(n-1))."""
    factor = np.full(count, _LCG_FACTOR, dtype=np.uint32)
    powers = np.cumprod(factor, dtype=np.uint32)
    sums = np.cumsum(np.concatenate(([np.uint32(1)], powers[:-1])), dtype=np.uint32)
    result: npt.NDArray[np.uint32] = (
        powers * np.uint32(state) + sums[:count] * np.uint32(_LCG_INCREMENT)
    ).astype(np.uint32)
    return result


def fnv1a32(data: bytes) -> str:
    """Return the FNV-1a hash of `data`, 32 bits, as eight lower-case hexadecimal digits."""
    value = _FNV_BASIS
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return f"{value:08x}"


def outputs_fnv1a32(outputs: Iterable[npt.NDArray[np.generic]]) -> str:
    """Return `fnv1a32` over the bytes of all outputs, in order, C-contiguous, little-endian."""
    return fnv1a32(b"".join(np.ascontiguousarray(output).tobytes() for output in outputs))
