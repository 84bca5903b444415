"""Constant arrays as the members of one C structure; equal arrays are written once.

One structure, since its layout is then known here: one CRC covers all constants as they lie in
flash. Members with the widest elements come first and sizes are multiples of 4 bytes, so that no
compiler puts padding between members.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgec.codegen.c_types import C_TYPE, literal
from edgec.codegen.names import identifier, unique

COLUMNS = 98
WEIGHT_ALIGNMENT = 4  # word loads of int8 weights, also by LDM and LDRD, which need it
WEIGHTS_OBJECT = "weights"  # behind the model's name


@dataclass(frozen=True)
class DataArray:
    """One array of the weights: a member of the structure, and its initializer.

    `nbytes` is the constant's own size, `stored_bytes` with the zeros that round it up.
    """

    declaration: str
    comment: str
    lines: tuple[str, ...]
    nbytes: int
    stored_bytes: int


@dataclass(frozen=True)
class WeightsObject:
    """One structure: its arrays in their order in memory, and the board's region it lies in.

    region: "" for where the linker puts weights by itself.
    """

    region: str
    arrays: tuple[DataArray, ...]

    @property
    def suffix(self) -> str:
        """What its names end with."""
        return f"_{self.region}" if self.region else ""

    @property
    def upper(self) -> str:
        """What its macros' names have."""
        return self.suffix.upper()

    @property
    def section(self) -> str:
        """The macro that names its section."""
        return section_macro("weights", self.region)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all arrays as they lie in memory."""
        return sum(array.stored_bytes for array in self.arrays)


@dataclass(frozen=True)
class Weights:
    """All structures of a model, one for each region that weights lie in.

    `names` has for each constant the C expression of its array, `crc` the CRC-32 (zlib's) of the
    `stored_bytes` that the arrays take in memory; None without arrays, and with a NaN in them,
    whose bits C leaves to the compiler.
    """

    objects: tuple[WeightsObject, ...]
    names: Mapping[str, str]
    crc: int | None

    @property
    def arrays(self) -> tuple[DataArray, ...]:
        """All arrays, in the order in which the CRC takes them."""
        return tuple(array for part in self.objects for array in part.arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, without what rounds them up."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all arrays as they lie in memory."""
        return sum(part.stored_bytes for part in self.objects)


def section_macro(kind: str, region: str) -> str:
    """The macro that names the section of weights or code in a region, "" for the usual one."""
    return f"EC_SECTION_{kind.upper()}" + (f"_{region.upper()}" if region else "")


def make_weights(
    model: str, constants: Mapping[str, np.ndarray], homes: Mapping[str, str] | None = None
) -> Weights:
    """Name and print a program's constants; `homes` has the regions of those that are placed."""
    homes = homes or {}
    first: dict[tuple[str, str, bytes], str] = {}
    stands_for: dict[str, str] = {}
    for name, array in constants.items():
        key = (homes.get(name, ""), array.dtype.name, np.ascontiguousarray(array).tobytes())
        stands_for[name] = first.setdefault(key, name)
    kept = [name for name in constants if stands_for[name] == name]
    # Small ones first: a short instruction leads from one to the next.
    kept.sort(
        key=lambda name: (-max(constants[name].itemsize, WEIGHT_ALIGNMENT), constants[name].nbytes)
    )
    members = unique(f"w_{identifier(name, fallback='c')}" for name in kept)
    by_name = dict(zip(kept, members, strict=True))
    objects = []
    crc = 0
    for region in sorted({homes.get(name, "") for name in kept}):
        inside = [name for name in kept if homes.get(name, "") == region]
        arrays = tuple(_array(by_name[name], name, constants[name]) for name in inside)
        objects.append(WeightsObject(region, arrays))
        for name in inside:
            crc = zlib.crc32(_stored(constants[name]), crc)
    bases = {part.region: f"{model}_{WEIGHTS_OBJECT}{part.suffix}" for part in objects}
    names = {
        name: f"{bases[homes.get(name, '')]}.{by_name[stands_for[name]]}" for name in constants
    }
    sure = bool(kept) and not any(np.isnan(constants[name]).any() for name in kept)
    return Weights(tuple(objects), names, crc if sure else None)


def initializer_lines(array: np.ndarray) -> tuple[str, ...]:
    """The elements, row-major, as lines of at most 98 columns that each end with a comma."""
    flat = np.ascontiguousarray(array).reshape(-1)
    dtype = flat.dtype.name
    if dtype in ("int8", "uint8", "int16", "uint16", "bool"):
        texts = list(map(str, flat.astype(np.int64).tolist()))
    else:
        texts = [literal(v, dtype) for v in flat.tolist()]
    # Models have hundreds of thousands of weights: the same number in every line is fast.
    widest = max(map(len, texts), default=1)
    each = max((COLUMNS - 4) // (widest + 2), 1)
    return tuple(f"    {', '.join(texts[i : i + each])}," for i in range(0, len(texts), each))


def _stored(array: np.ndarray) -> bytes:
    """The bytes of a constant in memory: little endian, zeros up to a multiple of 4; never none."""
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    data = little.tobytes() or bytes(array.itemsize)
    return data + bytes(-len(data) % WEIGHT_ALIGNMENT)


def _array(member: str, name: str, array: np.ndarray) -> DataArray:
    shape = "".join(f"[{extent}]" for extent in array.shape)
    stored = _stored(array)
    stored_bytes = len(stored)
    lines = initializer_lines(np.frombuffer(stored, array.dtype.newbyteorder("<")))
    return DataArray(
        declaration=f"{C_TYPE[array.dtype.name]} {member}[{stored_bytes // array.itemsize}]",
        comment=f"{comment_text(name)}: {array.dtype.name}{shape}",
        lines=lines,
        nbytes=array.nbytes,
        stored_bytes=stored_bytes,
    )


def comment_text(text: str) -> str:
    """Text that cannot end a C comment, start a nested one, or leave printable ASCII."""
    safe = "".join(c if " " <= c <= "~" else "?" for c in text)
    return safe.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/").replace("??", "?")
