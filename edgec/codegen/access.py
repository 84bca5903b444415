"""Find repeated reads in a run of stores: values for locals, and common base addresses.

A run is a list of Store statements that execute one after the other. Unrolled code repeats long
index expressions and loads; naming them makes it readable, and it lets a compiler use immediate
offsets. Nothing is moved across a store that could change it: arena and scratch parameters may
overlap in any way that the memory plan proved right for the order written here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from edgec.loop.access import flat_term
from edgec.loop.ir import Buffer, Cast, Const, Expr, Gather, IndexValue, Load, Store
from edgec.loop.rewrite import subexpressions
from edgec.numerics.term import Term, as_term


@dataclass(frozen=True)
class BaseAddress:
    """A buffer and the part of a flat index that varies; accesses differ by constants only."""

    buffer: Buffer
    varying: Term


def address_of(buffer: Buffer, indices: Sequence[Term]) -> tuple[BaseAddress, int]:
    """The address of an access, and the constant offset of the access from it, in elements."""
    if buffer.extents is not None:  # strides are not constant
        return BaseAddress(buffer, as_term(0)), 0
    flat = flat_term(indices, buffer.shape)
    return BaseAddress(buffer, flat - flat.offset), flat.offset


def repeated_values(run: Sequence[Store]) -> tuple[Expr, ...]:
    """Expressions that occur at least twice in the run and cannot change inside it.

    Only expressions that load something; of nested candidates the outer one, unless the inner
    one also occurs elsewhere. In the order of their first use, inner before outer.
    """
    counts: Counter[Expr] = Counter()
    last: dict[Expr, int] = {}
    order: list[Expr] = []
    for position, store in enumerate(run):
        for expr in subexpressions(store.value):
            if isinstance(expr, (Const, IndexValue)):
                continue
            if expr not in counts:
                order.append(expr)
            counts[expr] += 1
            last[expr] = position
    if all(count == 1 for count in counts.values()):
        return ()
    writes = _Writes(run)

    def stable(expr: Expr) -> bool:
        parts = [part for part in subexpressions(expr) if isinstance(part, (Load, Gather))]
        return bool(parts) and all(writes.first(part) >= last[expr] for part in parts)

    chosen = [e for e in order if counts[e] > 1 and stable(e) and not _is_register(e)]
    # An inner expression that occurs only inside a chosen one needs no name of its own.
    inside: Counter[Expr] = Counter()
    for outer in chosen:
        for part in list(subexpressions(outer))[1:]:
            inside[part] += counts[outer]
    kept = [e for e in chosen if counts[e] > inside[e]]
    return tuple(reversed(_inner_last(kept)))


class _Writes:
    """At which position of a run each element is first written; a store reads before it writes."""

    def __init__(self, run: Sequence[Store]) -> None:
        self._end = len(run)
        self._memory = self._end
        self._buffers: dict[Buffer, int] = {}
        self._elements: dict[tuple[Buffer, tuple[Term, ...]], int] = {}
        for position, store in enumerate(run):
            if store.buffer.scope != "register":
                self._memory = min(self._memory, position)
            self._buffers.setdefault(store.buffer, position)
            self._elements.setdefault((store.buffer, store.indices), position)

    def first(self, part: Load | Gather) -> int:
        """The first position that may change what `part` reads; the run's length if none does."""
        if part.buffer.scope == "constant":
            return self._end
        if part.buffer.scope != "register":
            return self._memory  # arena and scratch may overlap in any way
        if isinstance(part, Load) and all(index.constant is not None for index in part.indices):
            return self._elements.get((part.buffer, part.indices), self._end)
        return self._buffers.get(part.buffer, self._end)


def _is_register(expr: Expr) -> bool:
    while isinstance(expr, Cast):
        expr = expr.value
    return isinstance(expr, Load) and expr.buffer.scope == "register"


def _inner_last(exprs: list[Expr]) -> list[Expr]:
    """Reverse order of first use, but every expression before those it contains."""
    depth = {e: sum(1 for _ in subexpressions(e)) for e in exprs}
    indexed = list(enumerate(exprs))
    ordered = sorted(indexed, key=lambda pair: (-depth[pair[1]], -pair[0]))
    return [e for _, e in ordered]


def common_addresses(
    accesses: Sequence[tuple[Buffer, tuple[Term, ...]]],
) -> dict[BaseAddress, tuple[Term, ...]]:
    """Addresses that several different offsets of the run share.

    Returns for each address the indices of its access with the smallest offset: an element that is
    really accessed, so a pointer to it is always legal.
    """
    lowest: dict[BaseAddress, tuple[int, tuple[Term, ...]]] = {}
    offsets: dict[BaseAddress, set[int]] = {}
    for buffer, indices in accesses:
        address, offset = address_of(buffer, indices)
        if not address.varying.parts:
            continue
        offsets.setdefault(address, set()).add(offset)
        if address not in lowest or offset < lowest[address][0]:
            lowest[address] = offset, indices
    return {address: lowest[address][1] for address, found in offsets.items() if len(found) > 1}
