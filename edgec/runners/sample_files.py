"""Samples of a model's inputs, read one by one: from NumPy files, folders of them, or images.

| source | a sample is |
|---|---|
| `.npz` | one index of the first axis; one array for each input by its name, or the only one |
| `.npy` | one index of the first axis, read from the disk as it is needed |
| folder of `.npy` | one file, for a model with one input |
| folder of `.npz` | one file, with an array for each input |
| folder of images | one picture, scaled to the input's height and width (needs Pillow) |

Files of a folder are taken in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import EdgecError
from edgec.resources import plain_file
from edgec.runners.inputs import Port, describe_port, fit_input, load_arrays
from edgec.runners.media_files import IMAGES, image_reader, stored


@dataclass(frozen=True)
class Samples:
    """Samples that can be read several times; they are not kept in memory."""

    count: int
    read: Callable[[int], list[Any]]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[list[Any]]:
        return map(self.read, range(self.count))

    def first(self, most: int | None) -> Samples:
        """At most this many of them."""
        return Samples(min(self.count, self.count if most is None else most), self.read)


def open_samples(
    ports: Sequence[Port], source: Path, pixels: tuple[float, float] = (0.0, 1.0)
) -> Samples:
    """The samples of a file or folder.

    pixels: the values of black and white, for images. Raises EdgecError for a source that is
    absent, empty or does not fit the inputs, at once or when the sample is read; ToolMissing for
    images without Pillow.
    """
    if source.is_dir():
        return _folder(ports, source, pixels)
    if source.suffix == ".npy" and len(ports) == 1:
        return _column_of_file(ports[0], source)
    arrays = load_arrays(source)
    columns = [_find(arrays, port, len(ports), source) for port in ports]
    counts = {port.name: len(column) for port, column in zip(ports, columns, strict=True)}
    if len(set(counts.values())) > 1:
        raise EdgecError(
            f"{source} has different numbers of samples for its inputs",
            details=tuple(f"{name}: {count}" for name, count in counts.items()),
        )

    def read(number: int) -> list[Any]:
        pairs = zip(columns, ports, strict=True)
        return [fit_input(column[number], port) for column, port in pairs]

    return Samples(len(columns[0]), read)


def _find(arrays: dict[str, Any], port: Port, ports: int, source: Path) -> Any:
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
        f"{source} has no samples for input {describe_port(port)}",
        details=tuple(
            f"it has {f'{name}: ' if name else ''}{a.dtype}{list(a.shape)}"
            for name, a in arrays.items()
        ),
        hint="samples lie along the first axis, each of the input's dtype and shape",
    )


def _column_of_file(port: Port, source: Path) -> Samples:
    """An .npy, mapped: only the parts that are read are in memory."""
    try:
        mapped: Any = np.load(plain_file(source), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, TypeError):
        mapped = load_arrays(source)[""]  # raises the error, or reads a file that cannot be mapped
    column = _find({"": mapped}, port, 1, source)
    return Samples(len(column), lambda number: [fit_input(np.array(column[number]), port)])


def _folder(ports: Sequence[Port], source: Path, pixels: tuple[float, float]) -> Samples:
    try:
        files = sorted(f for f in source.iterdir() if f.is_file() and f.name[0] != ".")
    except OSError as error:
        raise EdgecError(f"cannot read the folder {source}: {error.strerror}") from None
    kinds = {file.suffix.lower() for file in files}
    if kinds and kinds <= set(IMAGES):
        read_image = _image_reader(ports, source, pixels)
        return Samples(len(files), lambda number: [read_image(files[number])])
    if kinds in ({".npy"}, {".npz"}):
        if kinds == {".npy"} and len(ports) != 1:
            raise EdgecError(
                f"{source} holds .npy files, but the model has {len(ports)} inputs",
                hint="save each sample as an .npz with one array for each input",
            )
        return Samples(len(files), lambda number: _sample_of_file(ports, files[number]))
    found = ", ".join(sorted(kinds)) or "nothing"
    raise EdgecError(
        f"{source} is not a folder of samples: it holds {found}",
        hint=f"give a folder of only .npy, only .npz, or only images ({', '.join(IMAGES[:4])}, …)",
    )


def _sample_of_file(ports: Sequence[Port], file: Path) -> list[Any]:
    arrays = load_arrays(file)
    found = []
    for port in ports:
        array = arrays.get(port.name)
        if array is None and len(ports) == len(arrays) == 1:
            (array,) = arrays.values()
        if array is None:
            raise EdgecError(
                f"{file} has no array for input {describe_port(port)}",
                details=(f"it has: {', '.join(arrays) or 'nothing'}",),
            )
        try:
            found.append(fit_input(array, port))
        except EdgecError as error:
            raise EdgecError(f"{file}: {error.message}", hint=error.hint) from None
    return found


def _image_reader(
    ports: Sequence[Port], source: Path, pixels: tuple[float, float]
) -> Callable[[Path], Any]:
    """A function from a file to the input's array."""
    if len(ports) != 1:
        inputs = ", ".join(map(describe_port, ports))
        raise EdgecError(f"{source} holds images, but the model has the inputs {inputs}")
    read = image_reader(ports[0], source, pixels)
    return lambda file: stored(read(file), ports[0], file)
