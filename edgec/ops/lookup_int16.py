"""lookup_int16: any function of one stored int16 value, by a table and interpolation.

The table has results of 2**bits + 1 values, evenly from -32768 to 32768. Between two of them lies a
line:

    at = (x + 32768) >> (16 - bits)        part = (x + 32768) & (2**(16 - bits) - 1)
    y = (table[at] * 2**(16 - bits) + (table[at + 1] - table[at]) * part) >> shift, rounded half up

A function that is steep next to 0 and the same for all x <= 0, as a logarithm or a root, has as
many lines from 1 to 2 as from 16,384 to 32,768. table[0] is for x <= 0; 15 * 2**bits + 1 results
follow. With `raised`, x << (octaves above it), from 16,384 on:

    at = 1 + ((14 - octaves) << bits) + ((raised - 16384) >> (14 - bits))
    part = raised & (2**(14 - bits) - 1)

`edgec.passes.tabulate` finds the shortest table that is near enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Storage
from edgec.graph.types import Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, int32, intrinsic, maximum, saturate, select
from edgec.ops.broadcast import tensors_of
from edgec.ops.op import Op

#: Bits of an operand.
BITS = 16
#: Bits of a table's length: 33 to 2,049 entries.
FEWEST_BITS, MOST_BITS = 5, 11
#: Octaves of positive operands, and bits of the lines of each: 122 to 962 entries.
OCTAVES, OCTAVE_BITS = 15, range(3, 7)
LENGTHS = tuple((1 << bits) + 1 for bits in range(FEWEST_BITS, MOST_BITS + 1))
OCTAVE_LENGTHS = tuple((OCTAVES << bits) + 2 for bits in OCTAVE_BITS)
#: By this many bits entries are finer than results of int8.
FINER = {"int8": 7, "int16": 0}


@dataclass(frozen=True)
class LookupInt16Attrs:
    """results: entries of int16, without the result's zero point. output, dtype: of the result.

    off: how many steps a result may be from the function's, rounded.
    """

    results: tuple[int, ...]
    output: Quant
    dtype: str = "int16"
    off: int = 0

    @property
    def octave_bits(self) -> int | None:
        """Bits of the lines of each octave; None of an even table."""
        known = dict(zip(OCTAVE_LENGTHS, OCTAVE_BITS, strict=True))
        return known.get(len(self.results))

    @property
    def part_bits(self) -> int:
        """Bits of an operand that say where between two entries it lies."""
        if self.octave_bits is not None:
            return OCTAVES - 1 - self.octave_bits
        return BITS - (len(self.results) - 1).bit_length() + 1


@register
class LookupInt16(Op[LookupInt16Attrs]):
    """int16 to int16 or int8, each quantized per tensor."""

    name = "lookup_int16"
    attrs_class = LookupInt16Attrs
    fusion = Fusion.ELEMENTWISE
    storage = Storage.TABULATE

    def infer(self, attrs: LookupInt16Attrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape of the input with the output's dtype and quantization."""
        (x,) = inputs
        if x.dtype != "int16" or x.quant is None or not x.quant.per_tensor:
            raise TypeMismatch(f"lookup_int16 needs int16 quantized per tensor, not {x}")
        if len(attrs.results) not in LENGTHS + OCTAVE_LENGTHS or not attrs.output.per_tensor:
            raise TypeMismatch(f"lookup_int16 has no table of {len(attrs.results)} results")
        if attrs.dtype not in FINER or not all(-32768 <= r <= 32767 for r in attrs.results):
            raise TypeMismatch("lookup_int16: a result does not fit")
        return (TensorType(x.shape, attrs.dtype, attrs.output),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Two loads and a line for every element."""
        attrs: LookupInt16Attrs = node.attrs
        (x,) = tensors_of(inputs)
        table = target.table("results", np.asarray(attrs.results, np.int16))
        parts = attrs.part_bits
        shift, zero_point = parts + FINER[attrs.dtype], attrs.output.zero_point[0]

        def element(*at: Any) -> Value:
            place, first = _place(int32(x[at]), attrs)
            low = int32(table[first])
            rise = int32(table[first + 1]) - low
            line = (low << parts) + rise * (place & ((1 << parts) - 1))
            rounded = ((line + (1 << (shift - 1))) >> shift) + zero_point
            return saturate(rounded, attrs.dtype)

        return target.compute("element", node.output.type.shape, attrs.dtype, element)

    def error_growth(self, attrs: LookupInt16Attrs, inputs: int, reach: float) -> float:
        """The steepest line."""
        rises = np.abs(np.diff(attrs.results))
        if attrs.octave_bits is not None:
            lines = 2.0 ** (attrs.octave_bits - np.arange(OCTAVES))
            steepest = rises[1:].reshape(OCTAVES, -1).max(axis=1) * lines
            return max(float(steepest.max()), float(rises[0]), 1.0)
        return max(int(rises.max()) / (1 << attrs.part_bits), 1.0)

    def steps_off(self, attrs: LookupInt16Attrs) -> int:
        """The error of the interpolation."""
        return attrs.off


def _place(x: Value, attrs: LookupInt16Attrs) -> tuple[Value, Value]:
    """A number whose last bits are the part of a line, and the first entry of the line."""
    parts, bits = attrs.part_bits, attrs.octave_bits
    if bits is None:
        place = x + 32768
        return place, place >> parts
    zeros = intrinsic("count_leading_zeros", maximum(x, 1))
    raised = maximum(x, 1) << (zeros - (31 - BITS + 2))
    at = ((31 - zeros) << bits) + ((raised - (1 << (BITS - 2))) >> parts) + 1
    return raised, select(x > 0, at, at * 0)
