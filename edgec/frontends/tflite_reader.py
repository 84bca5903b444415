"""Bounds-checked reading of a TFLite flatbuffer into plain data.

Flatbuffers has no verifier in Python, so this is the only place that touches the generated
classes: every length is compared with the file before anything of that length is read, the sum
of all that is read is limited, and whatever a damaged offset makes the generated code raise
becomes one ImportFailed that says where.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.custom_options import decode_custom_options
from edgec.frontends.flat_table import with_fast_fields
from edgec.frontends.tflite_hlo_options import NEWER_KINDS
from edgec.frontends.tflite_options import decode_options
from edgec.frontends.tflite_sparse import SparseLevel, Sparsity
from edgec.graph.ir import Function
from edgec.graph.types import Array

#: Bytes 4 to 8 of every TFLite file.
IDENTIFIER = b"TFL3"

#: The address limit of a flatbuffer: its offsets are signed 32-bit integers.
MAX_FILE_BYTES = 2**31 - 1

#: Exceptions of the generated classes when an offset or length leads outside of the file.
_DAMAGE = (struct.error, TypeError, ValueError, IndexError, OverflowError)


@dataclass(frozen=True)
class RawQuant:
    """Quantization as the file has it; `problem` says why it cannot be used."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int
    problem: str = ""


@dataclass(frozen=True)
class RawTensor:
    """A tensor as the file has it.

    dtype: the schema's TensorType name ("INT8"). data: the bytes of a constant, else None.
    variable: it keeps its value from one run to the next. sparsity: how the elements of a constant
    are stored, None if all are.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    dtype: str
    quant: RawQuant | None
    data: Array | None
    variable: bool = False
    sparsity: Sparsity | None = None


@dataclass(frozen=True)
class RawOperator:
    """An operator as the file has it: `kind` is the schema's BuiltinOperator name.

    problem: why its options cannot be used.
    """

    index: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Any]
    problem: str = ""


@dataclass(frozen=True)
class RawGraph:
    """One subgraph of a file. All tensor numbers are in range; -1 is an absent tensor."""

    tensors: tuple[RawTensor, ...]
    operators: tuple[RawOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class RawModel:
    """All subgraphs of a file, the main one first."""

    graphs: tuple[RawGraph, ...]

    @property
    def main(self) -> RawGraph:
        """The subgraph that an inference runs."""
        return self.graphs[0]


#: Reads a model's main graph as a function.
Meaning = Callable[[RawModel], Function]
#: Replaces groups by operators of an accelerator: from a model and its file's bytes to the readers
#: of groups.
Partition = Callable[[RawModel, bytes, Meaning], RawModel]


def metadata(data: bytes, name: str) -> bytes:
    """The data of a valid TFLite file's metadata entry; empty if there is none."""
    from tflite.Model import Model

    model = Model.GetRootAs(data)
    for position in range(model.MetadataLength()):
        entry = model.Metadata(position)
        if entry.Name() == name.encode():
            return bytes(model.Buffers(entry.Buffer()).DataAsNumpy())
    return b""


def read_model(data: bytes, file: str) -> RawModel:
    """Read the bytes of a TFLite file; `file` is its name for messages.

    Raises ImportFailed for anything that is not a whole and sound TFLite file.
    """
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise ImportFailed(
            f"{file} is not a TFLite model: it has no {IDENTIFIER.decode()} identifier",
            hint="the file may be truncated or of another format",
        )
    if len(data) > MAX_FILE_BYTES:
        raise ImportFailed(f"{file} is larger than a flatbuffer can be (2 GiB)")
    reader = _Reader(data)
    try:
        return reader.model()
    except _Damaged as damage:
        reason = str(damage)
    except _DAMAGE:
        reason = "an offset leads outside of the file"
    raise ImportFailed(
        f"{file} is damaged at its {reader.where}: {reason}",
        hint="the file may be truncated; fetch or export it again",
    )


class _Damaged(Exception):
    """The file contradicts itself; the text says how."""


class _Reader:
    """Walks the tables. `where` names the part being read, for messages."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.where = "header"
        # Overlapping vectors could make a small file stand for quadratic work.
        self.budget = 8 * len(data) + (1 << 16)

    def spend(self, count: int, item_bytes: int) -> int:
        """`count`, after checking that this many items can be in this file."""
        size = count * item_bytes
        if size > len(self.data):
            raise _Damaged(f"{count} items of {item_bytes} bytes in a file of {len(self.data)}")
        self.budget -= size
        if self.budget < 0:
            raise _Damaged("its parts overlap")
        return count

    def vector(self, table: Any, field: str, item_bytes: int) -> Array:
        """A vector of numbers, empty if it is absent."""
        count = self.spend(getattr(table, f"{field}Length")(), item_bytes)
        if not count:
            return np.empty(0, np.int64)
        array: Array = getattr(table, f"{field}AsNumpy")()
        return array

    def integers(self, table: Any, field: str, item_bytes: int = 4) -> tuple[int, ...]:
        return tuple(self.vector(table, field, item_bytes).tolist())

    def tables(self, table: Any, field: str, what: str) -> Iterator[Any]:
        """The tables of a vector, one after the other."""
        count = self.spend(getattr(table, f"{field}Length")(), 4)
        for index in range(count):
            self.where = f"{what} {index}"
            yield with_fast_fields(getattr(table, field)(index))

    def text(self, raw: bytes | None) -> str:
        """A string without characters that would disturb a terminal or a listing."""
        raw = raw or b""
        self.spend(len(raw), 1)
        decoded = raw.decode("utf-8", "replace")
        if decoded.isprintable() and '"' not in decoded:
            return decoded
        return "".join(c if c.isprintable() and c != '"' else "?" for c in decoded)

    def model(self) -> RawModel:
        from tflite.BuiltinOperator import BuiltinOperator
        from tflite.Model import Model
        from tflite.TensorType import TensorType

        operator_names = {**NEWER_KINDS, **_names(BuiltinOperator)}
        type_names = _names(TensorType)
        model = with_fast_fields(Model.GetRootAs(self.data, 0))
        if model.Version() != 3:
            raise _Damaged(f"schema version {model.Version()}, not 3")
        kinds = []
        for code in self.tables(model, "OperatorCodes", "operator code"):
            number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
            kind = operator_names.get(number, f"operator {number}")
            if kind == "CUSTOM":
                kind = f"CUSTOM:{self.text(code.CustomCode())}"
            kinds.append(kind)
        buffers = [self.buffer(buffer) for buffer in self.tables(model, "Buffers", "buffer")]
        self.where = "subgraphs"
        if self.spend(model.SubgraphsLength(), 4) < 1:
            raise _Damaged("it holds no graph")
        graphs = tuple(
            self.graph(graph, buffers, kinds, type_names)
            for graph in self.tables(model, "Subgraphs", "subgraph")
        )
        if not graphs[0].operators or not graphs[0].outputs:
            raise _Damaged("its graph has no operators or no outputs")
        return RawModel(graphs)

    def graph(
        self, graph: Any, buffers: list[Array | None], kinds: list[str], type_names: dict[int, str]
    ) -> RawGraph:
        tensors = tuple(
            self.tensor(index, tensor, buffers, type_names)
            for index, tensor in enumerate(self.tables(graph, "Tensors", "tensor"))
        )
        operators = tuple(
            self.operator(index, operator, kinds, len(tensors))
            for index, operator in enumerate(self.tables(graph, "Operators", "operator"))
        )
        self.where = "inputs and outputs"
        inputs, outputs = (
            self.tensor_numbers(graph, field, len(tensors)) for field in ("Inputs", "Outputs")
        )
        if min((*inputs, *outputs), default=0) < 0:
            raise _Damaged("an input or output of the model is absent")
        return RawGraph(tensors, operators, inputs, outputs)

    def buffer(self, buffer: Any) -> Array | None:
        if buffer.Offset() > 1 or buffer.Size() > 1:
            raise _Damaged("its data lies outside of the flatbuffer, which is not supported")
        data = self.vector(buffer, "Data", 1)
        return data if data.size else None

    def tensor(
        self, index: int, tensor: Any, buffers: list[Array | None], type_names: dict[int, str]
    ) -> RawTensor:
        number = tensor.Buffer()
        if number >= len(buffers):
            raise _Damaged(f"buffer {number} of {len(buffers)}")
        sparsity = tensor.Sparsity()
        return RawTensor(
            index=index,
            name=self.text(tensor.Name()),
            shape=self.integers(tensor, "Shape"),
            signature=self.integers(tensor, "ShapeSignature"),
            dtype=type_names.get(tensor.Type(), f"type {tensor.Type()}"),
            quant=self.quant(tensor.Quantization()),
            data=buffers[number],
            variable=bool(tensor.IsVariable()),
            sparsity=None if sparsity is None else self.sparsity(sparsity),
        )

    def sparsity(self, table: Any) -> Sparsity:
        levels = []
        for metadata in self.tables(table, "DimMetadata", "sparse dimension"):
            if metadata.Format() == 0:
                levels.append(SparseLevel(metadata.DenseSize()))
                continue
            segments = self.packed(metadata.ArraySegmentsType(), metadata.ArraySegments())
            indices = self.packed(metadata.ArrayIndicesType(), metadata.ArrayIndices())
            levels.append(SparseLevel(0, segments, indices))
        order, blocks = (self.integers(table, field) for field in ("TraversalOrder", "BlockMap"))
        return Sparsity(order, blocks, tuple(levels))

    def packed(self, kind: int, table: Any) -> Array:
        """The numbers of a SparseIndexVector."""
        from tflite.Int32Vector import Int32Vector
        from tflite.Uint8Vector import Uint8Vector
        from tflite.Uint16Vector import Uint16Vector

        classes = {1: (Int32Vector, 4), 2: (Uint16Vector, 2), 3: (Uint8Vector, 1)}
        if kind not in classes or table is None:
            raise _Damaged(f"sparse indices of kind {kind}")
        found, item_bytes = classes[kind]
        vector = found()
        vector.Init(table.Bytes, table.Pos)
        return self.vector(vector, "Values", item_bytes)

    def quant(self, quant: Any) -> RawQuant | None:
        if quant is None:
            return None
        quant = with_fast_fields(quant)
        scale = self.vector(quant, "Scale", 4)
        if not scale.size:
            return None
        zero_point = self.integers(quant, "ZeroPoint", 8) or (0,) * scale.size
        problem = ""
        if quant.DetailsType():
            problem = "custom quantization is not supported"
        elif len(zero_point) != scale.size:
            problem = f"{scale.size} scales but {len(zero_point)} zero points"
        # float32 values, held exactly by Python's floats.
        with np.errstate(invalid="ignore"):  # a NaN is refused later
            scales = tuple(float(value) for value in scale.astype(np.float64))
        return RawQuant(scales, zero_point, quant.QuantizedDimension(), problem)

    def operator(
        self, index: int, operator: Any, kinds: list[str], tensor_count: int
    ) -> RawOperator:
        number = operator.OpcodeIndex()
        if number >= len(kinds):
            raise _Damaged(f"operator code {number} of {len(kinds)}")
        inputs, outputs = (
            self.tensor_numbers(operator, field, tensor_count) for field in ("Inputs", "Outputs")
        )
        if min(outputs, default=0) < 0:
            raise _Damaged("an output is absent")
        problem = ""
        attributes: dict[str, Any] = {}
        try:
            if kinds[number].startswith("CUSTOM:"):
                attributes = decode_custom_options(
                    self.vector(operator, "CustomOptions", 1).astype(np.uint8).tobytes(),
                    kinds[number].removeprefix("CUSTOM:"),
                )
            else:
                attributes = decode_options(kinds[number], operator)
        except ImportFailed as failure:
            problem = failure.message
        return RawOperator(index, kinds[number], inputs, outputs, attributes, problem)

    def tensor_numbers(self, table: Any, field: str, tensor_count: int) -> tuple[int, ...]:
        numbers = self.integers(table, field)
        for number in numbers:
            if not -1 <= number < tensor_count:
                raise _Damaged(f"tensor {number} of {tensor_count}")
        return numbers


def _names(enumeration: type) -> dict[int, str]:
    """Name of each number of a generated enumeration."""
    return {number: name for name, number in vars(enumeration).items() if not name.startswith("_")}
