"""Reads an ONNX file, with the tensors that lie in other files of its folder.

PyTorch's exporter writes weights to `model.onnx.data` by default. Such a file is opened only if it
is a regular file inside the model's own folder, after symbolic links are followed, and holds as
many bytes as the tensor has. ONNX Runtime, which would open any path, gets the data read here. So
every place that can hold a tensor is checked: initializers (dense and sparse), attributes,
subgraphs, functions, training information.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgec.errors import ImportFailed, TooLarge

#: The message that holds a tensor, and its `data_location` for data in another file.
TENSOR = "onnx.TensorProto"
EXTERNAL = 1
#: All tensors of other files together; one file may be the data of many tensors.
MAX_EXTERNAL_BYTES = 1 << 30
#: Elements smaller than a byte (onnx.proto, TensorProto.raw_data).
_PACKED_BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}


def read_onnx(path: Path) -> Any:
    """The ModelProto of a file, all tensors inside.

    Raises ImportFailed for a file that is not ONNX, has no graph, holds a name that is not UTF-8,
    or refers to a file that cannot be or must not be read; TooLarge over MAX_EXTERNAL_BYTES.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        # onnx would open every path that the file names; `_inline` looks at it first.
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, ValueError, UnicodeDecodeError):
        raise ImportFailed(
            f"{path} is not a readable ONNX model",
            hint="the file may be truncated or of another format",
        ) from None
    if not model.HasField("graph") or not model.graph.output:
        raise ImportFailed(f"{path} holds no ONNX graph", hint="the file may be truncated")
    # protobuf hands over a string that is not UTF-8 as bytes.
    if not all(isinstance(name, str) for name in _names(model.graph)):
        raise ImportFailed(f"{path} holds a name that is not UTF-8", hint="the file is damaged")
    _inline(model, path)
    return model


def _inline(model: Any, path: Path) -> None:
    """Read the tensors that lie in other files into the model."""
    total = 0
    for tensor in external_tensors(model):
        data = _external_data(tensor, path, MAX_EXTERNAL_BYTES - total)
        total += len(data)
        tensor.raw_data = data
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")


def _external_data(tensor: Any, path: Path, most_bytes: int) -> bytes:
    """The bytes of a tensor in another file. Raises the errors of `read_onnx`."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    name, location = f"{path.name}: tensor {tensor.name!r}", fields.get("location", "")
    try:
        place = _beside(path, location, name)
        wanted, size = _stored_bytes(tensor), place.stat().st_size
        offset, length = int(fields.get("offset") or 0), int(fields.get("length") or wanted)
        if wanted > most_bytes:
            raise TooLarge(f"{name}: external tensors take more than {MAX_EXTERNAL_BYTES} bytes")
        if length != wanted or offset < 0 or offset + length > size:
            raise ImportFailed(
                f"{name} takes {wanted} bytes, but lies in {location!r} at {offset} with {length}"
                f" of {size}",
                hint="the file may be truncated, or of another model",
            )
        with place.open("rb") as file:
            file.seek(offset)
            return bytes(file.read(length))
    except (ValueError, OSError) as error:  # a zero byte, too long a name, no number
        raise ImportFailed(f"{name} has no readable place: {error}") from None


def _beside(path: Path, location: str, name: str) -> Path:
    """The file at a location in the folder of a model, links followed."""
    folder = path.resolve().parent
    place = (folder / location).resolve()
    if not location or not place.is_relative_to(folder):
        raise ImportFailed(
            f"{name} lies in {location!r}, which is outside the model's folder",
            hint="put the file beside the model, or save the model with its weights inside",
        )
    if not place.is_file():
        raise ImportFailed(
            f"{name} lies in {location!r}, which is not a file beside the model",
            hint="copy this file, too, from the folder where the model was exported",
        )
    return place


def _stored_bytes(tensor: Any) -> int:
    """The size of a tensor's raw data; several elements of 4 or 2 bits share a byte."""
    import onnx

    kinds = onnx.TensorProto
    known = set(kinds.DataType.values()) - {kinds.UNDEFINED, kinds.STRING}
    if tensor.data_type not in known or min(tensor.dims, default=0) < 0:
        raise ValueError("it has no dtype or shape of numbers")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    bits = int(_PACKED_BITS.get(dtype.name, 8 * dtype.itemsize))
    return int(-(-math.prod(tensor.dims) * bits // 8))


def _names(graph: Any) -> Iterator[Any]:
    """Every name that the importer looks at."""
    sparse = (each.values for each in graph.sparse_initializer)
    for entry in (*graph.input, *graph.output, *graph.initializer, *sparse):
        yield entry.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.HasField("g"):
                yield from _names(attribute.g)


def external_tensors(model: Any) -> Iterator[Any]:
    """A ModelProto's tensors whose data lie in another file."""
    queue = [model]
    while queue:
        message = queue.pop()
        if message.DESCRIPTOR.full_name == TENSOR:
            if message.data_location == EXTERNAL or message.external_data:
                yield message
            continue
        for field, value in message.ListFields():
            if field.message_type is not None and _can_hold_tensor(field.message_type):
                queue += [value] if hasattr(value, "DESCRIPTOR") else value


@functools.cache
def _can_hold_tensor(kind: Any) -> bool:
    """Whether a message of this kind is a tensor or can have one somewhere below it."""
    seen, queue = {kind}, [kind]
    while queue:
        for field in queue.pop().fields:
            if field.message_type is not None and field.message_type not in seen:
                seen.add(field.message_type)
                queue.append(field.message_type)
    return any(found.full_name == TENSOR for found in seen)
