"""MLIR text of the TOSA dialect, version 1.0: one operation a line, in MLIR's generic form.

    %3 = "tosa.add"(%1, %2) : (tensor<1x4xi32>, tensor<1x4xi32>) -> tensor<1x4xi32>

Source: the TOSA specification 1.0, and the dialect's definition in MLIR (TosaOps.td). Constants are
the bytes of their arrays, little-endian, as MLIR reads a quoted string in `dense<>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from edgec.errors import EdgecError
from edgec.graph.types import Array

#: The element types that are written, by NumPy's names.
ELEMENT = {"bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "float32": "f32"}
#: Numbers of at most this many bytes are written as numbers, others as bytes.
_READABLE_BYTES = 64

Shape = tuple[int, ...]


class CannotSay(EdgecError):
    """An operator without an equivalent in TOSA or in the supported part of it."""


def element_of(dtype: str) -> str:
    """MLIR's element type. Raises CannotSay for one that TOSA does not compute with."""
    if dtype not in ELEMENT:
        raise CannotSay(f"values of {dtype}")
    return ELEMENT[dtype]


@dataclass(frozen=True)
class Tensor:
    """A value of the text. dtype: NumPy's name of the element type."""

    name: str
    shape: Shape
    dtype: str

    @property
    def type(self) -> str:
        """MLIR's type."""
        return tensor_type(self.shape, self.dtype)


@dataclass(frozen=True)
class ShapeOperand:
    """A shape that an operation takes as an operand."""

    name: str
    rank: int

    @property
    def type(self) -> str:
        """MLIR's type."""
        return f"!tosa.shape<{self.rank}>"


def tensor_type(shape: Shape, dtype: str) -> str:
    """MLIR's type of a tensor."""
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}{element_of(dtype)}>"


def numbers(*values: int, bits: int = 64) -> str:
    """A list of integers as an attribute."""
    return f"array<i{bits}: {', '.join(map(str, values))}>" if values else f"array<i{bits}>"


class TosaText:
    """The body of one function, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[tuple[bytes, Shape, str], Tensor] = {}
        self._shapes: dict[Shape, ShapeOperand] = {}
        self._count = 0

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor | ShapeOperand],
        shape: Sequence[int],
        dtype: str,
        **attributes: str,
    ) -> Tensor:
        """Append an operation with one result. attributes: MLIR text by name."""
        result = Tensor(self._fresh(), tuple(shape), dtype)
        self._line(f'"tosa.{kind}"', inputs, result.name, result.type, attributes)
        return result

    def constant(self, data: Array) -> Tensor:
        """A constant; equal ones are written once."""
        data = np.ascontiguousarray(data).reshape(np.shape(data))
        key = (data.tobytes(), data.shape, data.dtype.name)
        if key not in self._known:
            result = Tensor(self._fresh(), data.shape, data.dtype.name)
            values = f"dense<{_dense(data)}> : {result.type}"
            self._line('"tosa.const"', (), result.name, result.type, {"values": values})
            self._known[key] = result
        return self._known[key]

    def shape(self, shape: Sequence[int]) -> ShapeOperand:
        """A shape as an operand; equal ones are written once."""
        key = tuple(shape)
        if key not in self._shapes:
            result = ShapeOperand(self._fresh(), len(key))
            values = f"dense<[{', '.join(map(str, key))}]> : tensor<{len(key)}xindex>"
            if not key:
                values = "dense<> : tensor<0xindex>"
            self._line('"tosa.const_shape"', (), result.name, result.type, {"values": values})
            self._shapes[key] = result
        return self._shapes[key]

    def comment(self, text: str) -> None:
        """A line for the reader."""
        self.lines.append("// " + "".join(c if c.isprintable() else "?" for c in text))

    def _fresh(self) -> str:
        self._count += 1
        return f"%{self._count}"

    def _line(
        self,
        kind: str,
        inputs: Sequence[Tensor | ShapeOperand],
        result: str,
        result_type: str,
        attributes: Mapping[str, str],
    ) -> None:
        given = ", ".join(each.name for each in inputs)
        types = ", ".join(each.type for each in inputs)
        said = ", ".join(f"{name} = {value}" for name, value in attributes.items())
        said = f" <{{{said}}}>" if said else ""
        self.lines.append(f"{result} = {kind}({given}){said} : ({types}) -> {result_type}")


def _dense(data: Array) -> str:
    """The text inside `dense<>`."""
    flat = data.reshape(-1)
    if data.dtype == np.bool_:
        return _nested([str(truth).lower() for truth in flat.tolist()], data.shape)
    little = flat.astype(flat.dtype.newbyteorder("<")).tobytes()
    first = little[: data.itemsize]
    if flat.size and little == first * flat.size:  # one number stands for all
        little = first
    is_short = data.dtype.kind == "i" and data.nbytes <= _READABLE_BYTES
    if is_short and flat.size:
        numbers = [str(number) for number in flat.tolist()]
        return numbers[0] if len(little) == data.itemsize else _nested(numbers, data.shape)
    return f'"0x{little.hex().upper()}"'


def _nested(words: Sequence[str], shape: Shape) -> str:
    if not shape:
        return words[0]
    inner = prod(shape[1:])
    rows = [words[n * inner : (n + 1) * inner] for n in range(shape[0])]
    return f"[{', '.join(_nested(row, shape[1:]) for row in rows)}]"
