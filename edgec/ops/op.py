"""What an operator is: all that `Operator` says, how it lowers, and how file formats name it.

`edgec/ops/<op>.py` subclasses `Op` once for each operator and registers it; nothing else needs
to be edited to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import ContractError, ImportFailed
from edgec.graph.ir import Node
from edgec.graph.operator import AttrsT, Operator
from edgec.graph.traits import Interval, Operand
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.intervals import stored_sums


@dataclass(frozen=True)
class SumParts:
    """The functions that sum rows as they come.

    start: (out: the accumulator). add: (x: one row, total: the accumulator, out: the same memory).
    finish: (total: the accumulator, out).
    """

    start: Lowering
    add: Lowering
    finish: Lowering


class Op(Operator[AttrsT]):
    """An operator with its lowering: one file of `edgec/ops/`, or one row of a table there."""

    def interval(
        self, attrs: AttrsT, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """Of sums of products, what their inputs allow; of others unknown."""
        return stored_sums(self.dot_products, attrs, operands, output)

    def lower_sum(self, node: Node, parts: SumParts) -> None:
        """Write an operator that `sums_rows` as three functions, with one accumulator."""
        raise NotImplementedError(f"{self.name} does not sum rows")

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """Write the loops of one node and return the tensor it makes; views have none.

        inputs: for each input a `Tensor`, or the
        `Constant` itself, of which the operator makes the tables it wants. An operator with several
        outputs writes all of `target.targets` and returns the first.
        """
        raise NotImplementedError(f"{self.name} has no lowering")


def op_of(node: Node) -> Op[Any]:
    """The operator of a node, with its lowering. Raises ContractError where it has none."""
    if not isinstance(node.op, Op):
        raise ContractError(f"{node.op.name} of node {node.name!r} has no lowering")
    return node.op


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

_IMPORTERS: dict[str, dict[str, list[tuple[int, Importer]]]] = {
    "onnx": {},
    "tflite": {},
    "aten": {},
}

#: What an importer raises by mistake for a node with too few inputs, of no known type, ...: only
#: damaged files have such nodes, and frontends say so.
MALFORMED_NODE = (ValueError, IndexError, TypeError, AttributeError, KeyError, ArithmeticError)


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
