"""Index terms: small integer expressions in linear normal form, with bounds.

A term is `offset + sum(coefficient * atom)`. Atoms are variables and the non-linear results of
floor division, floor modulo, minimum, maximum and products of sizes. Building a term simplifies it,
so equal index expressions are mostly equal objects, and `bounds` returns the interval of a term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Union


@dataclass(frozen=True)
class Var:
    """An index variable with values in the half-open interval [start, stop)."""

    name: str
    start: int
    stop: int

    def __hash__(self) -> int:
        return hash(self.name)  # a text remembers its hash

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Divided:
    dividend: Term
    divisor: int

    def __str__(self) -> str:
        return f"({self.dividend}) {'//' if isinstance(self, FloorDiv) else '%'} {self.divisor}"


class FloorDiv(_Divided):
    """`floor(dividend / divisor)`, divisor > 0."""


class FloorMod(_Divided):
    """`dividend - divisor * floor(dividend / divisor)`, divisor > 0."""


@dataclass(frozen=True)
class _Pair:
    left: Term
    right: Term

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()}({self.left}, {self.right})"


class Min(_Pair):
    """The smaller of two terms."""


class Max(_Pair):
    """The larger of two terms."""


class Product(_Pair):
    """The product of two sizes, which are not negative, such as the pixels of an image."""

    def __str__(self) -> str:
        return f"({self.left})*({self.right})"


Atom = Union[Var, FloorDiv, FloorMod, Min, Max, Product]
TermLike = Union["Term", Var, int]


@dataclass(frozen=True)
class Term:
    """`offset + sum(coefficient * atom)`; `parts` is sorted and holds no zero coefficient."""

    parts: tuple[tuple[Atom, int], ...]
    offset: int

    def __hash__(self) -> int:
        known = self.__dict__
        if "_hash" not in known:
            known["_hash"] = hash((self.parts, self.offset))
        found: int = known["_hash"]
        return found

    def __reduce__(self) -> tuple[type[Term], tuple[tuple[tuple[Atom, int], ...], int]]:
        # Without the cached values: hashes of strings differ between processes.
        return Term, (self.parts, self.offset)

    def __add__(self, other: TermLike) -> Term:
        if not isinstance(other, Term):
            other = as_term(other)
        if not other.parts:
            return Term(self.parts, self.offset + other.offset) if other.offset else self
        if not self.parts:
            return Term(other.parts, self.offset + other.offset) if self.offset else other
        total: dict[Atom, int] = dict(self.parts)
        for atom, coefficient in other.parts:
            total[atom] = total.get(atom, 0) + coefficient
        return _normal(total, self.offset + other.offset)

    __radd__ = __add__

    def __neg__(self) -> Term:
        return self * -1

    def __sub__(self, other: TermLike) -> Term:
        other = as_term(other)
        if not other.parts:
            return Term(self.parts, self.offset - other.offset) if other.offset else self
        return self + other * -1

    def __rsub__(self, other: TermLike) -> Term:
        return as_term(other) - self

    def __mul__(self, other: TermLike) -> Term:
        other = as_term(other)
        if not other.parts:
            k = other.offset
            if k == 1:
                return self
            if k == 0 or not self.parts:
                return Term((), self.offset * k)
            return Term(tuple((a, c * k) for a, c in self.parts), self.offset * k)
        if not self.parts:
            return other * self.offset
        raise ValueError(f"not linear: ({self}) * ({other})")

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Term:
        return floor_div(self, divisor)

    def __mod__(self, divisor: int) -> Term:
        return floor_mod(self, divisor)

    @property
    def constant(self) -> int | None:
        """The value if the term does not depend on any variable, else None."""
        return None if self.parts else self.offset

    # `cached_property` takes a lock in Python 3.11, which costs more than the cached result here.

    def variables(self) -> frozenset[Var]:
        known = self.__dict__
        if "_variables" not in known:
            known["_variables"] = _term_variables(self)
        found: frozenset[Var] = known["_variables"]
        return found

    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value (both inclusive) that the term can take."""
        known = self.__dict__
        if "_bounds" not in known:
            known["_bounds"] = _term_bounds(self)
        found: tuple[int, int] = known["_bounds"]
        return found

    def substitute(self, values: Mapping[Var, TermLike]) -> Term:
        """Replace variables by terms."""
        if not self.parts or self.variables().isdisjoint(values):
            return self
        offset = self.offset
        total: dict[Atom, int] = {}
        for atom, coefficient in self.parts:
            term = _substitute_atom(atom, values)
            offset += term.offset * coefficient
            for part, factor in term.parts:
                total[part] = total.get(part, 0) + factor * coefficient
        return _normal(total, offset)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value for given variable values, by name."""
        total = self.offset
        for atom, coefficient in self.parts:
            total += coefficient * _evaluate_atom(atom, values)
        return total

    def __str__(self) -> str:
        text = ""
        for atom, coefficient in self.parts:
            sign = "-" if coefficient < 0 else "+"
            size = abs(coefficient)
            inner = str(atom)
            if size != 1:
                wrap = isinstance(atom, (FloorDiv, FloorMod))
                inner = f"({inner})*{size}" if wrap else f"{inner}*{size}"
            elif sign == "-" and not text and isinstance(atom, (FloorDiv, FloorMod)):
                inner = f"({inner})"
            text = f"{text} {sign} {inner}" if text else (inner if sign == "+" else f"-{inner}")
        if not text:
            return str(self.offset)
        if self.offset:
            text += f" {'-' if self.offset < 0 else '+'} {abs(self.offset)}"
        return text


def as_term(value: TermLike) -> Term:
    """Make a term of an int, a variable or a term."""
    if isinstance(value, Term):
        return value
    if isinstance(value, Var):
        if value.stop - value.start == 1:  # a loop of one step: the variable is a constant
            return Term((), value.start)
        return Term(((value, 1),), 0)
    return Term((), int(value))


def floor_div(value: TermLike, divisor: int) -> Term:
    """`floor(value / divisor)`; the multiples of the divisor are taken out exactly."""
    value = as_term(value)
    if divisor <= 0:
        raise ValueError(f"divisor {divisor} is not positive")
    low, high = value.bounds()
    if low // divisor == high // divisor:
        return as_term(low // divisor)
    whole = {a: c // divisor for a, c in value.parts if c % divisor == 0}
    rest = _normal({a: c for a, c in value.parts if c % divisor}, value.offset % divisor)
    out = _normal(whole, value.offset // divisor)
    low, high = rest.bounds()
    if low // divisor == high // divisor:
        return out + low // divisor
    common, multiple, _ = _split_multiple(rest, divisor)
    if common > 1:
        return out + floor_div(multiple, divisor // common)
    if len(rest.parts) == 1 and not rest.offset and rest.parts[0][1] == 1:
        inner = rest.parts[0][0]
        if isinstance(inner, FloorDiv):
            return out + floor_div(inner.dividend, inner.divisor * divisor)
    return out + Term(((FloorDiv(rest, divisor), 1),), 0)


def floor_mod(value: TermLike, divisor: int) -> Term:
    """`value mod divisor` in [0, divisor)."""
    value = as_term(value)
    if divisor <= 0:
        raise ValueError(f"divisor {divisor} is not positive")
    rest = _normal({a: c for a, c in value.parts if c % divisor}, value.offset % divisor)
    low, high = rest.bounds()
    if low // divisor == high // divisor:
        return rest - low // divisor * divisor
    common, multiple, remainder = _split_multiple(rest, divisor)
    if common > 1:
        return floor_mod(multiple, divisor // common) * common + remainder
    return Term(((FloorMod(rest, divisor), 1),), 0)


def minimum(left: TermLike, right: TermLike) -> Term:
    """The smaller of two terms, decided now where bounds allow."""
    left, right = as_term(left), as_term(right)
    low, high = (left - right).bounds()
    if high <= 0:
        return left
    if low >= 0:
        return right
    return Term(((Min(left, right), 1),), 0)


def maximum(left: TermLike, right: TermLike) -> Term:
    """The larger of two terms, decided now where bounds allow."""
    left, right = as_term(left), as_term(right)
    low, high = (left - right).bounds()
    if high <= 0:
        return right
    if low >= 0:
        return left
    return Term(((Max(left, right), 1),), 0)


def product(left: TermLike, right: TermLike) -> Term:
    """Return the product of two terms, both sizes."""
    left, right = as_term(left), as_term(right)
    if not left.parts or not right.parts:
        return left * right
    if left.bounds()[0] < 0 or right.bounds()[0] < 0:
        raise ValueError(f"not both sizes: ({left}) * ({right})")
    return Term(((Product(left, right), 1),), 0)


def _normal(parts: Mapping[Atom, int], offset: int) -> Term:
    kept = [(a, c) for a, c in parts.items() if c]
    for atom, coefficient in kept:
        if isinstance(atom, FloorMod):  # (x // n)*n + x % n is x
            quotient = FloorDiv(atom.dividend, atom.divisor)
            if parts.get(quotient) == coefficient * atom.divisor:
                rest = {a: c for a, c in kept if a not in (atom, quotient)}
                return _normal(rest, offset) + atom.dividend * coefficient
            wider = _wider_mod(atom, coefficient, kept)
            if wider is not None:
                other, both = wider
                rest = {a: c for a, c in kept if a not in (atom, other)}
                return _normal(rest, offset) + both * coefficient
    if len(kept) > 1:
        kept.sort(key=_sort_key)
    return Term(tuple(kept), offset)


def _wider_mod(
    atom: FloorMod, coefficient: int, parts: Sequence[tuple[Atom, int]]
) -> tuple[Atom, Term] | None:
    """(x // n % m)*n + x % n is x % (n*m): the other atom, and the result."""
    quotient = Term(((FloorDiv(atom.dividend, atom.divisor), 1),), 0)
    for other, factor in parts:
        if (
            isinstance(other, FloorMod)
            and factor == coefficient * atom.divisor
            and other.dividend == quotient
        ):
            return other, floor_mod(atom.dividend, atom.divisor * other.divisor)
    return None


def _sort_key(part: tuple[Atom, int]) -> str:
    return str(part[0])


def _split_multiple(term: Term, divisor: int) -> tuple[int, Term, Term]:
    """Find g > 1 that divides the divisor, with term = g * multiple + rest,
    0 <= rest < g.

    Then floor(term / divisor) = floor(multiple / (divisor / g)). Returns g = 1 if there is none.
    """
    factors = {gcd(c, divisor) for _, c in term.parts} - {1}
    for common in sorted(factors, reverse=True):
        multiple = {a: c // common for a, c in term.parts if c % common == 0}
        remainder = _normal({a: c for a, c in term.parts if c % common}, term.offset % common)
        low, high = remainder.bounds()
        if low >= 0 and high < common:
            return common, _normal(multiple, term.offset // common), remainder
    return 1, term, as_term(0)


# Each minimum or maximum in a sum doubles the work of tight bounds; above this many, be loose.
_MOST_CHOICES = 6


def _term_variables(term: Term) -> frozenset[Var]:
    found: set[Var] = set()
    for atom, _ in term.parts:
        if isinstance(atom, Var):
            found.add(atom)
        elif isinstance(atom, (FloorDiv, FloorMod)):
            found |= atom.dividend.variables()
        else:
            found |= atom.left.variables() | atom.right.variables()
    return frozenset(found)


def _term_bounds(term: Term) -> tuple[int, int]:
    choices = [(a, c) for a, c in term.parts if isinstance(a, (Min, Max))]
    if choices and len(term.parts) > 1 and len(choices) <= _MOST_CHOICES:
        # rest + max(a, b) = max(rest + a, rest + b): variables of the rest cancel inside.
        atom, coefficient = choices[0]
        rest = Term(tuple(part for part in term.parts if part[0] != atom), term.offset)
        a = (rest + atom.left * coefficient).bounds()
        b = (rest + atom.right * coefficient).bounds()
        choose = min if isinstance(atom, Min) == (coefficient > 0) else max
        return choose(a[0], b[0]), choose(a[1], b[1])
    low = high = term.offset
    for part, coefficient in term.parts:
        least, most = _atom_bounds(part)
        low += coefficient * (least if coefficient > 0 else most)
        high += coefficient * (most if coefficient > 0 else least)
    for part, coefficient in term.parts:
        if isinstance(part, FloorDiv) and coefficient % part.divisor == 0:
            rest = Term(tuple(p for p in term.parts if p[0] != part), term.offset)
            if part.dividend.variables() & rest.variables():
                least, most = _bounds_by_rounding(rest, part, coefficient // part.divisor)
                low, high = max(low, least), min(high, most)
    return low, high


def _bounds_by_rounding(rest: Term, quotient: FloorDiv, factor: int) -> tuple[int, int]:
    """The bounds of rest + (x // n)*n*factor, which differs from rest + x*factor by at most (n -
    1)*factor.

    There the variables of x cancel variables of the rest, as in dilated windows.
    """
    low, high = (rest + quotient.dividend * factor).bounds()
    off = (quotient.divisor - 1) * factor
    return (low - off, high) if factor > 0 else (low, high - off)


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, Var):
        return atom.start, atom.stop - 1
    if isinstance(atom, FloorDiv):
        low, high = atom.dividend.bounds()
        return low // atom.divisor, high // atom.divisor
    if isinstance(atom, FloorMod):
        return 0, atom.divisor - 1
    (a, b), (c, d) = atom.left.bounds(), atom.right.bounds()
    if isinstance(atom, Product):
        return a * c, b * d
    return (min(a, c), min(b, d)) if isinstance(atom, Min) else (max(a, c), max(b, d))


def _substitute_atom(atom: Atom, values: Mapping[Var, TermLike]) -> Term:
    if isinstance(atom, Var):
        return as_term(values.get(atom, atom))
    if isinstance(atom, FloorDiv):
        return floor_div(atom.dividend.substitute(values), atom.divisor)
    if isinstance(atom, FloorMod):
        return floor_mod(atom.dividend.substitute(values), atom.divisor)
    left, right = atom.left.substitute(values), atom.right.substitute(values)
    if isinstance(atom, Product):
        return product(left, right)
    return minimum(left, right) if isinstance(atom, Min) else maximum(left, right)


def _evaluate_atom(atom: Atom, values: Mapping[str, int]) -> int:
    if isinstance(atom, Var):
        return values[atom.name]
    if isinstance(atom, FloorDiv):
        return atom.dividend.evaluate(values) // atom.divisor
    if isinstance(atom, FloorMod):
        return atom.dividend.evaluate(values) % atom.divisor
    pair = atom.left.evaluate(values), atom.right.evaluate(values)
    if isinstance(atom, Product):
        return pair[0] * pair[1]
    return min(pair) if isinstance(atom, Min) else max(pair)
