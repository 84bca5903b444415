"""An ONNX file with the sizes and values that a build chose for its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper


def with_inputs(
    model: Path, shapes: Sequence[tuple[int, ...]], path: Path,
    values: Sequence[tuple[str, float]] = (),
) -> Path:  # fmt: skip
    """The model itself if it leaves no dimension and no value open; else a copy at `path`.

    shapes: of the inputs that are neither constants nor have one of the values.
    values: (name, value) of inputs that become constants.
    """
    proto = onnx.load(model)
    _make_constant(proto, values)
    constants = {value.name for value in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in constants]
    stated = [value.type.tensor_type.shape for value in inputs]
    if not values and all(dim.HasField("dim_value") for shape in stated for dim in shape.dim):
        return model.absolute()
    for shape, given in zip(stated, shapes, strict=True):
        for dim, extent in zip(shape.dim, given, strict=True):
            dim.dim_value = extent
    for value in proto.graph.output:
        value.type.tensor_type.shape.ClearField("dim")
    onnx.save(onnx.shape_inference.infer_shapes(proto), path)
    return path


def _make_constant(proto: onnx.ModelProto, values: Sequence[tuple[str, float]]) -> None:
    """Put constants in place of inputs that always are these values."""
    for name, value in values:
        given = next(each for each in proto.graph.input if each.name == name)
        dtype = helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
        shape = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
        proto.graph.initializer.append(numpy_helper.from_array(np.full(shape, value, dtype), name))
        proto.graph.input.remove(given)
