"""Samples for `verify`: from a file, or generated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import EdgecError
from edgec.graph.ir import Value
from edgec.runners.inputs import fit_input
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
    fitting dtype will do. Raises EdgecError for what does not fit.
    """
    ports = [_Port(value) for value in params]
    if path is None:
        types = [(port.shape, port.dtype) for port in ports]
        return [list(generate_inputs(seed, types)) for seed in range(1, generated + 1)]
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise EdgecError(
            f"cannot read {path} as a NumPy file: {error}", hint="give an .npz or .npy file"
        ) from None
    arrays = (
        {ports[0].name: loaded}
        if isinstance(loaded, np.ndarray)
        else {name: loaded[name] for name in loaded.files}
    )
    columns = [_find(arrays, port, len(ports), path) for port in ports]
    count = min(len(column) for column in columns)
    return [
        [fit_input(column[n], port) for column, port in zip(columns, ports, strict=True)]
        for n in range(count)
    ]


def _find(arrays: dict[str, Any], port: _Port, ports: int, path: Path) -> Any:
    if port.name in arrays:
        return arrays[port.name]
    size = int(np.prod(port.shape, dtype=np.int64))
    fitting = [
        a for a in arrays.values()
        if a.ndim and len(a) and a.dtype.name == port.dtype and a.size == len(a) * size
    ]  # fmt: skip
    if ports == 1 and len(fitting) == 1:
        return fitting[0]
    raise EdgecError(
        f"{path} has no samples for input {port.name}",
        details=tuple(f"{name}: {a.dtype}{list(a.shape)}" for name, a in arrays.items()),
        hint=f"each sample must be {port.dtype}{list(port.shape)}",
    )
