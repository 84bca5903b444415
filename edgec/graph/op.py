"""What an operator is: its attributes, type relation, exact meaning and lowering.

`edgec/ops/<op>.py` subclasses `Op` once for each operator and registers it; nothing else needs
to be edited to add one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from edgec.errors import EdgecError, ImportFailed
from edgec.graph.types import Array, TensorType

if TYPE_CHECKING:
    from edgec.graph.ir import Node

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


class Op(Generic[AttrsT]):
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
        """The exact meaning, in NumPy on `edgec.fixed_point`; C must equal it in every bit."""
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

    def lower_sum(self, node: Node, parts: Mapping[str, Any]) -> None:
        """Write an operator that `sums_rows` as three functions, with one accumulator.

        parts: a `Lowering` each for "start" (out: the accumulator), "add" (x: one row, total: the
        accumulator, out: the same memory) and "finish" (total: the accumulator, out).
        """
        raise NotImplementedError(f"{self.name} does not sum rows")

    def lower(self, node: Node, target: Any, inputs: Sequence[Any]) -> Any:
        """Write the loops of one node and return the tensor it makes; views have none.

        target: an `edgec.loop.lowering.Lowering`. inputs: for each input a `Tensor`, or the
        `Constant` itself, of which the operator makes the tables it wants. An operator with several
        outputs writes all of `target.targets` and returns the first.
        """
        raise NotImplementedError(f"{self.name} has no lowering")


def _same_kind(default: Any) -> tuple[type, ...]:
    """The types that may stand where a default of this type would."""
    if isinstance(default, (bool, int)):
        return (bool, int)
    return (float, int) if isinstance(default, float) else (type(default),)


@dataclass(frozen=True)
class RawNode:
    """What a frontend hands to an operator file: neutral, no foreign types.

    kind: the format's own operator name ("CONV_2D", "Conv"). attributes: plain Python values
    (int, float, str, bool, tuple, ndarray). inputs, outputs: graph values or None where an
    optional tensor is absent; `output_types` are the types that the file declares, if any.
    """

    kind: str
    name: str
    attributes: Mapping[str, Any]
    inputs: tuple[Any, ...]
    outputs: tuple[str, ...]
    output_types: tuple[TensorType | None, ...]
    opset: int = 0
    rounding: str = "tflm"

    def attribute(self, key: str, default: Any = None) -> Any:
        """An attribute of the source node, or the default.

        Raises ImportFailed if the file's value is of another kind than the default: a damaged
        file may hold a float where a list of integers belongs.
        """
        value = self.attributes.get(key, default)
        fits = default is None or isinstance(value, _same_kind(default))
        if isinstance(default, tuple) and isinstance(value, tuple):
            fits = all(isinstance(entry, int) for entry in value)
        if not fits:
            raise ImportFailed(f"attribute {key} is {value!r}, of type {type(value).__name__}")
        return value


#: An importer gets a `GraphBuilder` and the raw node and returns the values of its outputs.
Importer = Callable[[Any, RawNode], "tuple[Any, ...] | Any"]

_OPS: dict[str, Op[Any]] = {}
_IMPORTERS: dict[str, dict[str, list[tuple[int, Importer]]]] = {
    "onnx": {},
    "tflite": {},
    "aten": {},
}

#: What an importer raises by mistake for a node with too few inputs, of no known type, ...: only
#: damaged files have such nodes, and frontends say so.
MALFORMED_NODE = (ValueError, IndexError, TypeError, AttributeError, KeyError, ArithmeticError)

OpClass = TypeVar("OpClass", bound=type[Op[Any]])


def register(cls: OpClass) -> OpClass:
    """Class decorator: make an operator known by its name."""
    if cls.name in _OPS:
        raise EdgecError(f"operator {cls.name} is registered twice")
    _OPS[cls.name] = cls()
    return cls


def get_op(name: str) -> Op[Any]:
    """The operator of this name; KeyError if it is unknown. Call `edgec.ops.load` first."""
    return _OPS[name]


def all_ops() -> tuple[Op[Any], ...]:
    """Every registered operator, by name."""
    return tuple(_OPS[name] for name in sorted(_OPS))


def _importer(format_name: str, kind: str, since: int) -> Callable[[Importer], Importer]:
    def add(function: Importer) -> Importer:
        _IMPORTERS[format_name].setdefault(kind, []).append((since, function))
        _IMPORTERS[format_name][kind].sort(key=lambda entry: entry[0])
        return function

    return add


def from_onnx(kind: str, since: int = 1) -> Callable[[Importer], Importer]:
    """Register how ONNX names an operator, from this opset on."""
    return _importer("onnx", kind, since)


def from_tflite(kind: str) -> Callable[[Importer], Importer]:
    """Register how TFLite names an operator (the schema's BuiltinOperator name)."""
    return _importer("tflite", kind, 0)


def find_importer(format_name: str, kind: str, opset: int = 0) -> Importer | None:
    """The importer for a source operator at this opset, or None."""
    chosen = None
    for since, function in _IMPORTERS[format_name].get(kind, []):
        if since <= opset or format_name != "onnx":
            chosen = function
    return chosen


def importer_kinds(format_name: str) -> tuple[str, ...]:
    """All source operator names of a format that can be imported."""
    return tuple(sorted(_IMPORTERS[format_name]))
