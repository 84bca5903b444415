"""The operator class: `Operator`'s traits, its lowering, and its names in file formats.

`edgec/ops/<op>.py` subclasses `Op` once for each operator and registers it; nothing else needs
to be edited to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from edgec.errors import ContractError, EdgecError, ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import AttrsT, Fusion, Operator, get_op
from edgec.graph.traits import IntegerForm, Interval, Operand
from edgec.graph.types import Array, Arrays, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.tape import Program
from edgec.numerics.fixed_point import Rounding
from edgec.numerics.narrow_float import stored_in
from edgec.ops.bodies import Inline, ReadBody
from edgec.ops.intervals import stored_sums
from edgec.ops.onnx_graph import OnnxGraph


@dataclass(frozen=True)
class SumParts:
    """The functions that sum rows as they come.

    start: (out: the accumulator). add: (x: one row, total: the accumulator, out: the same memory).
    finish: (total: the accumulator, out).
    """

    start: Lowering
    add: Lowering
    finish: Lowering


def loaded_op(name: str) -> Operator[Any]:
    """The operator of this name, in a process that may not have loaded any. Raises KeyError."""
    from edgec import ops

    ops.load()
    return get_op(name)


class Op(Operator[AttrsT]):
    """An operator with its lowering: one file of `edgec/ops/`, or one row of a table there.

    constant_inputs: positions of inputs that `lower` gets as constants, always.
    onnx_name: ONNX's operator that does the same, where it has no attributes. onnx_since: the
    first of ONNX's operator sets that has it, if it is a late one. onnx_of_stored: whether its form
    in ONNX takes quantized integers directly; None if its traits say so.
    """

    onnx_name: ClassVar[str] = ""
    onnx_since: ClassVar[int] = 1
    onnx_of_stored: ClassVar[bool | None] = None
    constant_inputs: ClassVar[tuple[int, ...]] = ()

    def __reduce__(self) -> tuple[Callable[[str], Operator[Any]], tuple[str]]:
        """Pickled by name: classes of table rows are made at run time."""
        return loaded_op, (self.name,)

    def evaluate(
        self, attrs: AttrsT, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """`lower`, read on arrays. Operators that NumPy computes much faster write their own."""
        if self.fusion is Fusion.VIEW:
            return (inputs[0].reshape(output_types[0].shape),)
        return lowered_results(self, attrs, inputs, input_types, output_types)

    def interval(
        self, attrs: AttrsT, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """Return the interval that inputs allow for sums of products; unknown for others."""
        return stored_sums(self.dot_products, attrs, operands, output)

    @property
    def has_onnx(self) -> bool:
        """Whether it has a form of its own in ONNX; others are written as their loops."""
        return bool(self.onnx_name) or type(self).write_onnx is not Op.write_onnx

    def has_onnx_of(self, node: Node) -> bool:
        """Whether that form means the same of a node's stored integers, if it has such."""
        data = [value for value in node.inputs if not isinstance(value, Constant)]
        is_kept = self.movement is not None or bool(node.bodies)
        is_kept |= self.integer_form in (IntegerForm.SHARED, IntegerForm.ORDER) and not self.clamps
        if self.onnx_of_stored is not None:
            is_kept = self.onnx_of_stored
        return self.has_onnx and (is_kept or all(value.type.quant is None for value in data))

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Write a node as ONNX: one of `onnx_name`, without attributes and in either order."""
        inputs, output, _ = out.tensors_of(node)
        out.emit(self.onnx_name, inputs, output)

    def lower_sum(self, node: Node, parts: SumParts) -> None:
        """Write an operator that `sums_rows` as three functions, with one accumulator."""
        raise NotImplementedError(f"{self.name} does not sum rows")

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Write the loops of one node and return the tensor it makes; views have none.

        inputs: a `Tensor` for each input, or the `Constant`, from which the operator makes its
        tables. An operator with several outputs writes all `target.targets` and returns the first.
        """
        raise NotImplementedError(f"{self.name} has no lowering")


def lowered_results(
    op: Op[AttrsT],
    attrs: AttrsT,
    inputs: Sequence[Array],
    input_types: Types,
    output_types: Types,
) -> tuple[Array, ...]:
    """The outputs of an operator by its loops, run on whole arrays at once."""
    known = [number for number in op.constant_inputs if number < len(inputs)]
    constants = tuple([inputs[number].tobytes() for number in known])
    find = _program if sum(map(len, constants)) > _MOST_KNOWN else _known_program
    program = find(op, attrs, tuple(input_types), tuple(output_types), constants)
    made = program.run(
        [
            array.view(_stored_in(type_.dtype)) if _stored_in(type_.dtype) else array
            for array, type_ in zip(inputs, input_types, strict=True)
        ]
    )
    return tuple(
        [
            array.view(type_.dtype) if _stored_in(type_.dtype) else array
            for array, type_ in zip(made, output_types, strict=True)
        ]
    )


def program_of(node: Node) -> Program:
    """The loops of a node as a program on arrays. Raises ImportFailed where they are not known."""
    op = op_of(node)
    constants = []
    for number in op.constant_inputs[: len(node.inputs)]:
        value = node.inputs[number] if number < len(node.inputs) else None
        if value is not None and not isinstance(value, Constant):
            raise ImportFailed(f"input {number} is not a constant")
        if isinstance(value, Constant):
            constants.append(value.data.tobytes())
    output_types = tuple(value.type for value in node.outputs)
    narrow = [t.dtype for t in (*node.input_types, *output_types) if _stored_in(t.dtype)]
    if narrow:
        raise ImportFailed(f"values of {narrow[0]}")
    return _program(op, node.attrs, tuple(node.input_types), output_types, tuple(constants))


@lru_cache
def _stored_in(dtype: str) -> str:
    """The dtype in which loops store another one, "" for itself."""
    stored = stored_in(dtype)
    return "" if stored == dtype else stored


def _program(
    op: Op[Any],
    attrs: Any,
    input_types: tuple[TensorType, ...],
    output_types: tuple[TensorType, ...],
    constants: tuple[bytes, ...],
) -> Program:
    """The loops of a node of its own, to be run on arrays; `constants` of its `constant_inputs`."""
    target = Lowering(op.name)
    known = dict(zip(op.constant_inputs, constants, strict=False))  # last ones may be absent
    operands: list[Tensor | Constant] = []
    for number, type_ in enumerate(input_types):
        if number in known:
            data = np.frombuffer(known[number], type_.dtype).reshape(type_.shape)
            operands.append(Constant(f"x{number}", type_, data=data))
        else:
            operands.append(target.input(f"x{number}", type_.shape, type_.dtype))
    values = tuple(Value(f"x{number}", type_) for number, type_ in enumerate(input_types))
    outputs = tuple(Value(f"y{number}", type_) for number, type_ in enumerate(output_types))
    target.targets = tuple(target.output(v.name, v.type.shape, v.type.dtype) for v in outputs)
    target.target = target.targets[0]
    if any(type_.elements for type_ in output_types):
        op.lower(Node(op, attrs, values, outputs, op.name), target, operands)
    given, made = ([value.name for value in each] for each in (values, outputs))
    return target.definition.program(given, made, target.tables)


#: The interpreter runs the same nodes for sample after sample.
_known_program = lru_cache(maxsize=2048)(_program)
#: Bytes of constants that are compared to find a program again.
_MOST_KNOWN = 1 << 20


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


def _no_body(name: str, given: Sequence[Any]) -> Any:
    raise ImportFailed(f"it has no {name}")


class NotConstant(ImportFailed):
    """A value that decides on shapes is computed when the model runs."""

    def __init__(self, message: str, value: Value | None) -> None:
        super().__init__(message)
        self.value = value


@dataclass(frozen=True)
class RawNode:
    """A node that a frontend passes to an operator's importer, without foreign types.

    kind: the format's own operator name ("CONV_2D", "Conv"). attributes: plain Python values (int,
    float, str, bool, tuple, ndarray). inputs, outputs: graph values or None where an optional
    tensor is absent; `output_types` are the file's declared types, if any. read_body, inline: of
    control flow, see `edgec.ops.bodies`. unsigned: the file has quantized values as uint8, which
    are int8 here.
    """

    kind: str
    name: str
    attributes: Mapping[str, Any]
    inputs: tuple[Value | None, ...]
    outputs: tuple[str, ...]
    output_types: tuple[TensorType | None, ...]
    opset: int = 0
    rounding: Rounding = "tflm"
    read_body: ReadBody = _no_body
    inline: Inline = _no_body
    unsigned: bool = False

    def optional(self, position: int) -> Value | None:
        """The input at this position, None where it is absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def operand(self, position: int) -> Value:
        """The input at this position. Raises ImportFailed where it is absent."""
        value = self.optional(position)
        if value is None:
            raise ImportFailed("an input is absent", details=(f"input {position}",))
        return value

    def operands(self, count: int | None = None) -> tuple[Value, ...]:
        """All inputs. Raises ImportFailed where one is absent, or there are not `count`."""
        if count is not None and len(self.inputs) != count:
            raise ImportFailed(f"{len(self.inputs)} inputs, {count} are needed")
        return tuple(self.operand(position) for position in range(len(self.inputs)))

    def constant(self, position: int, what: str) -> Constant:
        """The constant at this input; `what` names it in messages."""
        value = self.operand(position)
        if not isinstance(value, Constant):
            raise NotConstant(f"{what} must be a constant", value)
        return value

    def declared(self) -> TensorType:
        """The type that the file declares of the first output. ImportFailed if it has none."""
        if not self.output_types or self.output_types[0] is None:
            raise ImportFailed("the output has no type")
        return self.output_types[0]

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


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the first. Raises ImportFailed for one that there is not."""
    if not -rank <= axis < rank:
        raise ImportFailed(f"axis {axis} of an input of rank {rank}")
    return axis % rank


#: An importer returns the values of the node's outputs.
Importer = Callable[[GraphBuilder, RawNode], "tuple[Value, ...] | Value"]

_IMPORTERS: dict[str, dict[str, list[tuple[int, Importer]]]] = {
    "onnx": {},
    "tflite": {},
    "aten": {},
}

#: Importers of operators that a user declares.
_DECLARED: dict[tuple[str, str], Importer] = {}

#: TFLite's operators that take uint8 as numbers.
_PLAIN_BYTES: set[str] = set()

#: Exceptions that an importer raises by mistake for a node with too few inputs, an unknown type,
#: ...: only damaged files have such nodes, and frontends say so.
MALFORMED_NODE = (
    ValueError, IndexError, TypeError, AttributeError, KeyError, ArithmeticError, MemoryError,
)  # fmt: skip


def _importer(format_name: str, kind: str, since: int) -> Callable[[Importer], Importer]:
    def add(function: Importer) -> Importer:
        _IMPORTERS[format_name].setdefault(kind, []).append((since, function))
        _IMPORTERS[format_name][kind].sort(key=lambda entry: entry[0])
        return function

    return add


def from_onnx(kind: str, since: int = 1) -> Callable[[Importer], Importer]:
    """Register how ONNX names an operator, from this opset on."""
    return _importer("onnx", kind, since)


def from_tflite(kind: str, *, plain_bytes: bool = False) -> Callable[[Importer], Importer]:
    """Register how TFLite names an operator (the schema's BuiltinOperator name).

    plain_bytes: it takes uint8 as numbers even if they have a scale. All other importers get uint8
    with a scale as int8 (`edgec.frontends.tflite_bytes`).
    """
    if plain_bytes:
        _PLAIN_BYTES.add(kind)
    return _importer("tflite", kind, 0)


def reads_plain_bytes(kind: str) -> bool:
    """Whether a TFLite operator gets values of uint8 as the file has them."""
    return kind in _PLAIN_BYTES or ("tflite", kind) in _DECLARED


def find_importer(format_name: str, kind: str, opset: int = 0) -> Importer | None:
    """The importer for a source operator at this opset, or None."""
    chosen = _DECLARED.get((format_name, kind))
    for since, function in _IMPORTERS[format_name].get(kind, []):
        if since <= opset or format_name != "onnx":
            chosen = function
    return chosen


def declare_importer(format_name: str, kind: str, importer: Importer) -> None:
    """Make a user's operator known; the same kind again replaces it.

    Raises EdgecError for one that edgec has.
    """
    if kind in _IMPORTERS[format_name]:
        raise EdgecError(f"{kind} is an operator of edgec's own: give yours another name")
    _DECLARED[format_name, kind] = importer


def importer_kinds(format_name: str) -> tuple[str, ...]:
    """All source operator names of a format that can be imported."""
    return tuple(sorted(_IMPORTERS[format_name]))
