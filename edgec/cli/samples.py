"""Samples for `verify` and `quantize`: from files, or generated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from edgec.errors import EdgecError
from edgec.graph.extents import at_sizes, symbols_of
from edgec.graph.ir import Value
from edgec.graph.types import TensorType
from edgec.numerics.fit_term import Sizes
from edgec.runners.inputs import load_arrays
from edgec.runners.sample_files import open_samples
from edgec.runners.samples import generate_inputs, within_limits


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
    """The parameters of a function as readers of samples take them."""
    return [_Port(value) for value in params]


def load_cases(
    params: Sequence[Value],
    path: Path | None,
    generated: int,
    *,
    every_size: bool = False,
    limits: Sequence[int | None] = (),
) -> list[list[Any]]:
    """One list of arrays per case: what `open_samples` reads, or this many generated ones.

    limits: exclusive limits of generated indices, from `index_limits`.

    every_size: with open sizes, generated cases alternate between the largest, the smallest and
    medium sizes; else they have the largest.
    """
    ports = ports_of(params)
    if path is not None:
        return list(open_samples(ports, path))
    return [
        within_limits(
            generate_inputs(seed, [(t.shape, t.dtype) for t in types]),
            limits or [None] * len(params),
        )
        for seed, types in zip(range(1, generated + 1), _types(params, every_size), strict=False)
    ]


def _types(params: Sequence[Value], every_size: bool) -> Iterator[list[TensorType]]:
    """The types of the inputs, case after case."""
    symbols = symbols_of(value.type for value in params)
    turns: list[Sizes] = [{var: var.stop - 1 for var in symbols}]
    if every_size:
        turns.append({var: var.start for var in symbols})
        turns.append({var: (var.start + var.stop - 1) // 2 for var in symbols})
    for sizes in cycle(turns):
        yield [at_sizes(value.type, sizes) for value in params]


def load_labels(path: Path, samples: int) -> list[int]:
    """The class of each of `samples` samples. Raises EdgecError if they do not fit."""
    arrays = list(load_arrays(path).values())
    if len(arrays) != 1 or arrays[0].ndim != 1 or arrays[0].dtype.kind not in "iu":
        raise EdgecError(
            f"{path} holds no labels", hint="give an .npy of one whole number for each sample"
        )
    if len(arrays[0]) < samples:
        raise EdgecError(f"{path} has {len(arrays[0])} labels for {samples} samples")
    return [int(label) for label in arrays[0][:samples]]
