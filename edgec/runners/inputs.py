"""Input arrays: from files, in a port's shape and dtype."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edgec.errors import EdgecError


class Port(Protocol):
    """What an input must be; a manifest's PortEntry is one."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102


def read_inputs(words: Sequence[str], ports: Sequence[Port]) -> list[Any]:
    """Arrays for the model's inputs from `x.npy`, `x.npz` or `name=x.npy` words."""
    given: dict[str, Any] = {}
    for word in words:
        name, _, path_text = word.rpartition("=")
        path = Path(path_text)
        try:
            loaded = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise EdgecError(
                f"cannot read {path} as a NumPy file: {error}",
                hint="give an .npy file, or an .npz with one array per input",
            ) from None
        if isinstance(loaded, np.ndarray):
            given[name or ports[len(given) % len(ports)].name] = loaded
        else:
            arrays = {key: loaded[key] for key in loaded.files}
            if len(ports) == 1 and len(arrays) == 1 and ports[0].name not in arrays:
                arrays = {ports[0].name: next(iter(arrays.values()))}
            given.update(arrays)
    unknown = [name for name in given if name not in {port.name for port in ports}]
    missing = [port.name for port in ports if port.name not in given]
    if missing or (unknown and len(unknown) == len(given)):
        raise EdgecError(
            f"no input is given for {', '.join(missing)}",
            details=tuple(f"{p.name}: {p.dtype}{list(p.shape)}" for p in ports),
            hint="name an input with NAME=FILE",
        )
    return [fit_input(given[port.name], port) for port in ports]


def fit_input(array: Any, port: Port) -> Any:
    """The array in the port's shape; EdgecError for another dtype or number of elements."""
    shape, count = tuple(port.shape), 1
    for extent in shape:
        count *= extent
    if array.size != count or array.dtype.name != port.dtype:
        raise EdgecError(
            f"input {port.name}: {port.dtype}{list(shape)} is needed,"
            f" {array.dtype.name}{list(array.shape)} was given",
        )
    return array.reshape(shape)
