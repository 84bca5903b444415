"""A small writer of TFLite files, so that tests need no sample models.

    model = TfliteBuilder()
    x = model.tensor("x", (1, 8), "int8", scale=0.1, zero_point=3)
    y = model.tensor("y", (2, 4), "int8", scale=0.1, zero_point=3)
    model.operator("RESHAPE", [x], [y])
    data = model.build([x], [y])

Nothing is checked: tests also write files that are wrong.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
import tflite
from flatbuffers import flexbuffers

_SECOND = tflite.BuiltinOptions2
#: What this package does not have, by LiteRT's own schema: numbers of operators, and of options.
NEWER_KINDS, NEWER_TABLES = {"STABLEHLO_CASE": 209}, {"StablehloCaseOptions": 23}
#: Data of constants is aligned as the schema asks (force_align: 16).
ALIGNMENT = 16


class TfliteBuilder:
    """Collects tensors and operators of the main subgraph, and of others, and writes them."""

    def __init__(self, version: int = 3) -> None:
        self.version = version
        self.buffers: list[bytes] = [b""]
        self.tensors: list[dict[str, Any]] = []
        self.codes: list[tuple[int, str]] = []
        self.operators: list[dict[str, Any]] = []
        self.others: list[TfliteBuilder] = []
        self.ends: tuple[Sequence[int], Sequence[int]] = ([], [])

    def subgraph(self) -> TfliteBuilder:
        """Add a subgraph; the first one has number 1. `ends` are its inputs and outputs."""
        other = TfliteBuilder(self.version)
        other.buffers, other.codes = self.buffers, self.codes
        self.others.append(other)
        return other

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        *,
        scale: float | Sequence[float] = (),
        zero_point: int | Sequence[int] | None = None,
        axis: int = 0,
        data: np.ndarray | bytes | None = None,
        signature: Sequence[int] | None = None,
        buffer: int | None = None,
        variable: bool = False,
    ) -> int:
        """Add a tensor and return its number. `data` makes it a constant; `buffer` sets its
        buffer number outright."""
        scales = [float(v) for v in np.atleast_1d(np.asarray(scale, np.float32))]
        points = (
            [0] * len(scales) if zero_point is None else [int(v) for v in np.atleast_1d(zero_point)]
        )
        if buffer is None:
            buffer = len(self.buffers)
            raw = b"" if data is None else data if isinstance(data, bytes) else data.tobytes()
            self.buffers.append(raw)
        self.tensors.append(
            {
                "name": name, "shape": list(shape), "signature": signature, "dtype": dtype,
                "scale": scales, "zero_point": points, "axis": axis, "buffer": buffer,
                "variable": variable,
            }
        )  # fmt: skip
        return len(self.tensors) - 1

    def operator(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str = "",
        custom_options: bytes | None = None,
        **fields: Any,
    ) -> None:
        """Add an operator; `options` names its table ("Conv2DOptions"), `fields` its fields.

        A kind `CUSTOM:Name` is a custom operator; its options are `custom_options`, or else the
        map `fields`.
        """
        base, _, custom = kind.partition(":")
        code = (NEWER_KINDS.get(base) or getattr(tflite.BuiltinOperator, base), custom)
        if code not in self.codes:
            self.codes.append(code)
        self.operators.append(
            {
                "code": self.codes.index(code), "inputs": list(inputs), "outputs": list(outputs),
                "options": options, "fields": fields,
                "custom": bytes(flexbuffers.Dumps(fields)) if custom and fields else custom_options,
            }
        )  # fmt: skip

    def build(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The bytes of the file."""
        b = flatbuffers.Builder(1 << 12)
        buffers = [self._buffer(b, raw) for raw in self.buffers]
        codes = [self._code(b, *entry) for entry in self.codes]
        graphs = [self._graph(b, inputs, outputs), *(o._graph(b, *o.ends) for o in self.others)]
        model = self._table(
            b, "Model",
            Version=self.version, OperatorCodes=_offsets(b, codes), Subgraphs=_offsets(b, graphs),
            Description=b.CreateString("edgec test"), Buffers=_offsets(b, buffers),
        )  # fmt: skip
        b.Finish(model, file_identifier=b"TFL3")
        return bytes(b.Output())

    def _graph(self, b: Any, inputs: Sequence[int], outputs: Sequence[int]) -> int:
        tensors = [self._tensor(b, entry) for entry in self.tensors]
        operators = [self._operator(b, entry) for entry in self.operators]
        return self._table(
            b, "SubGraph",
            Tensors=_offsets(b, tensors), Inputs=_ints(b, inputs), Outputs=_ints(b, outputs),
            Operators=_offsets(b, operators), Name=b.CreateString("graph"),
        )  # fmt: skip

    def _buffer(self, b: Any, raw: bytes) -> int:
        if not raw:
            return self._table(b, "Buffer")
        b.StartVector(1, len(raw), ALIGNMENT)
        b.head -= len(raw)
        b.Bytes[b.head : b.head + len(raw)] = raw
        return self._table(b, "Buffer", Data=b.EndVector())

    def _tensor(self, b: Any, entry: dict[str, Any]) -> int:
        fields: dict[str, Any] = {"Name": b.CreateString(entry["name"])}
        if entry["scale"]:
            fields["Quantization"] = self._table(
                b, "QuantizationParameters",
                Scale=_vector(b, entry["scale"], 4, b.PrependFloat32),
                ZeroPoint=_vector(b, entry["zero_point"], 8, b.PrependInt64),
                QuantizedDimension=entry["axis"],
            )  # fmt: skip
        if entry["signature"] is not None:
            fields["ShapeSignature"] = _ints(b, entry["signature"])
        fields["Shape"] = _ints(b, entry["shape"])
        return self._table(
            b, "Tensor",
            Type=getattr(tflite.TensorType, entry["dtype"].upper()), Buffer=entry["buffer"],
            IsVariable=entry["variable"], **fields,
        )  # fmt: skip

    def _code(self, b: Any, builtin: int, custom: str) -> int:
        fields = {"CustomCode": b.CreateString(custom)} if custom else {}
        return self._table(
            b, "OperatorCode",
            DeprecatedBuiltinCode=min(builtin, 127), BuiltinCode=builtin, Version=1, **fields,
        )  # fmt: skip

    def _operator(self, b: Any, entry: dict[str, Any]) -> int:
        fields: dict[str, Any] = {}
        if entry["custom"] is not None:
            fields["CustomOptions"] = b.CreateByteVector(entry["custom"])
        if entry["options"]:
            newer = entry["options"] in NEWER_TABLES
            is_second = newer or hasattr(_SECOND, entry["options"])
            union = "BuiltinOptions2" if is_second else "BuiltinOptions"
            fields[union] = self._table(b, entry["options"], **{
                field: _field(b, value) for field, value in entry["fields"].items()
            })  # fmt: skip
            fields[f"{union}Type"] = (
                NEWER_TABLES[entry["options"]]
                if newer
                else getattr(getattr(tflite, union), entry["options"])
            )
        return self._table(
            b, "Operator",
            OpcodeIndex=entry["code"], Inputs=_ints(b, entry["inputs"]),
            Outputs=_ints(b, entry["outputs"]), **fields,
        )  # fmt: skip

    def _table(self, b: Any, name: str, **fields: Any) -> int:
        """Write one table by the generated Start, Add and End functions."""
        if name in NEWER_TABLES:
            b.StartObject(len(fields))
            for slot, value in enumerate(fields.values()):
                b.PrependUOffsetTRelativeSlot(slot, value, 0)
            return b.EndObject()
        module = importlib.import_module(f"tflite.{name}")
        getattr(module, f"{name}Start")(b)
        for field, value in fields.items():
            getattr(module, f"{name}Add{field}")(b, value)
        return getattr(module, f"{name}End")(b)


def _field(b: Any, value: Any) -> Any:
    """Text and arrays of float32 or int64 are written before the table that has them."""
    if isinstance(value, str):
        return b.CreateString(value)
    return b.CreateNumpyVector(value) if isinstance(value, np.ndarray) else value


def _vector(b: Any, values: Sequence[Any], size: int, prepend: Any) -> int:
    b.StartVector(size, len(values), size)
    for value in reversed(values):
        prepend(value)
    return b.EndVector()


def _ints(b: Any, values: Sequence[int]) -> int:
    return _vector(b, list(values), 4, b.PrependInt32)


def _offsets(b: Any, values: Sequence[int]) -> int:
    return _vector(b, list(values), 4, b.PrependUOffsetTRelative)
