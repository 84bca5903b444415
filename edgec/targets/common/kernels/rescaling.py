"""The ways in which product kernels turn their sums into int8 or int16.

Products do not depend on how their sums are rescaled: each kernel of products is registered once
for each way that there is C for, with the same sizes and the same meaning but for this step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgec.loop.define import Definition, Tensor
from edgec.loop.values import Value, int32, int64, intrinsic


@dataclass(frozen=True, eq=False)
class Rescaling:
    """One way: `function` of an accumulator and its channel's entries in `tables`.

    tables: dtypes of constants with one entry for each channel, by their names in meanings and in
    lowered operators. `suffix` ends the kernels' names, and `needs` are features in addition to the
    products'. `dtype` is the dtype of inputs, and of results unless `stored` differs. `is_down`:
    shifts count to the right, unlike the instructions'; `is_wide`: sums have 64 bits.
    """

    function: str
    tables: Mapping[str, str]
    suffix: str = ""
    needs: frozenset[str] = frozenset()
    dtype: str = "int8"
    stored: str = ""
    is_down: bool = False
    is_wide: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all constants of a product."""
        return ("bias", "w", *self.tables)

    def declare(self, definition: Definition, channels: int) -> tuple[Tensor, ...]:
        """The tables as constants of a meaning."""
        return tuple(
            definition.constant(name, (channels,), dtype) for name, dtype in self.tables.items()
        )

    def rounded(self, acc: Value, tables: tuple[Tensor, ...], channel: Any) -> Value:
        """The rescaled accumulator, an int32."""
        if not self.function:
            return acc
        entries = [table[channel] for table in tables]
        return intrinsic(
            self.function,
            int64(acc) if self.is_wide else acc,
            *(_argument(entry) for entry in entries),
        )

    def kernel(self, products: str, unit: str = "dsp") -> str:
        """The name of the kernel of these products with this rescaling."""
        other = f"_{_short(self.stored)}" if self.stored else ""
        return f"ec_{products}{self.suffix}_{self.short_dtype}{other}_{unit}"

    @property
    def short_dtype(self) -> str:
        """The dtype of inputs in the names of kernels and of their files."""
        return _short(self.dtype)

    @property
    def file(self) -> str:
        """The end of the names of files with such kernels."""
        other = f"_to_{_short(self.stored)}" if self.stored else ""
        return f"{self.short_dtype}{other}{self.suffix}.h"

    @property
    def result(self) -> str:
        """The dtype of results; only int8 has zero points."""
        return self.stored or self.dtype


def _short(dtype: str) -> str:
    return dtype.replace("int", "s")


def _argument(entry: Value) -> Value:
    return int32(entry) if entry.dtype == "int8" else entry


#: gemmlowp's double rounding, with shifts to the right only.
TFLM = Rescaling("requantize_tflm_right", {"multiplier": "int32", "shift": "int8"})
#: ONNX Runtime's, by floats.
ONNX = Rescaling("requantize_onnx", {"scale": "float32"}, "_onnx", frozenset({"fpu"}))
#: TFLite's single rounding of products of 64 bits.
SINGLE = Rescaling("requantize_single", {"multiplier": "int32", "shift": "int8"}, "_single")
#: gemmlowp's double rounding, by shifts of both directions, for results of 16 bits.
TFLM_ANY = Rescaling("requantize_tflm", {"multiplier": "int32", "shift": "int8"}, "_any")
#: TFLite's of int16 results, by factors of 15 bits times 2**15: the upper half of a product.
TFLM16_HIGH = Rescaling(
    "requantize_tflm16_high", {"multiplier": "int32", "shift": "int8"}, dtype="int16", is_down=True
)
#: The same by any factor.
TFLM16 = replace(TFLM16_HIGH, function="requantize_tflm16", is_wide=True)
#: Both of them for layers that change between int8 and int16, as in models of mixed values.
ONNX_TO_16 = replace(ONNX, stored="int16")
TFLM16_TO_8 = replace(TFLM16_HIGH, stored="int8")
#: None: kernels with one scale for all channels have it elsewhere.
SHARED = Rescaling("", {})
#: None at all: results are the sums.
SUMS = Rescaling("", {}, "_sums", stored="int32")

#: gemmlowp's as lines of floats, see `edgec.targets.common.kernels.lines`.
LINED = replace(TFLM, suffix="_lines")

#: The rescalings that products with results of 8 bits are registered for.
RESCALINGS = (TFLM, ONNX)
#: The rescalings of the products of PCs and Linux boards.
HOSTED = (*RESCALINGS, SINGLE)
