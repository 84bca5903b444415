"""Open sizes of a run, from the shapes of its inputs, and arrays at the largest sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.codegen.manifest import Manifest, PortEntry
from edgec.errors import RunFailed
from edgec.numerics.term import Term, Var
from edgec.numerics.term_text import read_term

Array = npt.NDArray[Any]


def chosen_sizes(manifest: Manifest, inputs: Sequence[Array]) -> tuple[int, ...]:
    """The value of each size of the manifest. Raises RunFailed where that may not be."""
    found: dict[str, int] = {}
    for port, array in zip(manifest.inputs, inputs, strict=True):
        for term, extent in zip(_terms(manifest, port), array.shape, strict=False):
            if len(term.parts) == 1 and isinstance(term.parts[0][0], Var):
                var, factor = term.parts[0]
                found.setdefault(str(var), (extent - term.offset) // factor)
    for size in manifest.sizes:
        if size.name not in found:
            raise RunFailed(f"no input of {manifest.model} says how large {size.name!r} is")
        if not size.minimum <= found[size.name] <= size.maximum:
            raise RunFailed(
                f"{size.name!r} of {manifest.model} is {found[size.name]} by the inputs' shapes,"
                f" {size.minimum} to {size.maximum} are possible"
            )
    return tuple(found[size.name] for size in manifest.sizes)


def shape_of(manifest: Manifest, port: PortEntry, sizes: Sequence[int]) -> tuple[int, ...]:
    """The dimensions of an input or output at these sizes."""
    values = {s.name: value for s, value in zip(manifest.sizes, sizes, strict=True)}
    return tuple(term.evaluate(values) for term in _terms(manifest, port)) or tuple(port.shape)


def at_largest(port: PortEntry, array: Array) -> Array:
    """The bytes of a port of the largest shape that begins with an array."""
    if array.shape == tuple(port.shape):
        return array
    largest = np.zeros(port.shape, array.dtype)
    largest.reshape(-1)[: array.size] = array.reshape(-1)
    return largest


def in_use(array: Array, shape: tuple[int, ...]) -> Array:
    """The elements of an array of the largest shape that a run computed: the first ones."""
    return array.reshape(-1)[: math.prod(shape)].reshape(shape)


def _terms(manifest: Manifest, port: PortEntry) -> tuple[Term, ...]:
    variables = {s.name: Var(s.name, s.minimum, s.maximum + 1) for s in manifest.sizes}
    return tuple(read_term(text, variables) for text in port.extents)
