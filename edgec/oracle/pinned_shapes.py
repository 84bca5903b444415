"""An ONNX file whose inputs have the extents that a build chose for open ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx


def with_shapes(model: Path, shapes: Sequence[tuple[int, ...]], path: Path) -> Path:
    """The model itself if it leaves no dimension of an input open; else a copy at `path`.

    shapes: of the inputs, those that are constants apart.
    """
    proto = onnx.load(model)
    constants = {value.name for value in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in constants]
    stated = [value.type.tensor_type.shape for value in inputs]
    if all(dim.HasField("dim_value") for shape in stated for dim in shape.dim):
        return model.absolute()
    for shape, given in zip(stated, shapes, strict=True):
        for dim, extent in zip(shape.dim, given, strict=True):
            dim.dim_value = extent
    for value in proto.graph.output:
        value.type.tensor_type.shape.ClearField("dim")
    onnx.save(onnx.shape_inference.infer_shapes(proto), path)
    return path
