"""What the graph knows of an operator: its attributes, type relation, exact meaning and traits.

`edgec.ops.op` adds how an operator lowers and how file formats name it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from edgec.errors import EdgecError
from edgec.graph.types import Array, TensorType

AttrsT = TypeVar("AttrsT")


class Fusion(enum.Enum):
    """How an operator may be fused with its neighbours (Relay's classes)."""

    ELEMENTWISE = "elementwise"  # one output element from the same element of each input
    BROADCAST = "broadcast"  # elementwise after broadcasting
    INJECTIVE = "injective"  # moves elements: transpose, slice, concat
    REDUCTION = "reduction"
    COMPLEX = "complex"  # has a fusible epilogue: convolution, dense
    VIEW = "view"  # the same bytes with another shape: no code at all
    OPAQUE = "opaque"


@dataclass(frozen=True)
class RowWindow:
    """Output row r reads the rows from r * stride - top on, `reach` of them, where they exist."""

    reach: int = 1
    stride: int = 1
    top: int = 0


@dataclass(frozen=True)
class NoAttrs:
    """Of an operator that has no attributes."""


class Operator(Generic[AttrsT]):
    """One operator of the graph IR. Subclasses are stateless and registered by `register`.

    tolerance: how far float results may be from the source framework's, for inputs that are the
    same, as a part of the tensor's largest magnitude; 0 for the same bits. Integers are always the
    same bits, and so are floats between our own engines.
    """

    name: ClassVar[str]
    attrs_class: ClassVar[type] = NoAttrs
    fusion: ClassVar[Fusion] = Fusion.OPAQUE
    tolerance: ClassVar[float] = 0.0

    def infer(self, attrs: AttrsT, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Type relation: output types, or TypeMismatch saying what does not fit."""
        raise NotImplementedError

    def evaluate(
        self,
        attrs: AttrsT,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """The exact meaning, on `edgec.numerics.fixed_point`; C must equal it in every bit."""
        raise NotImplementedError

    def macs(self, attrs: AttrsT, inputs: Sequence[TensorType]) -> int:
        """Multiply-accumulates of one run, as the field counts them (0 for most operators)."""
        return 0

    def tolerance_of(self, inputs: Sequence[TensorType]) -> float:
        """`tolerance`, or that of inputs of these types where it depends on them."""
        return self.tolerance

    def scale(self, attrs: AttrsT, *scales: float) -> float:
        """The magnitude that errors of float results are small beside, whatever the results are.

        0 where that is the largest of the results. scales: those of the inputs.
        """
        return max(scales, default=0.0) if self.fusion in (Fusion.VIEW, Fusion.INJECTIVE) else 0.0

    def row_window(self, attrs: AttrsT, inputs: Sequence[TensorType]) -> RowWindow | None:
        """Which rows of [N, H, W, C] inputs an output row is made of; None if it is not so made.

        The same for all inputs that are no constants.
        """
        return RowWindow() if self.fusion is Fusion.ELEMENTWISE else None

    def attrs_for_rows(self, attrs: AttrsT, top: int, bottom: int) -> AttrsT:
        """The attributes that make one output row of a slab of input rows.

        The slab has the rows of the window that exist; `top` and `bottom` are padding instead.
        """
        return attrs

    def sums_rows(self, attrs: AttrsT, inputs: Sequence[TensorType]) -> bool:
        """Whether the output is a sum over all rows of the only input, finished at the end."""
        return False


_OPS: dict[str, Operator[Any]] = {}

OpClass = TypeVar("OpClass", bound=type[Operator[Any]])


def register(cls: OpClass) -> OpClass:
    """Class decorator: make an operator known by its name."""
    if cls.name in _OPS:
        raise EdgecError(f"operator {cls.name} is registered twice")
    _OPS[cls.name] = cls()
    return cls


def get_op(name: str) -> Operator[Any]:
    """The operator of this name; KeyError if it is unknown. Call `edgec.ops.load` first."""
    return _OPS[name]


def all_ops() -> tuple[Operator[Any], ...]:
    """Every registered operator, by name."""
    return tuple(_OPS[name] for name in sorted(_OPS))
