"""The batch of a TFLite file that leaves it open (-1 in shape signatures).

The file's own shapes belong to its smallest batch, usually 1. Open extents of other tensors
grow with the batch: a tensor of three rows for each sample has three times as many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgec.errors import ImportFailed
from edgec.frontends.tflite_reader import RawGraph, RawModel, RawTensor


def with_input_shapes(model: RawModel, shapes: Mapping[str, Sequence[int]], file: str) -> RawModel:
    """The model with these shapes of inputs, by name. Raises ImportFailed where they do not fit."""
    graph = model.graphs[0]
    inputs = {graph.tensors[number].name: graph.tensors[number] for number in graph.inputs}
    factors = set()
    for name, shape in shapes.items():
        if name not in inputs:
            known = tuple(f"input {each}" for each in inputs)
            raise ImportFailed(f"{file} has no input {name!r}", details=known)
        factors.add(_factor(inputs[name], tuple(shape), file))
    if len(factors) > 1:
        raise ImportFailed(f"{file}: its inputs have one batch, several were given")
    return replace(model, graphs=(_grown(graph, *factors or {1}), *model.graphs[1:]))


def _factor(tensor: RawTensor, shape: tuple[int, ...], file: str) -> int:
    """Batch of an input divided by the file's batch."""
    if len(shape) != len(tensor.shape):
        raise ImportFailed(
            f"{file}: input {tensor.name!r} has {len(tensor.shape)} dimensions, {len(shape)} were"
            " given"
        )
    own = tensor.shape[:1] if tensor.signature[:1] == (-1,) else ()
    factor = shape[0] // max(own[0], 1) if own else 1
    wanted = (*(extent * factor for extent in own), *tensor.shape[len(own) :])
    for axis, (mine, known) in enumerate(zip(shape, wanted, strict=True)):
        if mine != known:
            raise ImportFailed(
                f"{file}: dimension {axis} of input {tensor.name!r} is {known}, {mine} was given",
                hint="only a first dimension that the file leaves open can be given",
            )
    return factor


def _grown(graph: RawGraph, factor: int) -> RawGraph:
    """The graph with open first extents that many times as large."""
    tensors = [
        replace(tensor, shape=(tensor.shape[0] * factor, *tensor.shape[1:]))
        if tensor.signature[:1] == (-1,) and tensor.shape else tensor
        for tensor in graph.tensors
    ]  # fmt: skip
    return replace(graph, tensors=tuple(tensors))
