"""Read input arrays from files, and check their shapes and dtypes."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from edgec.errors import EdgecError
from edgec.resources import plain_file

if TYPE_CHECKING:
    from edgec.runners.media_files import Hear

#: The first bytes of .npy and .npz files; np.load would read any other file as a pickle.
_NPY, _NPZ = b"\x93NUMPY", b"PK"

#: A larger .npz must not have a higher compression ratio than this.
MOST_BYTES, MOST_EXPANSION = 1 << 28, 20

#: np.load raises one of these for a damaged file.
_DAMAGED = (ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError,
            MemoryError)  # fmt: skip


class Port(Protocol):
    """The type of an input; a manifest's PortEntry is one."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def scale(self) -> tuple[float, ...]: ...
    @property
    def zero_point(self) -> tuple[int, ...]: ...


def describe_port(port: Port) -> str:
    """Return the type of an input for messages: `x: int8[1, 8]`."""
    return f"{port.name}: {port.dtype}{list(port.shape)}"


def load_arrays(path: Path) -> dict[str, Any]:
    """Return every array of an .npz by its name, or the array of an .npy by the empty name.

    Raises EdgecError for a file that is absent, damaged, of another kind, or holds objects.
    """
    try:
        with plain_file(path).open("rb") as stream:
            head = stream.read(len(_NPY))
            if head != _NPY and head[: len(_NPZ)] != _NPZ:
                raise ValueError("it is neither .npy nor .npz")
            stream.seek(0)
            loaded = np.load(stream, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"": loaded}
            with loaded:
                return _members(loaded)
    except OSError as error:
        reason = error.strerror or str(error)
    except _DAMAGED as error:
        reason = str(error) or type(error).__name__
    raise EdgecError(
        f"cannot read {path} as a NumPy file: {reason}",
        hint="give an .npy file, or an .npz with one array per input (numpy.save, numpy.savez)",
    )


def _members(archive: Any) -> dict[str, Any]:
    """Return the arrays of an .npz. Raises ValueError for other members or too high compression."""
    packed = sum(entry.compress_size for entry in archive.zip.infolist())
    size = sum(entry.file_size for entry in archive.zip.infolist())
    if size > max(MOST_BYTES, MOST_EXPANSION * packed):
        raise ValueError(f"its {packed:,} compressed bytes expand to {size:,}")
    arrays = {name: archive[name] for name in archive.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"its member {name!r} is not an array")
    return arrays


def read_steps(
    words: Sequence[str],
    ports: Sequence[Port],
    steps: int,
    pixels: tuple[float, float] = (0.0, 1.0),
    hear: Hear | None = None,
) -> list[list[Any]]:
    """Return arrays for the model's inputs from words like `x.npy`, `x.npz` or `name=x.npy`.

    `edgec.runners.media_files` reads pictures, WAV and CSV files; hear computes features of a
    sound. An array without a name goes to the first input that has no array yet. An .npz may have
    arrays that no input needs; NAME=FILE.npz takes the array NAME of the file, or its only array.
    With several steps, the first axis of each array is the step. Raises EdgecError for names that
    no input has, inputs without an array, and arrays that do not fit.
    """
    given: dict[str, Any] = {}
    for word in words:
        for name, array in _named_arrays(word, ports, given, steps, (pixels, hear)).items():
            if name in given:
                raise EdgecError(f"input {name} is given twice")
            given[name] = array
    missing = [port for port in ports if port.name not in given]
    if missing:
        raise EdgecError(
            f"no input is given for {', '.join(port.name for port in missing)}",
            details=tuple(f"input {describe_port(port)}" for port in ports),
            hint="name an input with NAME=FILE",
        )
    if steps == 1:
        return [[fit_input(given[port.name], port) for port in ports]]
    for port in ports:
        array = given[port.name]
        if not array.ndim or len(array) != steps:
            raise EdgecError(
                f"input {port.name}: {steps} steps need an array whose first axis has {steps}"
                f" elements, this one is {array.dtype.name}{list(array.shape)}",
                hint=f"each step needs {describe_port(port)}",
            )
    return [[fit_input(given[port.name][step], port) for port in ports] for step in range(steps)]


def _named_arrays(
    word: str,
    ports: Sequence[Port],
    given: dict[str, Any],
    steps: int,
    media: tuple[tuple[float, float], Hear | None],
) -> dict[str, Any]:
    """Return the arrays of one word of the command line, by the name of the input."""
    from edgec.runners.media_files import MEDIA, read_media

    known = [port.name for port in ports]
    name, path = _name_and_path(word, known)
    free = [n for n in known if n not in given]
    if path.suffix.lower() in MEDIA:
        chosen = name or (free or known)[0]
        port = next(port for port in ports if port.name == chosen)
        return {chosen: read_media(path, port, media[0], steps, media[1])}
    arrays = load_arrays(path)
    if name:
        array = arrays.get(name, next(iter(arrays.values())) if len(arrays) == 1 else None)
        if array is None:
            raise EdgecError(
                f"{path} has no array {name!r}", details=(f"it has: {', '.join(arrays)}",)
            )
        return {name: array}
    found = {n: array for n, array in arrays.items() if n in known}
    if not found and len(arrays) == 1:
        return {free[0] if free else known[0]: next(iter(arrays.values()))}
    if not found:
        raise EdgecError(
            f"{path} has no array for an input of the model",
            details=(f"it has: {', '.join(arrays) or 'nothing'}", f"inputs: {', '.join(known)}"),
            hint="give its arrays the inputs' names, or name an input with NAME=FILE",
        )
    return found


def _name_and_path(word: str, known: Sequence[str]) -> tuple[str, Path]:
    """Split a word into an input's name, or "", and a file. Raises EdgecError for an unknown name.

    The name of an input and a path may both have a "=": the longest known name is taken.
    """
    name = max((n for n in known if word.startswith(f"{n}=")), key=len, default="")
    path = Path(word[len(name) + 1 :] if name else word)
    if not name and "=" in word and not path.exists():
        raise EdgecError(
            f"the model has no input {word.rpartition('=')[0]!r}",
            details=(f"its inputs: {', '.join(known)}",),
        )
    return name, path


def fit_input(array: Any, port: Port) -> Any:
    """Return the array in the port's shape.

    The array may lack leading axes of extent 1, have more of them, or be flat in C order. The
    session checks open sizes, since it knows their ranges.
    Raises EdgecError for another dtype or shape, such as another layout.
    """
    shape = _closed_shape(array.shape, port)
    count = int(np.prod(shape, dtype=np.int64))
    same = _significant(array.shape) == _significant(shape)
    flat = array.ndim == 1 and array.size == count
    if array.dtype.name != port.dtype or not (same or flat):
        hint = ""
        if array.dtype.name != port.dtype:
            hint = f"convert it, for example with x.astype({port.dtype!r})"
        elif array.size == count:
            hint = "the number of elements is right: see numpy.transpose, numpy.reshape"
        raise EdgecError(
            f"input {port.name}: {port.dtype}{list(shape)} is needed,"
            f" {array.dtype.name}{list(array.shape)} was given",
            hint=hint,
        )
    return array.reshape(shape)


def _closed_shape(given: Sequence[int], port: Port) -> tuple[int, ...]:
    """Return the port's shape, with the given extents for open sizes."""
    extents = getattr(port, "extents", ())
    if not extents or len(extents) != len(given):
        return tuple(port.shape)
    pairs = zip(extents, port.shape, given, strict=True)
    return tuple(most if text.isdigit() else mine for text, most, mine in pairs)


def _significant(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without its leading axes of extent 1."""
    start = 0
    while start < len(shape) and shape[start] == 1:
        start += 1
    return tuple(shape[start:])
