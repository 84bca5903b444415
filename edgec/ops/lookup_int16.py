"""lookup_int16: any function of one stored int16 value, by a table and interpolation.

The table has results of 2**bits + 1 values, evenly from -32768 to 32768. Between two of them lies a
line:

    at = (x + 32768) >> (16 - bits)        part = (x + 32768) & (2**(16 - bits) - 1)
    y = (table[at] * 2**(16 - bits) + (table[at + 1] - table[at]) * part) >> shift, rounded half up

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
from edgec.loop.values import Value, int32, saturate
from edgec.ops.broadcast import tensors_of
from edgec.ops.op import Op

#: Bits of an operand.
BITS = 16
#: Bits of a table's length: 33 to 2,049 entries.
FEWEST_BITS, MOST_BITS = 5, 11
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
    def part_bits(self) -> int:
        """Bits of an operand that say where between two entries it lies."""
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
        lengths = [(1 << bits) + 1 for bits in range(FEWEST_BITS, MOST_BITS + 1)]
        if len(attrs.results) not in lengths or not attrs.output.per_tensor:
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
            place = int32(x[at]) + 32768
            low = int32(table[place >> parts])
            rise = int32(table[(place >> parts) + 1]) - low
            line = (low << parts) + rise * (place & ((1 << parts) - 1))
            rounded = ((line + (1 << (shift - 1))) >> shift) + zero_point
            return saturate(rounded, attrs.dtype)

        return target.compute("element", node.output.type.shape, attrs.dtype, element)

    def error_growth(self, attrs: LookupInt16Attrs, inputs: int, reach: float) -> float:
        """The steepest line."""
        rise = int(np.abs(np.diff(attrs.results)).max())
        return max(rise / (1 << attrs.part_bits), 1.0)

    def steps_off(self, attrs: LookupInt16Attrs) -> int:
        """What interpolation is off by."""
        return attrs.off
