"""Traits of operators: the facts that passes, quantizer, memory and writers use.

`Operator` has defaults by family; `edgec/ops/<op>.py` sets the others.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.graph.types import Array, Quant, TensorType
from edgec.numerics.fixed_point import Rounding

Ends = npt.NDArray[np.int64]
#: (low, high) of stored integers, each with one entry per index of the last axis.
Interval = tuple[Ends, Ends]


class Storage(enum.Enum):
    """An operator's relation between real numbers and the integers that store them."""

    QUANTIZE = enum.auto()  # real numbers to integers
    DEQUANTIZE = enum.auto()  # integers to real numbers
    REQUANTIZE = enum.auto()  # integers, or sums of products, to integers of other parameters
    REINTERPRET = enum.auto()  # the same integers with other parameters
    TABULATE = enum.auto()  # the result of each integer from a table
    QUANTIZE_ROWS = enum.auto()  # real numbers to integers, with a scale that each run computes
    RESCALE_ROWS = enum.auto()  # sums of products of such integers to real numbers


class Movement(enum.Enum):
    """An operator's way to move elements without changing them."""

    RESHAPE = enum.auto()  # another shape of the same elements in the same order
    PERMUTE = enum.auto()  # another order of axes: `attrs.permutation`
    JOIN = enum.auto()  # the operands one after another along `attrs.axis`
    PART = enum.auto()  # some of the elements, at places that the attributes say
    PICK = enum.auto()  # some of the elements, at places that the second operand says
    PAD = enum.auto()  # all elements, with `attrs.padding` of `attrs.value` around them
    COPY = enum.auto()  # the same elements in a place of their own
    PUSH = enum.auto()  # the first operand moves by one place, the second is appended


class Arithmetic(enum.Enum):
    """The function of an operator of two operands."""

    SUM = enum.auto()
    DIFFERENCE = enum.auto()
    PRODUCT = enum.auto()
    QUOTIENT = enum.auto()


class IntegerForm(enum.Enum):
    """The quantizer's rule to turn an operator on floats into one on integers."""

    PRODUCTS = enum.auto()  # sums of products with constant weights, which are then requantized
    OPERANDS = enum.auto()  # operands and result have parameters of their own
    MATRICES = enum.auto()  # sums of products of two operands, which are then requantized
    ONE_OPERAND = enum.auto()  # one operand and the result have parameters of their own
    MEAN = enum.auto()  # a mean: of one operand, with parameters of its own
    SHARED = enum.auto()  # elements are moved or chosen: the result has its operands' parameters
    ORDER = enum.auto()  # only the order of elements matters; their integers have the same order
    RECURRENT = enum.auto()  # an LSTM or GRU over a sequence


class Channels(enum.Enum):
    """Which input channels (indices of the last axis) an output channel depends on."""

    SAME = enum.auto()  # the same one, of every operand
    REPEATED = enum.auto()  # c modulo the input's channels: whole axes are flattened into the last
    JOINED = enum.auto()  # the operands' channels follow one another
    MIXED = enum.auto()  # the channels whose weights are not zero
    UNKNOWN = enum.auto()


@dataclass(frozen=True)
class Products:
    """An operator that sums products of its first operand with weights, and adds a bias.

    The weights are the second operand, the bias is the third. outputs: the axis of output channels
    in the weights. inputs: the axis of input channels; None if an output channel reads one input
    channel. window: the axes of a window's height and width. scatters: each input is added to a
    window of outputs, instead of each output being the sum of a window of inputs.
    """

    outputs: int
    inputs: int | None
    window: tuple[int, ...] = ()
    scatters: bool = False

    @property
    def is_depthwise(self) -> bool:
        """Whether each output channel reads one input channel alone."""
        return self.inputs is None


@dataclass(frozen=True)
class Operand:
    """The facts about an input. data: of a constant. interval: of stored integers, if known."""

    type: TensorType
    data: Array | None = None
    interval: Interval | None = None

    def ends(self, channels: int) -> Interval | None:
        """The interval of each of this many output channels; one that is broadcast serves all.

        Of integers only: floats have no stored integers.
        """
        if not self.type.shape or self.type.is_float:
            return None
        known = self.interval
        if self.data is not None:
            rows = self.data.reshape(-1, self.type.shape[-1]).astype(np.int64)
            known = rows.min(axis=0), rows.max(axis=0)
        if known is None or len(known[0]) not in (1, channels):
            return None
        low, high = (np.broadcast_to(end, channels) for end in known)
        return low, high


@dataclass(frozen=True)
class StoredAs:
    """Storage of a result in integers: quantization, bounds, rounding."""

    quant: Quant
    dtype: str
    minimum: int
    maximum: int
    rounding: Rounding

    @property
    def is_whole(self) -> bool:
        """Whether the bounds are the dtype's own."""
        bounds = np.iinfo(self.dtype)
        return (self.minimum, self.maximum) == (int(bounds.min), int(bounds.max))

    def stored(self, real: float) -> int:
        """The stored integer of a real number, within the bounds."""
        return stored_number(real, self.quant, self.minimum, self.maximum)


def stored_number(real: float, quant: Quant, low: int, high: int) -> int:
    """The stored integer of a real number, per tensor, within low..high."""
    # A bound may be the largest finite float: saturate before the conversion.
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.rint(np.float32(real) / np.float32(quant.scale[0]))
    return int(np.clip(np.nan_to_num(steps) + quant.zero_point[0], low, high))


def padded(attrs: Any) -> bool:
    """Whether a window with these attributes reads beyond the edges of its input."""
    return any(any(pair) for pair in getattr(attrs, "padding", ()))
