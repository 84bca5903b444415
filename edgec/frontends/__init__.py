"""Foreign model files to graph IR; the only place that imports their formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.errors import ImportFailed
from edgec.graph.ir import Module
from edgec.graph.limits import DEFAULT_BUDGET, Budget
from edgec.graph.types import Array
from edgec.numerics.term import Var
from edgec.resources import plain_file

if TYPE_CHECKING:
    from edgec.frontends.tflite_reader import Partition

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
    shapes: Mapping[str, Sequence[int | range]] | None = None,
    values: Mapping[str, float | Array] | None = None,
    budget: Budget = DEFAULT_BUDGET,
) -> Module:
    """Read a model file of any known format, chosen by its content, then by its suffix.

    match: overrides the rounding of the file's framework. shapes: of inputs whose extents the file
    leaves open, by name; a range keeps the extent open within it. values: of an ONNX file's inputs
    that are constants. budget: limits of its constants.

    Raises ImportFailed.
    """
    kind = _format(path)
    if not any(isinstance(extent, range) for shape in (shapes or {}).values() for extent in shape):
        return _at_numbers(path, kind, match, shapes, values, budget)
    from edgec.frontends.open_sizes import given_extents, open_module

    extents = given_extents(shapes or {}, _dimension_names(path) if kind == "onnx" else {})

    def import_at(sizes: Mapping[Var, int]) -> Module:
        numbers = {var.name: size for var, size in sizes.items()}
        closed = {
            name: tuple(term.evaluate(numbers) for term in terms) for name, terms in extents.items()
        }
        return _at_numbers(path, kind, match, closed, values, budget)

    return open_module(import_at, extents)


def import_shared_out(
    path: Path, partition: Partition, match: str | None, budget: Budget
) -> Module:
    """Read a TFLite file whose groups an accelerator takes. Raises ImportFailed as the others."""
    if _format(path) != "tflite":
        raise ImportFailed(f"{path.name}: an accelerator takes TFLite models")
    from edgec.frontends.tflite import import_tflite

    return import_tflite(path, match=match, budget=budget, partition=partition)


def _format(path: Path) -> str:
    """The format of a file: tflite, torch, onnx or features. Raises ImportFailed for others."""
    hint = "give the path of a .tflite, .onnx or .pt2 file"
    try:
        with plain_file(path).open("rb") as stream:
            head = stream.read(8)
    except OSError as error:
        raise ImportFailed(f"cannot read {path}: {error.strerror}", hint=hint) from None
    signs = {
        "tflite": (head[4:8] == _TFLITE, ".tflite"),
        "torch": (head[:4] == _ZIP, ".pt2"),
        "onnx": (head[:1] == bytes([_ONNX]), ".onnx"),
        "features": (False, ".toml"),
    }
    for kind, (is_signed, suffix) in signs.items():
        if is_signed or path.suffix.lower() == suffix:
            return kind
    raise ImportFailed(
        f"{path} is {'empty' if not head else 'neither TFLite, ONNX nor PyTorch'}",
        hint="edgec reads .tflite, .onnx and .pt2 files",
    )


def _dimension_names(path: Path) -> dict[tuple[str, int], str]:
    from edgec.frontends.onnx import dimension_names

    return dimension_names(path)


def _at_numbers(
    path: Path, kind: str, match: str | None, shapes: Any,
    values: Mapping[str, float | Array] | None, budget: Budget,
) -> Module:  # fmt: skip
    """A model whose sizes are numbers."""
    _refuse_given(path, kind, shapes, values)
    if kind == "tflite":
        from edgec.frontends.tflite import import_tflite

        return import_tflite(path, match=match, shapes=shapes, budget=budget)
    if kind == "features":
        from edgec.frontends.features import import_features

        return import_features(path)
    if kind == "torch":
        from edgec.frontends.torch_export import import_torch

        return import_torch(path)
    from edgec.frontends.onnx import import_onnx

    return import_onnx(path, match=match, shapes=shapes, values=values, budget=budget)


def _refuse_given(path: Path, kind: str, shapes: Any, values: Any) -> None:
    """Raise ImportFailed for options that a format does not support."""
    if values and kind == "tflite":
        raise ImportFailed(f"{path.name}: only inputs of ONNX files can be given a value")
    if (shapes or values) and kind in ("torch", "features"):
        raise ImportFailed(f"{path.name}: only inputs of ONNX files can be given from outside")
