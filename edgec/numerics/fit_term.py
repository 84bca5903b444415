"""Fits terms to known values: from an integer at some sizes to a term for all sizes.

An integer that depends on sizes is evaluated at several of them. The term is the simplest of a few
forms that fits all values; the caller checks it at other sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from edgec.numerics.term import Product, Term, Var, as_term, floor_div

#: Divisors of windows' strides and factors of images that grow.
MOST_DIVISOR, MOST_FACTOR = 16, 8

#: The value of each symbol.
Sizes = Mapping[Var, int]


def fit_term(
    values: Sequence[int], sizes: Sequence[Sizes], bases: Iterable[Term] = ()
) -> Term | None:
    """The term that has these values at these sizes, or None.

    In this order: a constant, a base, a sum of a number and multiples of a product, of the symbols,
    of a base, of all bases, of bases and symbols, and (a*base + b) // d. bases: its likely
    subterms, such as the extents of inputs; products of sizes occur only in sums with a number.
    """
    return next((term for term in _forms(values, sizes, bases) if term is not None), None)


def _forms(
    values: Sequence[int], sizes: Sequence[Sizes], bases: Iterable[Term]
) -> Iterator[Term | None]:
    """One form after the other, None for forms that do not fit."""
    if len(set(values)) == 1:
        yield as_term(values[0])
    symbols = sorted({var for each in sizes for var in each}, key=lambda var: var.name)
    plain = [as_term(var) for var in symbols if var.stop - var.start > 1]
    given = [term for term in dict.fromkeys(bases) if term.constant is None]
    yield from (term for term in given if _has(term, values, sizes))
    products = [term for term in given if any(isinstance(a, Product) for a, _ in term.parts)]
    sums = [term for term in given if term not in products]
    alone = ([term] for term in given)
    sets = (*([term] for term in products), plain, *alone, sums, [*sums, *plain])
    yield from (_linear(values, sizes, terms) for terms in sets)
    yield from (_divided(values, sizes, term) for term in (*given, *plain))


def value_at(term: Term, sizes: Sizes) -> int:
    """The value of a term where the symbols have these."""
    return term.evaluate({var.name: size for var, size in sizes.items()})


def _linear(values: Sequence[int], sizes: Sequence[Sizes], terms: Sequence[Term]) -> Term | None:
    """A constant and multiples of terms."""
    if not terms:
        return None
    rows = np.array([[*(value_at(term, each) for term in terms), 1] for each in sizes], float)
    solved = np.linalg.lstsq(rows, np.array(values, float), rcond=None)[0]
    factors = [round(float(factor)) for factor in solved]
    total = as_term(factors[-1])
    for term, factor in zip(terms, factors, strict=False):
        total = total + term * factor
    return total if _has(total, values, sizes) else None


def _divided(values: Sequence[int], sizes: Sequence[Sizes], term: Term) -> Term | None:
    """(a*term + b) // d of small a and d."""
    places = np.array([value_at(term, each) for each in sizes])
    wanted = np.array(values)
    for divisor, factor in product(range(2, MOST_DIVISOR + 1), range(1, MOST_FACTOR + 1)):
        least = wanted * divisor - places * factor
        low, high = int(least.max()), int(least.min()) + divisor - 1
        if low <= high:
            return floor_div(term * factor + low, divisor)
    return None


def _has(term: Term, values: Sequence[int], sizes: Sequence[Sizes]) -> bool:
    return all(value_at(term, each) == value for value, each in zip(values, sizes, strict=True))
