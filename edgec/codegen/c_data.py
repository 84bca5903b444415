"""Constant arrays as C initializers; equal arrays are written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgec.codegen.c_types import C_TYPE, literal
from edgec.codegen.names import identifier, unique

COLUMNS = 98
WEIGHT_ALIGNMENT = 4  # word loads of int8 weights, also by LDM and LDRD, which need it


@dataclass(frozen=True)
class DataArray:
    """One array of the weights file."""

    c_name: str
    declaration: str
    comment: str
    lines: tuple[str, ...]
    nbytes: int


@dataclass(frozen=True)
class Weights:
    """All arrays of a model, and which of them stands for which constant."""

    arrays: tuple[DataArray, ...]
    names: Mapping[str, str]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, without padding between them."""
        return sum(array.nbytes for array in self.arrays)


def make_weights(model: str, constants: Mapping[str, np.ndarray]) -> Weights:
    """Name and print a program's constants."""
    first: dict[tuple[str, bytes], str] = {}
    stands_for: dict[str, str] = {}
    for name, array in constants.items():
        key = (array.dtype.name, np.ascontiguousarray(array).tobytes())
        stands_for[name] = first.setdefault(key, name)
    kept = [name for name in constants if stands_for[name] == name]
    c_names = unique(f"{model}_w_{identifier(name, fallback='c')}" for name in kept)
    by_name = dict(zip(kept, c_names, strict=True))
    arrays = tuple(_array(by_name[name], name, constants[name]) for name in kept)
    return Weights(arrays, {name: by_name[stands_for[name]] for name in constants})


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


def _array(c_name: str, name: str, array: np.ndarray) -> DataArray:
    shape = "".join(f"[{extent}]" for extent in array.shape)
    elements = max(array.size, 1)
    lines = initializer_lines(array) if array.size else ("    0,",)
    return DataArray(
        c_name=c_name,
        declaration=f"const {C_TYPE[array.dtype.name]} {c_name}[{elements}]",
        comment=f"{comment_text(name)}: {array.dtype.name}{shape}",
        lines=lines,
        nbytes=array.nbytes,
    )


def comment_text(text: str) -> str:
    """Text that cannot end a C comment, start a nested one, or leave printable ASCII."""
    safe = "".join(c if " " <= c <= "~" else "?" for c in text)
    return safe.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/").replace("??", "?")
