"""lookup: any function of one stored int8 value, as a table of its 256 results.

Element-wise floats between a dequantize and a quantize have one result for each stored value
(`edgec.passes.tabulate`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.operator import register
from edgec.graph.traits import Storage
from edgec.graph.types import Quant, TensorType
from edgec.numerics.fixed_point import IntArray
from edgec.ops.table import OPERANDS, ByTable


@dataclass(frozen=True)
class LookupAttrs:
    """results: the int8 results of -128..127, in order. output: their quantization."""

    results: tuple[int, ...]
    output: Quant | None = None


@register
class Lookup(ByTable[LookupAttrs]):
    """int8 to int8, each quantized per tensor."""

    name = "lookup"
    attrs_class = LookupAttrs
    storage = Storage.TABULATE

    def check(self, attrs: LookupAttrs, x: TensorType) -> None:
        """256 results, all of int8."""
        if len(attrs.results) != len(OPERANDS):
            raise TypeMismatch(f"lookup needs 256 results, not {len(attrs.results)}")
        if not all(-128 <= result <= 127 for result in attrs.results):
            raise TypeMismatch("lookup: a result does not fit in int8")

    def infer(self, attrs: LookupAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape of the input with the output's quantization; floats have no table."""
        if inputs[0].dtype != "int8":
            raise TypeMismatch(f"lookup needs int8 quantized per tensor, not {inputs[0]}")
        return super().infer(attrs, *inputs)

    def stored(self, attrs: LookupAttrs, values: IntArray, x: TensorType) -> IntArray:
        """The table's entry."""
        return np.asarray(attrs.results, np.int64)[values + 128]

    def attrs_within(self, attrs: LookupAttrs, low: int, high: int) -> LookupAttrs:
        """Clamped results."""
        return replace(attrs, results=tuple(min(max(each, low), high) for each in attrs.results))
