"""Integer matrices of low rank, as a product of two smaller ones, exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Rows that all others are sums of, at most: with more of them the second product costs too much.
MOST_ROWS = 64
#: The largest factor of a row.
MOST_FACTOR = 127


@dataclass(frozen=True)
class Factors:
    """matrix[o, k] = sum over r of mix[o, r] * matrix[rows[r], k]. mix: int8 [rows, len(rows)]."""

    rows: tuple[int, ...]
    mix: npt.NDArray[np.int8]


def integer_factors(matrix: npt.NDArray[np.int8]) -> Factors | None:
    """Few rows of a matrix [rows, columns], and the integers that make all rows of them.

    None where there are none that halve the number of products: nearly always one small
    decomposition shows that.
    """
    count, width = matrix.shape
    most = min(MOST_ROWS, count * width // (2 * (count + width)))
    if most < 1 or not matrix.any() or _rank_exceeds(matrix, most):
        return None
    rows = _independent(matrix, most)
    return _checked(matrix.astype(np.int64), rows) if rows else None


def _independent(matrix: npt.NDArray[np.int8], most: int) -> tuple[int, ...]:
    """Numbers of at most `most` rows that all others are integer sums of; empty if there are none.

    Only evenly spaced columns are looked at. The smallest rows come first: a row is a multiple
    of a smaller one, not the other way round.
    """
    unique, first = np.unique(matrix, axis=0, return_index=True)
    order = np.argsort(np.linalg.norm(unique.astype(np.float64), axis=1), kind="stable")
    rest = unique[order][:, _spaced(unique, 0, 2 * most + 2)].astype(np.float64)
    taken = [int(np.argmax(rest.any(axis=1)))]
    while len(taken) <= most and np.linalg.matrix_rank(rest[taken]) == len(taken):
        mix = np.rint(rest @ np.linalg.pinv(rest[taken]))
        left = np.flatnonzero((mix @ rest[taken] != rest).any(axis=1))
        if not len(left):
            return tuple(int(first[order[row]]) for row in taken)
        taken.append(int(left[0]))
    return ()


def _rank_exceeds(rows: npt.NDArray[np.int8], most: int) -> bool:
    """Whether some rows and columns, evenly spaced, have a larger rank already."""
    part = rows[np.ix_(_spaced(rows, 1, most + 1), _spaced(rows, 0, 2 * most + 2))]
    return int(np.linalg.matrix_rank(part.astype(np.float64))) > most


def _spaced(matrix: npt.NDArray[np.int8], axis: int, most: int) -> npt.NDArray[np.int64]:
    """At most `most` columns (axis 0) or rows (1) that are not all zero, evenly spaced."""
    found = np.flatnonzero(np.any(matrix, axis=axis)).astype(np.int64)
    return found[np.unique(np.linspace(0, len(found) - 1, most).astype(np.int64))]


def _checked(matrix: npt.NDArray[np.int64], rows: tuple[int, ...]) -> Factors | None:
    """The factors of these rows, if they are exact integers of int8."""
    chosen = matrix[list(rows)]
    mix = np.rint(matrix @ np.linalg.pinv(chosen.astype(np.float64))).astype(np.int64)
    if np.abs(mix).max() > MOST_FACTOR or not np.array_equal(mix @ chosen, matrix):
        return None
    return Factors(rows, mix.astype(np.int8))
