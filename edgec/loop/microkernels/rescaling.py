"""The ways in which product kernels turn their sums into int8.

Products do not depend on how their sums are rescaled: each kernel of products is registered once
for each way that there is C for, with the same sizes and the same meaning but for this step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgec.loop.define import Definition, Tensor
from edgec.loop.values import Value, int32, intrinsic


@dataclass(frozen=True, eq=False)
class Rescaling:
    """One way: `function` of an accumulator and its channel's entries in `tables`.

    tables: dtypes of constants with one entry for each channel, by their names in meanings and in
    what operators lower to. `suffix` tells the kernels' names apart, and `needs` is what a core
    must have besides what the products need.
    """

    function: str
    tables: Mapping[str, str]
    suffix: str = ""
    needs: frozenset[str] = frozenset()

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
        entries = [table[channel] for table in tables]
        return intrinsic(self.function, acc, *(_argument(entry) for entry in entries))

    def kernel(self, products: str, unit: str = "dsp") -> str:
        """The name of the kernel of these products with this rescaling."""
        return f"ec_{products}{self.suffix}_s8_{unit}"


def _argument(entry: Value) -> Value:
    return int32(entry) if entry.dtype == "int8" else entry


#: gemmlowp's double rounding, with shifts to the right only.
TFLM = Rescaling("requantize_tflm_right", {"multiplier": "int32", "shift": "int8"})
#: ONNX Runtime's, by floats.
ONNX = Rescaling("requantize_onnx", {"scale": "float32"}, "_onnx", frozenset({"fpu"}))
#: gemmlowp's double rounding, by shifts of both directions, for results of 16 bits.
TFLM_ANY = Rescaling("requantize_tflm", {"multiplier": "int32", "shift": "int8"}, "_any")
#: None: kernels whose channels share what they are rescaled by tell that elsewhere.
SHARED = Rescaling("", {})

#: Those that products with results of 8 bits are registered for.
RESCALINGS = (TFLM, ONNX)
