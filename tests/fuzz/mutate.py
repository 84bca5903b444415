"""Random damage to model files: to their bytes, and to what their formats say.

`mutate(data, kind, rng)` gives the bytes of a damaged file. A third of the cases damage bytes; the
others take the file apart with the format's own schema, change some of its parts and write it
again, so that the result still reads as a flatbuffer or a protobuf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator

#: Integers at which arithmetic, sizes and indices go wrong.
INTEGERS = (
    0, 1, 2, 3, 5, -1, -2, 127, 128, 255, 256, -128, 32767, 65535, 65536, 1 << 20, 1 << 24,
    (1 << 31) - 1, 1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 40, (1 << 63) - 1, -(1 << 63),
)  # fmt: skip
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-45,
    1e-30,
    1e30,
    3.4e38,
    float("inf"),
    float("-inf"),
    float("nan"),
)


def mutate(data: bytes, kind: str, rng: Rng) -> bytes:
    """kind: "tflite", "onnx" or "pt2"."""
    if rng.random() < (0.1 if kind == "pt2" else 1 / 3):
        return mutate_bytes(data, rng)
    from mutate_onnx import mutate_onnx
    from mutate_tflite import mutate_tflite
    from mutate_torch import mutate_torch

    changes = int(rng.choice([1, 1, 1, 2, 3, 8]))
    by_kind = {"tflite": mutate_tflite, "onnx": mutate_onnx, "pt2": mutate_torch}
    result = by_kind[kind](data, changes, rng)
    return mutate_bytes(result, rng) if rng.random() < 0.1 else result


def mutate_bytes(data: bytes, rng: Rng) -> bytes:
    """Cut, flipped, overwritten, moved and repeated bytes."""
    found = bytearray(data)
    size = len(found)
    if not size:  # a protobuf without any field
        return data

    def place(width: int = 1) -> int:
        # Headers and tables tend to lie at the ends.
        near = min(size, 4096)
        ends = (rng.integers(near), size - 1 - rng.integers(near), rng.integers(size))
        return int(max(min(ends[rng.integers(3)], size - width), 0))

    for _ in range(int(rng.choice([1, 1, 2, 4, 16]))):
        what = rng.integers(6)
        at = place(8)
        if what == 0:
            found[at] ^= 1 << int(rng.integers(8))
        elif what == 1:
            width = int(rng.choice([1, 2, 4, 8]))
            value = int(rng.choice(len(INTEGERS)))
            at -= at % width
            found[at : at + width] = (INTEGERS[value] % (1 << 8 * width)).to_bytes(width, "little")
        elif what == 2:
            length = int(rng.integers(1, 64))
            source = place(length)
            found[at : at + length] = found[source : source + length]
        elif what == 3:
            length = int(rng.integers(1, 64))
            del found[at : at + length]
        elif what == 4:
            length = int(rng.integers(1, 64))
            found[at:at] = found[at : at + length]
        else:
            del found[max(at, 8) :]
        size = len(found)
        if size < 8:
            break
    return bytes(found)


def change_integer(value: int, rng: Rng, low: int, high: int) -> int:
    """Another integer from low to high: near, a special one, or any."""
    what = rng.integers(4)
    if what == 0:
        new = value + int(rng.choice([-2, -1, 1, 2]))
    elif what == 1:
        new = value * int(rng.choice([-1, 2, 3, 1 << 8, 1 << 16]))
    else:
        new = INTEGERS[int(rng.integers(len(INTEGERS)))]
    return int(min(max(new, low), high))


def change_float(value: float, rng: Rng) -> float:
    """Another float: a special one, or one of another size."""
    if rng.random() < 0.5:
        return FLOATS[int(rng.integers(len(FLOATS)))]
    with np.errstate(over="ignore"):
        return float(np.float32(value) * np.float32(rng.choice([-1.0, 2.0, 1e-20, 1e20])))


def change_text(value: bytes, rng: Rng) -> bytes:
    """Another text: cut, repeated, very long, of control characters, of no encoding."""
    choices = (
        b"", value[: len(value) // 2], value * 3, b"x" * 5000, b"\x00\x1b[2J\n\r", b"\xff\xfe",
        b"../../../etc/passwd", b'"; int evil(void); //',
    )  # fmt: skip
    return choices[int(rng.integers(len(choices)))]


def change_list(values: Any, rng: Rng) -> Any:
    """A list with an entry more, less, twice, or none."""
    values = list(values)
    what = rng.integers(5)
    if not values or what == 0:
        return values[:0]
    at = int(rng.integers(len(values)))
    if what == 1:
        del values[at]
    elif what == 2:
        values.insert(at, values[int(rng.integers(len(values)))])
    elif what == 3:
        other = int(rng.integers(len(values)))
        values[at], values[other] = values[other], values[at]
    else:
        values = values * int(rng.choice([2, 3, 50])) if len(values) < 1000 else values[:at]
    return values
