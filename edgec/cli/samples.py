"""Samples for `verify` and `quantize`: from files, or generated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgec.errors import EdgecError
from edgec.graph.ir import Value
from edgec.runners.inputs import load_arrays
from edgec.runners.sample_files import open_samples
from edgec.runners.samples import generate_inputs


class _Port:
    """A parameter as readers of inputs see it."""

    def __init__(self, value: Value) -> None:
        self.name = value.origin.tensor if value.origin else value.name
        self.shape = value.type.shape
        self.dtype = value.type.dtype
        quant = value.type.quant
        self.scale = () if quant is None else tuple(quant.scale)
        self.zero_point = () if quant is None else tuple(quant.zero_point)


def ports_of(params: Sequence[Value]) -> list[_Port]:
    """What readers of samples need to know of a function's parameters."""
    return [_Port(value) for value in params]


def load_cases(params: Sequence[Value], path: Path | None, generated: int) -> list[list[Any]]:
    """One list of arrays per case: what `open_samples` reads, or this many generated ones."""
    ports = ports_of(params)
    if path is not None:
        return list(open_samples(ports, path))
    types = [(port.shape, port.dtype) for port in ports]
    return [list(generate_inputs(seed, types)) for seed in range(1, generated + 1)]


def load_labels(path: Path, samples: int) -> list[int]:
    """The class of each of `samples` samples. Raises EdgecError for what does not fit."""
    arrays = list(load_arrays(path).values())
    if len(arrays) != 1 or arrays[0].ndim != 1 or arrays[0].dtype.kind not in "iu":
        raise EdgecError(
            f"{path} holds no labels", hint="give an .npy of one whole number for each sample"
        )
    if len(arrays[0]) < samples:
        raise EdgecError(f"{path} has {len(arrays[0])} labels for {samples} samples")
    return [int(label) for label in arrays[0][:samples]]
