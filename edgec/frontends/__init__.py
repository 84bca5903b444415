"""Foreign model files to graph IR; the only place that imports their formats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edgec.errors import ImportFailed
from edgec.graph.ir import Module
from edgec.graph.limits import DEFAULT_BUDGET, Budget
from edgec.graph.types import Array

#: Bytes 4 to 8 of a TFLite file.
_TFLITE = b"TFL3"
#: First bytes of a zip archive, as PyTorch's exported programs are.
_ZIP = b"PK\x03\x04"
#: First byte of an ONNX file: protobuf field 1 (ir_version), a varint.
_ONNX = 0x08


def import_model(
    path: Path,
    *,
    match: str | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, float | Array] | None = None,
    budget: Budget = DEFAULT_BUDGET,
) -> Module:
    """Read a model file of any known format, chosen by its content, then by its suffix.

    match: overrides the rounding that the file's own framework has. shapes: of inputs whose extents
    an ONNX file leaves open, by name. values: of its inputs that are constants. budget:
    limits of what its constants may take.

    Raises ImportFailed.
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(8)
    except OSError as error:
        hint = "give the path of a .tflite, .onnx or .pt2 file"
        raise ImportFailed(f"cannot read {path}: {error.strerror}", hint=hint) from None
    suffix = path.suffix.lower()
    if head[4:8] == _TFLITE or suffix == ".tflite":
        from edgec.frontends.tflite import import_tflite

        if shapes:
            raise ImportFailed(
                f"{path.name} has fixed input shapes: only those of ONNX files can be given"
            )
        if values:
            raise ImportFailed(f"{path.name}: only inputs of ONNX files can be given a value")
        return import_tflite(path, match=match, budget=budget)
    if head[:4] == _ZIP or suffix == ".pt2":
        from edgec.frontends.torch_export import import_torch

        if shapes or values:
            raise ImportFailed(f"{path.name}: only inputs of ONNX files can be given from outside")
        return import_torch(path)
    if head[:1] == bytes([_ONNX]) or suffix == ".onnx":
        from edgec.frontends.onnx import import_onnx

        return import_onnx(path, match=match, shapes=shapes, values=values, budget=budget)
    raise ImportFailed(
        f"{path} is {'empty' if not head else 'neither TFLite, ONNX nor PyTorch'}",
        hint="edgec reads .tflite, .onnx and .pt2 files",
    )
