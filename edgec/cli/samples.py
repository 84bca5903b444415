"""Samples for `verify`: from a file, or generated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import EdgecError
from edgec.graph.ir import Value
from edgec.runners.inputs import describe_port, fit_input, load_arrays
from edgec.runners.samples import generate_inputs


class _Port:
    """What `fit_input` needs to know of a parameter."""

    def __init__(self, value: Value) -> None:
        self.name = value.origin.tensor if value.origin else value.name
        self.shape = value.type.shape
        self.dtype = value.type.dtype


def load_cases(params: Sequence[Value], path: Path | None, generated: int) -> list[list[Any]]:
    """One list of arrays per case. A file holds samples along its first axis.

    An .npz has one array per input by its name; with a single input, the only array of a
    fitting dtype will do. Raises EdgecError for what does not fit, and for a file without a
    single sample.
    """
    ports = [_Port(value) for value in params]
    if path is None:
        types = [(port.shape, port.dtype) for port in ports]
        return [list(generate_inputs(seed, types)) for seed in range(1, generated + 1)]
    arrays = load_arrays(path)
    columns = [_find(arrays, port, len(ports), path) for port in ports]
    counts = {port.name: len(column) for port, column in zip(ports, columns, strict=True)}
    if len(set(counts.values())) > 1:
        raise EdgecError(
            f"{path} has different numbers of samples for its inputs",
            details=tuple(f"{name}: {count}" for name, count in counts.items()),
        )
    return [
        [fit_input(column[n], port) for column, port in zip(columns, ports, strict=True)]
        for n in range(len(columns[0]))
    ]


def _find(arrays: dict[str, Any], port: _Port, ports: int, path: Path) -> Any:
    """The samples of one input: its first axis counts them, and there is at least one."""
    found = arrays.get(port.name, arrays.get("") if ports == 1 else None)
    if found is None:
        size = int(np.prod(port.shape, dtype=np.int64))
        fitting = [
            a for a in arrays.values()
            if a.ndim and a.dtype.name == port.dtype and a.size == len(a) * size
        ]  # fmt: skip
        found = fitting[0] if ports == 1 and len(fitting) == 1 else None
    if found is not None and found.ndim and len(found):
        return found
    raise EdgecError(
        f"{path} has no samples for input {describe_port(port)}",
        details=tuple(
            f"it has {f'{name}: ' if name else ''}{a.dtype}{list(a.shape)}"
            for name, a in arrays.items()
        ),
        hint="samples lie along the first axis, each of the input's dtype and shape",
    )


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
