"""TFLite to graph IR, on the plain data of `tflite_reader`.

TFLite gives operators no names: a node is named after the first tensor it computes, up to the
first `;` (the converter joins the names of fused nodes by it). Values keep the whole name and
the tensor's number in their `Origin`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import edgec.ops
from edgec.errors import EdgecError, ImportFailed, TooLarge
from edgec.frontends.imported import imported, is_made, mentions, put_in_place, require_open
from edgec.frontends.pauses import with_pauses
from edgec.frontends.tflite_bytes import Bytes, signed_type
from edgec.frontends.tflite_reader import (
    MAX_FILE_BYTES,
    Partition,
    RawModel,
    RawOperator,
    RawTensor,
    read_model,
)
from edgec.frontends.tflite_shapes import with_input_shapes
from edgec.frontends.tflite_sparse import densify
from edgec.frontends.tflite_variables import Variables, initial_fill
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Function, Module, Value
from edgec.graph.limits import DEFAULT_BUDGET, Budget, Spending
from edgec.graph.provenance import Origin
from edgec.graph.types import DTYPES, Array, Quant, TensorType
from edgec.numerics.fixed_point import Rounding
from edgec.ops.bodies import Body, given_value
from edgec.ops.op import MALFORMED_NODE, RawNode, find_importer, reads_plain_bytes
from edgec.ops.tflite_control import VARIABLE_KINDS

#: Larger tensors cannot be meant for a small machine; a damaged file may claim them.
MAX_TENSOR_BYTES = 1 << 30

#: The element type of complex numbers, which are pairs of floats in the graph.
COMPLEX = "COMPLEX64"

#: Operators that LiteRT computes differently from TFLite Micro, mostly with one rounding.
_ROUNDED_ONCE = ("FULLY_CONNECTED", "LOGISTIC", "RSQRT", "SUM", "TANH")
#: The rounding of each `match`, except for those operators.
_ROUNDING: dict[str, Rounding] = {"tflm": "tflm", "litert": "tflm", "onnx": "onnx"}

#: More unsupported operators than this are listed by kind.
MAX_PROBLEM_LINES = 20


def import_tflite(
    path: Path,
    *,
    match: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    budget: Budget = DEFAULT_BUDGET,
    partition: Partition | None = None,
) -> Module:
    """Read a TFLite file into a module whose `main` has the file's inputs and outputs.

    A batch dimension that the file leaves open (-1 in its shape signature) has the extent of the
    file's shape, 1. shapes: of inputs with open dimensions, by name, instead.

    match: which framework's rounding to equal, `tflm` (default), `litert` or `onnx`. LiteRT
    rounds FULLY_CONNECTED once, with a multiplier in double; `single` has 31 bits of it, which
    shows on about one in a thousand accumulators that are next to a tie.

    partition: replaces groups by operators of an accelerator.

    Raises ImportFailed for a file that cannot be read, is damaged, or has operators without an
    importer (all are listed).
    """
    if match not in (None, *_ROUNDING):
        raise ImportFailed(f"--match {match} is unknown", hint="use tflm, litert or onnx")
    data = read_file(path)
    model = with_input_shapes(read_model(data, path.name), shapes or {}, path.name)
    edgec.ops.load()
    spending = Spending(budget)

    def read(part: RawModel) -> Function:
        return _GraphImporter(path.name, part, match or "tflm", spending).run()

    function = read(model if partition is None else partition(model, data, read))
    return Module({"main": function}, source=path.name, format="tflite")


def read_file(path: Path) -> bytes:
    """The bytes of a model file; ImportFailed if it cannot be read or is too large."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ImportFailed(f"{path} is larger than 2 GiB")
        return path.read_bytes()
    except OSError as error:
        raise ImportFailed(f"cannot read {path}: {error.strerror}") from None


class _GraphImporter:
    """Imports one graph operator by operator, collecting what is unsupported."""

    def __init__(
        self,
        file: str,
        model: RawModel,
        match: str,
        spending: Spending,
        around: tuple[int, ...] = (),
        number: int = 0,
        builder: GraphBuilder | None = None,
    ) -> None:
        self.file = file
        self.model = model
        self.spending = spending
        self.around = (*around, number)  # the subgraphs that are being read
        self.graph = model.graphs[number]
        self.match = match
        self.builder = builder or GraphBuilder()
        self.values: dict[int, Value] = {}
        self.bytes = Bytes(self.builder)
        self.states: dict[int, Value] = {}  # of variable tensors
        self.unknown: set[int] = set()  # outputs of operators that could not be imported
        self.problems: list[tuple[str, str, str]] = []  # (kind, node name, why)
        self.names: set[str] = set()
        self.writers = self.find_writers()
        self.variables = Variables(model, self.builder)

    def run(self) -> Function:
        for number in self.graph.inputs:
            tensor = self.graph.tensors[number]
            try:
                type_ = tensor_type(tensor)
            except ImportFailed as failure:
                raise ImportFailed(
                    f"{self.file}: input {shown(tensor)}: {failure.message}", hint=failure.hint
                ) from None
            self.param(number, type_)
        results = self.results()
        if self.problems:
            count = len(self.problems)
            raise ImportFailed(
                f"{count} operator{'s' if count > 1 else ''} of {self.file}"
                f" {'are' if count > 1 else 'is'} not supported",
                details=problem_lines(self.problems),
                hint="`edgec ops` lists the supported operators; --custom-ops adds your own",
            )
        return self.builder.finish(with_pauses(self.builder, results))

    def param(self, number: int, given: TensorType | Array) -> None:
        """An input of the graph."""
        tensor = self.graph.tensors[number]
        if number in self.values:
            raise ImportFailed(f"{self.file}: tensor {number} is an input twice")
        value = given_value(self.builder, short_name(tensor), given)
        self.values[number] = replace(value, origin=self.origin(tensor))
        if self.builder.params and self.builder.params[-1] is value:
            self.builder.params[-1] = self.values[number]

    def results(self) -> list[Value]:
        """The values of the graph's outputs; empty if there are problems."""
        for operator in self.graph.operators:
            self.operator(operator)
        if self.problems:
            return []
        for number in self.graph.outputs:
            self.known(number)
            if number not in self.values and self.graph.tensors[number].data is not None:
                self.constant(number)
            if number not in self.values:
                raise ImportFailed(
                    f"{self.file}: output {shown(self.graph.tensors[number])} is never computed"
                )
            if self.graph.tensors[number].dtype == COMPLEX:
                raise ImportFailed(
                    f"{self.file}: output {shown(self.graph.tensors[number])} is complex",
                    hint="take its parts by REAL and IMAG",
                )
        return [self.values[number] for number in self.graph.outputs]

    def origin(self, tensor: RawTensor, shape: tuple[int, ...] | None = None) -> Origin:
        """Provenance of a tensor's value; only tensors of the main graph have a number."""
        found = origin(tensor, shape)
        return found if len(self.around) == 1 else replace(found, index=None)

    def read_body(
        self, numbers: dict[str, Any], name: str, given: Sequence[TensorType | Array]
    ) -> Body:
        """The subgraph that an attribute names, on inputs of these types."""
        number = numbers[name]
        if not 0 < number < len(self.model.graphs) or number in self.around:
            raise ImportFailed(f"its {name} is number {number} of {len(self.model.graphs)}")
        inner = _GraphImporter(
            self.file, self.model, self.match, self.spending, self.around, number,
            self.builder.inner(f"subgraph_{number}"),
        )  # fmt: skip
        if len(inner.graph.inputs) != len(given):
            raise ImportFailed(
                f"its {name} takes {len(inner.graph.inputs)} inputs, {len(given)} are given"
            )
        for tensor, each in zip(inner.graph.inputs, given, strict=True):
            inner.param(tensor, each)
        self.spending.work(0, len(inner.graph.operators), f"subgraph {number}")
        results = inner.results()
        if inner.problems:
            raise ImportFailed(f"in its {name}: {'; '.join(problem_lines(inner.problems))}")
        return Body(inner.builder, results)

    def find_writers(self) -> dict[int, int]:
        """The operator that computes each tensor; ImportFailed if two do or it is an input."""
        writers: dict[int, int] = {}
        for operator in self.graph.operators:
            for number in operator.outputs:
                tensor = self.graph.tensors[number]
                if number in writers or number in self.graph.inputs or tensor.data is not None:
                    raise ImportFailed(
                        f"{self.file}: operator {operator.index} ({operator.kind}) writes"
                        f" {shown(tensor)}, which is written already",
                        hint="the file is damaged",
                    )
                writers[number] = operator.index
        return writers

    def operator(self, operator: RawOperator) -> None:
        name = self.node_name(operator)
        try:
            self.append(operator, name)
        except _Skip:
            pass
        except TooLarge:
            raise
        except EdgecError as failure:
            self.problems.append((operator.kind, name, failure.message))
        except MALFORMED_NODE as failure:
            self.problems.append((operator.kind, name, f"it is malformed ({failure})"))
        else:
            return
        # Stand-ins, so that the operators after are checked as well.
        for number in operator.outputs:
            try:
                type_ = tensor_type(self.graph.tensors[number], computed=True)
            except ImportFailed:
                self.unknown.add(number)
            else:
                stand_in = self.builder.unique(short_name(self.graph.tensors[number]))
                self.values[number] = Value(stand_in, type_)

    def append(self, operator: RawOperator, name: str) -> None:
        if operator.kind in VARIABLE_KINDS and len(self.around) == 1:
            value = self.variables.run(operator, self.operand, tensor_type, origin)
            if value is not None:
                self.values[operator.outputs[0]] = value
            return
        importer = find_importer("tflite", operator.kind)
        if importer is None:
            raise ImportFailed(f"no importer for TFLite {operator.kind}")
        if operator.problem or not operator.outputs:
            raise ImportFailed(operator.problem or "it has no output")
        inputs, declared = self.types_of(operator)
        rounds_once = self.match == "litert" and operator.kind in _ROUNDED_ONCE
        raw = RawNode(
            kind=operator.kind,
            name=name,
            attributes=operator.attributes,
            inputs=inputs,
            outputs=tuple(self.graph.tensors[n].name for n in operator.outputs),
            output_types=declared,
            rounding="single" if rounds_once else _ROUNDING[self.match],
            read_body=partial(self.read_body, operator.attributes),
            unsigned=self.is_moved((*operator.inputs, *operator.outputs), operator.kind),
        )
        first = len(self.builder.nodes)
        made = imported(self.builder, raw, importer)
        require_open(self.builder, inputs, made)
        if len(made) != len(operator.outputs):
            raise ImportFailed(f"it has {len(operator.outputs)} outputs, not {len(made)}")
        uses = mentions(self.builder, first)
        for number, value, type_ in zip(operator.outputs, made, declared, strict=True):
            if not _fits(value.type, type_, self.graph.tensors[number].signature):
                raise ImportFailed(f"its output is {value.type}, the file declares {type_}")
            if value.type.nbytes > MAX_TENSOR_BYTES:
                raise ImportFailed(f"its output {value.type} is larger than 1 GiB")
            named = self.named(value, self.graph.tensors[number], uses)
            if type_ == tensor_type(self.graph.tensors[number], computed=True):
                self.values[number] = named
            else:
                self.bytes.add(number, named)
        for number in operator.inputs:
            before = self.states.get(number)
            if before is not None and (after := self.builder.next_of(before)) is not before:
                # The file's tensor holds the new value when the run has ended.
                named = self.named(after, self.graph.tensors[number], uses)
                self.builder.become(before, named)

    def types_of(
        self, operator: RawOperator
    ) -> tuple[tuple[Value | None, ...], tuple[TensorType, ...]]:
        """An operator's inputs and the types of its results; int8 in place of uint8."""
        declared = [tensor_type(self.graph.tensors[n], computed=True) for n in operator.outputs]
        if reads_plain_bytes(operator.kind):
            return tuple(self.operand(n, operator) for n in operator.inputs), tuple(declared)
        first = self.graph.tensors[operator.inputs[0]].dtype if operator.inputs else ""
        inputs = [
            self.bytes.signed(
                number, partial(self.operand, number, operator), is_hybrid=first == "FLOAT32"
            )
            for number in operator.inputs
        ]
        return tuple(inputs), tuple(signed_type(type_) for type_ in declared)

    def is_moved(self, numbers: Sequence[int], kind: str) -> bool:
        """Whether any of the tensors of an operator is uint8 in the file and int8 for it."""
        types = [tensor_type(self.graph.tensors[n], computed=True) for n in numbers if n >= 0]
        return not reads_plain_bytes(kind) and any(type_ != signed_type(type_) for type_ in types)

    def known(self, number: int) -> bool:
        """Whether a tensor has a value by now, which is then among `values`."""
        if number not in self.values and number in self.bytes:
            tensor = self.graph.tensors[number]
            type_ = tensor_type(tensor, computed=True)
            self.values[number] = self.bytes.unsigned(number, type_, self.origin(tensor))
        return number in self.values

    def operand(self, number: int, operator: RawOperator) -> Value | None:
        """The value of a tensor that an operator reads; constants are made at their first use."""
        if number < 0:
            return None
        if self.known(number):
            return self.values[number]
        if number in self.unknown:
            raise _Skip
        tensor = self.graph.tensors[number]
        if tensor.variable:
            type_ = tensor_type(tensor)
            data = initial_fill(type_)
            value = self.builder.state(short_name(tensor), type_, data)
            self.states[number] = self.values[number] = value
            return value
        if tensor.data is None:
            computed = number in self.writers
            raise ImportFailed(
                f"reads {shown(tensor)}, which only a later operator computes: the graph is"
                " cyclic or out of order"
                if computed
                else f"reads {shown(tensor)}, which nothing computes and which has no data"
            )
        return self.constant(number)

    def constant(self, number: int) -> Value:
        """The value of a tensor that has data."""
        tensor = self.graph.tensors[number]
        type_ = tensor_type(tensor)
        self.spending.take(type_.nbytes, short_name(tensor))
        array = constant_array(tensor, type_)
        value = self.builder.constant(short_name(tensor), array, type_.quant, self.origin(tensor))
        self.values[number] = value
        return value

    def node_name(self, operator: RawOperator) -> str:
        """The first output's short name, made unique among nodes."""
        base = operator.kind
        if operator.outputs:
            base = short_name(self.graph.tensors[operator.outputs[0]])
        name = base if base not in self.names else f"{base}#{operator.index}"
        self.names.add(name)
        return name

    def named(self, value: Value, tensor: RawTensor, uses: Mapping[Value, list[int]]) -> Value:
        """The value with the provenance of the tensor that it stands for."""
        if tensor.dtype == COMPLEX:
            return value  # pairs of parts are not tensors of the file
        is_moved = tensor.dtype == "UINT8" and value.type.dtype == "int8"
        origin = replace(self.origin(tensor, value.type.shape), is_moved=is_moved)
        if isinstance(value, Constant):
            return replace(value, origin=origin)
        if value in self.builder.undefined:
            return value
        fresh = Value(value.name, value.type, origin)
        if not is_made(self.builder, value, uses):
            return value
        put_in_place(self.builder, value, fresh, uses[value])
        self.builder.rename_next(value, fresh)
        return fresh


def constant_array(tensor: RawTensor, type_: TensorType) -> Array:
    """The elements of a constant as a copy: aligned, dense, and alive without the file."""
    assert tensor.data is not None
    if tensor.dtype == "INT4":
        return _unpacked_int4(tensor, type_)
    stored = np.dtype(type_.dtype).newbyteorder("<")
    if tensor.sparsity is None and tensor.data.size != type_.nbytes:
        raise ImportFailed(
            f"{shown(tensor)} needs {type_.nbytes} bytes, its buffer has {tensor.data.size}"
        )
    if tensor.data.size % stored.itemsize:
        raise ImportFailed(f"{shown(tensor)} ends inside of an element")
    data = np.frombuffer(tensor.data.tobytes(), stored).astype(type_.dtype)
    if tensor.sparsity is None:
        return data.reshape(type_.shape)
    try:
        return densify(data, type_.shape, tensor.sparsity)
    except ImportFailed as failure:
        raise ImportFailed(f"{shown(tensor)}: {failure.message}") from None


def _unpacked_int4(tensor: RawTensor, type_: TensorType) -> Array:
    """The numbers of an INT4 constant, two to a byte, the first in its low half."""
    assert tensor.data is not None
    wanted = -(-type_.elements // 2)
    if tensor.sparsity is not None or tensor.data.size != wanted:
        raise ImportFailed(
            f"{shown(tensor)} needs {wanted} bytes, its buffer has {tensor.data.size}"
        )
    halves = np.stack([tensor.data & 15, tensor.data >> 4], axis=-1).reshape(-1)[: type_.elements]
    return ((halves.astype(np.int8) ^ 8) - 8).reshape(type_.shape)


def problem_lines(problems: list[tuple[str, str, str]]) -> tuple[str, ...]:
    """One line for each (kind, node name, why), or for each (kind, why) where that is too much."""
    if len(problems) <= MAX_PROBLEM_LINES:
        return tuple(f'{kind}  node "{name}": {why}' for kind, name, why in problems)
    groups: dict[tuple[str, str], list[str]] = {}
    for kind, name, why in problems:
        groups.setdefault((kind, why), []).append(name)
    lines = []
    for (kind, why), names in groups.items():
        some = ", ".join(f'"{name}"' for name in names[:3]) + (" ..." if len(names) > 3 else "")
        plural = "s" if len(names) > 1 else ""
        lines.append(f"{kind}  {len(names)} node{plural} {some}: {why}")
    return tuple(lines)


class _Skip(Exception):
    """An operator reads the result of an unsupported one."""


def shown(tensor: RawTensor) -> str:
    """Name of a tensor in messages."""
    return (
        f'tensor {tensor.index} "{tensor.name[:80]}"' if tensor.name else f"tensor {tensor.index}"
    )


def short_name(tensor: RawTensor) -> str:
    """The name of a tensor up to the converter's first `;`, or its number."""
    return tensor.name.split(";", 1)[0][:200] or f"tensor_{tensor.index}"


def origin(tensor: RawTensor, shape: tuple[int, ...] | None = None) -> Origin:
    """Provenance of a tensor's value; its own `shape` if the file leaves that open."""
    return Origin(
        tensor.name or f"tensor {tensor.index}",
        tensor.shape if shape is None else shape,
        tensor.index,
    )


def _fits(made: TensorType, declared: TensorType, signature: tuple[int, ...]) -> bool:
    """Whether a type is the declared one, but for extents that the signature leaves open."""
    if len(made.shape) != len(declared.shape) or len(signature) != len(declared.shape):
        return made == declared
    shape = tuple(
        mine if open_ < 0 else extent
        for mine, extent, open_ in zip(made.shape, declared.shape, signature, strict=True)
    )
    return made == declared.with_shape(shape)


def tensor_type(tensor: RawTensor, *, computed: bool = False) -> TensorType:
    """The graph's type of a tensor; ImportFailed where the graph has none for it.

    computed: an operator computes it, so open extents follow from its inputs.
    """
    dtype = tensor.dtype.lower()
    if dtype == "int4" and tensor.data is not None:
        dtype = "int8"  # `edgec.loop.primitives.int4` halves what fits, wherever it comes from
    if tensor.dtype == COMPLEX and computed:
        return tensor_type(replace(tensor, dtype="FLOAT32", shape=(*tensor.shape, 2), signature=()),
                           computed=True)  # fmt: skip
    if dtype not in DTYPES:
        raise ImportFailed(f"{shown(tensor)} has the element type {tensor.dtype}")
    if tensor.signature and len(tensor.signature) != len(tensor.shape):
        raise ImportFailed(f"{shown(tensor)}: its shape signature has another rank")
    for axis, extent in enumerate(tensor.shape):
        dynamic = bool(tensor.signature) and tensor.signature[axis] < 0 and axis > 0
        if extent < 0 or (dynamic and not computed):
            raise ImportFailed(
                f"{shown(tensor)} has a dynamic shape (dimension {axis}): only fixed shapes are"
                " supported yet",
                hint="export the model with fixed shapes",
            )
        if extent == 0 and not (computed and tensor.signature and tensor.signature[axis] < 0):
            raise ImportFailed(f"{shown(tensor)} is empty: shape {list(tensor.shape)}")
    if math.prod(tensor.shape) * np.dtype(dtype).itemsize > MAX_TENSOR_BYTES:
        raise ImportFailed(f"{shown(tensor)} is larger than 1 GiB: shape {list(tensor.shape)}")
    return TensorType(tensor.shape, dtype, _quant(tensor, dtype))


def _quant(tensor: RawTensor, dtype: str) -> Quant | None:
    """Quantization of an integer tensor, checked."""
    raw = tensor.quant
    if raw is None or not np.issubdtype(np.dtype(dtype), np.integer):
        return None
    if raw.problem:
        raise ImportFailed(f"{shown(tensor)}: {raw.problem}")
    info = np.iinfo(dtype)
    if not all(math.isfinite(scale) and scale > 0 for scale in raw.scale):
        raise ImportFailed(f"{shown(tensor)} has a scale that is not a positive number")
    if not all(info.min <= zero_point <= info.max for zero_point in raw.zero_point):
        raise ImportFailed(f"{shown(tensor)} has a zero point outside of {dtype}")
    if len(raw.scale) == 1:
        return Quant(raw.scale, raw.zero_point)
    axis, rank = raw.axis, len(tensor.shape)
    if rank == 1:
        axis = 0  # old converters store a bias with the axis of its weights
    if not 0 <= axis < rank or tensor.shape[axis] != len(raw.scale):
        raise ImportFailed(
            f"{shown(tensor)}: {len(raw.scale)} scales along dimension {raw.axis} of"
            f" {list(tensor.shape)}"
        )
    return Quant(raw.scale, raw.zero_point, axis)
