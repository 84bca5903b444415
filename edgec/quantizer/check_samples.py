"""The caller's samples, checked one by one as they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from edgec.errors import EdgecError
from edgec.graph.ir import Value
from edgec.graph.types import Array


def checked_samples(params: Sequence[Value], samples: Iterable[Any]) -> Iterator[list[Array]]:
    """Each sample as arrays of the parameters' shapes and dtypes.

    A sample is one array for each parameter, or for a single parameter also the array itself. Wider
    floats become float32. Raises EdgecError, which counts samples from 1, for any other number of
    arrays, shape or dtype, and for a NaN or an infinity.
    """
    try:
        iterator = iter(samples)
    except TypeError:
        raise EdgecError(f"samples must be an iterable, not {samples!r}") from None
    for number, sample in enumerate(iterator, start=1):
        arrays = [sample] if isinstance(sample, np.ndarray) and len(params) == 1 else sample
        if not isinstance(arrays, (list, tuple)) or len(arrays) != len(params):
            count = len(arrays) if isinstance(arrays, (list, tuple)) else type(sample).__name__
            raise EdgecError(
                f"calibration sample {number}: {len(params)} arrays are needed, not {count}",
                hint="a sample is a list with one array for each input",
            )
        yield [_checked(param, x, number) for param, x in zip(params, arrays, strict=True)]


def _checked(param: Value, given: Any, number: int) -> Array:
    where = f"calibration sample {number}, input {param.name}"
    array = np.asarray(given)
    wanted = np.dtype(param.type.dtype)
    if array.dtype.kind != wanted.kind or array.shape != param.type.shape:
        raise EdgecError(
            f"{where}: {wanted}{list(param.type.shape)} is needed,"
            f" {array.dtype}{list(array.shape)} was given",
            hint="give every sample in the shape and the scaling that the float model is run with",
        )
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, wanted)
    if wanted.kind == "f" and not np.isfinite(array).all():
        raise EdgecError(
            f"{where}: it holds a NaN or an infinity",
            hint="look for a damaged sample, or for a division by zero where it was made",
        )
    return array
