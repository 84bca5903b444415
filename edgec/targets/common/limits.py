"""How the sums of a product become its results: rescaled, moved to a zero point, limited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.loop.ir import PrimFunc, Store
from edgec.loop.rescale_lines import Ending, ending_of
from edgec.loop.rewrite import statements
from edgec.targets.common.kernels.rescaling import (
    ONNX_TO_16,
    RESCALINGS,
    SUMS,
    TFLM,
    TFLM16_HIGH,
    TFLM16_TO_8,
    Rescaling,
)
from edgec.targets.common.nests import find_param

#: By the dtypes of inputs and results, and the function.
KNOWN = {
    (rescaling.dtype, rescaling.result, rescaling.function): rescaling
    for rescaling in (*RESCALINGS, TFLM16_HIGH, ONNX_TO_16, TFLM16_TO_8)
}


@dataclass(frozen=True)
class Limits:
    """The rescaling of sums, the zero point, and the range of the result.

    weights: the part of kernels' names for the storage of weights; slices: that share a shift.
    """

    zero_point: int
    minimum: int
    maximum: int
    rescaling: Rescaling = TFLM
    weights: str = ""
    slices: int = 0

    def kernel(self, products: str) -> str:
        """The name of the kernel of these products on vectors."""
        return self.rescaling.kernel(products + self.weights, "mve")

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers as microkernels call them; int16 has no zero points."""
        if self.rescaling is SUMS:
            return {}
        limits = {"minimum": self.minimum, "maximum": self.maximum}
        if self.slices:
            limits["slices"] = self.slices
        if self.rescaling.result == "int16":
            return limits
        return {"zero_point": self.zero_point, **limits}


def find_ending(func: PrimFunc) -> Ending | None:
    """The rescaling of a function's output; None unless each element is one rescaled number."""
    stores = [s for s in statements(func.body) if isinstance(s, Store) and s.buffer.name == "out"]
    return ending_of(stores[0]) if len(stores) == 1 else None


def find_limits(func: PrimFunc, more: Sequence[Rescaling] = ()) -> Limits | None:
    """The same, where vectors and the DSP extension know how to rescale, or with one of `more`;
    None elsewhere."""
    found = find_ending(func)
    if found is None:
        return None
    known = KNOWN | {(way.dtype, way.result, way.function): way for way in more}
    rescaling = known.get((find_param(func, "x").dtype, found.dtype, found.rounded.name))
    if rescaling is None:
        return None
    return Limits(found.zero_point, found.minimum, found.maximum, rescaling)
