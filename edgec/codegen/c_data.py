"""Constant arrays as the members of one C structure; equal arrays are written once.

One structure, since its layout is then known here: one CRC covers all constants as they lie in
flash. Members with the widest elements come first and sizes are multiples of 4 bytes, so that no
compiler puts padding between members.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from edgec.codegen.c_types import C_TYPE, INT_RANGE, literal
from edgec.codegen.names import identifier, unique
from edgec.targets.core import WORD_BYTES

COLUMNS = 98
INDENT = " " * 8
LINES_AT_ONCE = 1024
#: Up to this many floats are printed with the fewest digits that mean the same float32. More get
#: nine digits, which always suffice, since finding the fewest takes five times as long.
FEW_FLOATS = 4096
#: From this many bytes on, constants are a file of their own: compilers read numbers slowly.
BLOB_BYTES = 4 << 20
WEIGHTS_OBJECT = "weights"  # after the model's name

#: Names of a model file may be very long, for example the joined names of several layers.
MOST_COMMENT = 88


@dataclass(frozen=True)
class DataArray:
    """One array of the weights: a member of the structure, and its initializer.

    `nbytes` is the constant's own size, `stored_bytes` with the zeros that round it up.
    """

    declaration: str
    comment: str
    nbytes: int
    stored_bytes: int
    stored: np.ndarray = field(repr=False, compare=False)

    @property
    def member(self) -> str:
        """The constant's name in the structure."""
        return self.declaration.partition("[")[0].split()[-1]

    @property
    def chunks(self) -> Iterator[str]:
        return initializer_chunks(self.stored)


@dataclass(frozen=True)
class WeightsObject:
    """One structure: its arrays in their order in memory, and the board's region it lies in.

    region: "" for the linker's default.
    """

    region: str
    arrays: tuple[DataArray, ...]

    @property
    def suffix(self) -> str:
        """The suffix of its names."""
        return f"_{self.region}" if self.region else ""

    @property
    def upper(self) -> str:
        return self.suffix.upper()

    @property
    def section(self) -> str:
        return section_macro("weights", self.region)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all arrays as they lie in memory."""
        return sum(array.stored_bytes for array in self.arrays)

    @property
    def struct_bytes(self) -> int:
        """The structure's size in C, a multiple of its largest element's size."""
        largest = max(array.stored.itemsize for array in self.arrays)
        return -(-self.stored_bytes // largest) * largest

    @property
    def bytes(self) -> Iterator[memoryview]:
        """These bytes, array by array."""
        return (array.stored.data.cast("B") for array in self.arrays)


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
    alignment: int = WORD_BYTES

    @property
    def arrays(self) -> tuple[DataArray, ...]:
        return tuple(array for part in self.objects for array in part.arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, without padding."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all arrays as they lie in memory."""
        return sum(part.stored_bytes for part in self.objects)


def section_macro(kind: str, region: str) -> str:
    """The macro that names the section of weights or code in a region, "" for the usual one."""
    return f"EC_SECTION_{kind.upper()}" + (f"_{region.upper()}" if region else "")


def make_weights(
    model: str,
    constants: Mapping[str, np.ndarray],
    regions: Mapping[str, str] | None = None,
    alignment: int = WORD_BYTES,
) -> Weights:
    """Name and print a program's constants; `regions` has the regions of placed constants.

    alignment: of each array in bytes, a multiple of 4.
    """
    regions = regions or {}
    first: dict[tuple[str, str, bytes], str] = {}
    stands_for: dict[str, str] = {}
    for name, array in constants.items():
        key = (regions.get(name, ""), array.dtype.name, np.ascontiguousarray(array).tobytes())
        stands_for[name] = first.setdefault(key, name)
    kept = [name for name in constants if stands_for[name] == name]
    # Small ones first: a short instruction leads from one to the next.
    kept.sort(key=lambda name: (-max(constants[name].itemsize, alignment), constants[name].nbytes))
    members = unique(f"w_{identifier(name, fallback='c')}" for name in kept)
    by_name = dict(zip(kept, members, strict=True))
    objects = []
    crc = 0
    for region in sorted({regions.get(name, "") for name in kept}):
        inside = [name for name in kept if regions.get(name, "") == region]
        arrays = tuple(_array(by_name[name], name, constants[name], alignment) for name in inside)
        objects.append(WeightsObject(region, arrays))
        for name in inside:
            crc = zlib.crc32(_stored(constants[name], alignment), crc)
    bases = {part.region: f"{model}_{WEIGHTS_OBJECT}{part.suffix}" for part in objects}
    names = {
        name: f"{bases[regions.get(name, '')]}.{by_name[stands_for[name]]}" for name in constants
    }
    sure = bool(kept) and not any(np.isnan(constants[name]).any() for name in kept)
    return Weights(tuple(objects), names, crc if sure else None, alignment)


def initializer_chunks(array: np.ndarray) -> Iterator[str]:
    """The elements, row-major, as lines of at most 98 columns that each end with a comma."""
    flat = np.ascontiguousarray(array).reshape(-1)
    values, spec, widest = _printed(flat)
    # Every line has the same number of numbers: one `%` then prints thousands of them.
    each = max((COLUMNS - len(INDENT)) // (widest + 2), 1)
    line = f"{INDENT}{', '.join([spec] * each)},\n"
    for start in range(0, len(values), each * LINES_AT_ONCE):
        part = values[start : start + each * LINES_AT_ONCE]
        lines, rest = divmod(len(part), each)
        end = f"{INDENT}{', '.join([spec] * rest)},\n" if rest else ""
        yield (line * lines + end) % tuple(part if isinstance(part, list) else part.tolist())


def _printed(flat: np.ndarray) -> tuple[np.ndarray | list[str], str, int]:
    """The values to print, their format, and the width of the widest."""
    dtype = flat.dtype.name
    if dtype in ("int8", "uint8", "int16", "uint16", "int32", "bool"):
        numbers = flat.astype(np.int32)
        ends = (int(numbers.min(initial=0)), int(numbers.max(initial=0)))
        if ends[0] > INT_RANGE["int32"][0]:  # which has no literal
            return numbers, "%d", max(len(str(end)) for end in ends)
    if dtype == "float32" and flat.size > FEW_FLOATS and np.isfinite(flat).all():
        return flat, "%#.9gf", len("-1.23456789e-01f")
    texts = [literal(v, dtype) for v in flat.tolist()]
    return texts, "%s", max(map(len, texts), default=1)


def _stored(array: np.ndarray, alignment: int) -> bytes:
    """The bytes of a constant in memory: little endian, zeros up to the alignment; never none."""
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    data = little.tobytes() or bytes(array.itemsize)
    return data + bytes(-len(data) % alignment)


def _array(member: str, name: str, array: np.ndarray, alignment: int) -> DataArray:
    shape = "".join(f"[{extent}]" for extent in array.shape)
    stored = _stored(array, alignment)
    stored_bytes = len(stored)
    return DataArray(
        declaration=f"{C_TYPE[array.dtype.name]} {member}[{stored_bytes // array.itemsize}]",
        comment=f"{comment_text(name)}: {array.dtype.name}{shape}",
        nbytes=array.nbytes,
        stored_bytes=stored_bytes,
        stored=np.frombuffer(stored, array.dtype.newbyteorder("<")),
    )


def comment_text(text: str) -> str:
    """Text that cannot end a C comment, start a nested one, or leave printable ASCII."""
    safe = "".join(c if " " <= c <= "~" else "?" for c in text)
    return safe.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/").replace("??", "?")


def short_comment(text: str) -> str:
    """The text of a comment in at most MOST_COMMENT characters, without its middle if need be."""
    safe = comment_text(text)
    if len(safe) <= MOST_COMMENT:
        return safe
    half = (MOST_COMMENT - 5) // 2
    return f"{safe[:half]} ... {safe[-half:]}"
