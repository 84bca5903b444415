"""Join two functions if one only moves or changes the other's elements.

    for m, c { y[m, c] = acc[0] }                   for m, c {
    for h, m, d {                             ->      out[c // 32, m, c % 32] = acc[0] * scale[]
      out[h, m, d] = y[m, h*32 + d] * scale[]       }
    }

One of the two keeps the loops that a rule made for it. Elements of a view are found by their place
in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgec.errors import ScheduleError
from edgec.loop.access import count_uses, flat_address, reads
from edgec.loop.bound import BOUND
from edgec.loop.ir import Binary, Buffer, Const, Expr, For, Load, PrimFunc, Seq, Stmt, Store
from edgec.loop.primitives.lookup import fresh
from edgec.loop.primitives.nests import plain_axis
from edgec.loop.rewrite import ReplaceBuffer, Rewriter, Substitute, subexpressions
from edgec.loop.schedule import Schedule
from edgec.loop.simplify import simplify
from edgec.numerics.term import Term, Var, as_term

Terms = tuple[Term, ...]


@dataclass(frozen=True)
class ElementMap:
    """Parameters, and the store that computes each element of the output once from inputs'
    elements.

    The variables of all loops around the store occur in its indices.
    """

    params: tuple[Buffer, ...]
    store: Store

    def renamed(self, names: Mapping[str, str]) -> ElementMap:
        """The same with other names of its parameters."""
        changes = {b: replace(b, name=names[b.name]) for b in self.params}
        store = ReplaceBuffer(changes).stmt(self.store)
        assert isinstance(store, Store)
        return ElementMap(tuple(changes.values()), store)

    def at(self, indices: Terms) -> Store:
        """The store of the element at these indices."""
        places = zip(self.store.indices, indices, strict=True)
        return self._with({v: at for index, at in places for v in index.variables()})

    def reading(self, source: Buffer, indices: Terms) -> Store:
        """The store that reads this element of an input.

        Raises ScheduleError unless each element of the input is read for exactly one of the output.
        """
        places = {load.indices for load in self.loads(source)}
        if len(places) != 1 or source.elements != self.store.buffer.elements:
            raise ScheduleError(f"elements of {source.name} are read for several others")
        (place,) = places
        values = {v: at for index, at in zip(place, indices, strict=True) for v in _plain(index)}
        if values.keys() != set().union(*(index.variables() for index in self.store.indices)):
            raise ScheduleError(f"{source.name} is read at indices that are not loops")
        return self._with(values)

    def loads(self, source: Buffer) -> list[Load]:
        """Reads of an input."""
        every = subexpressions(self.store.value)
        return [e for e in every if isinstance(e, Load) and e.buffer == source]

    def _with(self, values: Mapping[Var, Term]) -> Store:
        store = Substitute(values).stmt(self.store)
        assert isinstance(store, Store)
        return store


def _plain(index: Term) -> list[Var]:
    """The variable that an index is; none for other indices."""
    axis = plain_axis(index)
    return [axis[0]] if axis is not None and not axis[1] else []


def element_map(func: PrimFunc) -> ElementMap | None:
    """A function, as an operator defines it, as a map of elements; None if it is none."""
    try:
        func = _inlined(func)
    except ScheduleError:
        return None
    stmt, loops = func.body, list[Var]()
    while isinstance(stmt, For) and stmt.start.constant == 0:
        loops.append(stmt.var)
        stmt = stmt.body
    if not isinstance(stmt, Store) or func.allocs or stmt.buffer in reads(stmt):
        return None
    return ElementMap(func.params, stmt) if _is_at(stmt, loops) else None


def _inlined(func: PrimFunc) -> PrimFunc:
    """The function without temporaries. Raises ScheduleError."""
    schedule = Schedule(func)
    for buffer in func.params:
        if buffer.scope == "scratch":
            schedule.compute_inline(buffer.name)
    return simplify(schedule.func)


def _is_at(store: Store, loops: list[Var]) -> bool:
    """Whether a store's indices are the variables of these loops, each once, and zeros."""
    own = [var for index in store.indices for var in _plain(index)]
    is_plain = all(index.constant == 0 or _plain(index) for index in store.indices)
    return is_plain and len(own) == len(loops) and set(own) == set(loops)


def store_through(func: PrimFunc, out: Buffer, after: ElementMap, source: Buffer) -> PrimFunc:
    """Store to the map's output instead of `out`; the map reads the stored value as `source`.

    Raises ScheduleError if `out` is also read.
    """
    once = _Once(source)
    if isinstance(func.body, For) and func.body.kind in BOUND:
        after = ElementMap(after.params, once.store(after.store))
    through = _Stores(func, out, after, source)
    body = through.stmt(func.body)
    if once.starts:  # in the loop, since another block may have stored when a block starts
        assert isinstance(body, For)
        body = replace(body, body=Seq((*once.starts, body.body)))
    if count_uses(body, out) or out.dtype != source.dtype:
        raise ScheduleError(f"{out.name} is more than stored")
    kept = (through.kept,) if through.is_kept else ()
    allocs = (*func.allocs, *(start.buffer for start in once.starts), *kept)
    params = [b for b in (*func.params, *after.params) if b not in (out, source)]
    return simplify(replace(func, params=_in_order(params, after.store), allocs=allocs, body=body))


def read_through(func: PrimFunc, x: Buffer, before: ElementMap) -> PrimFunc:
    """Read mapped elements of other buffers instead of `x`.

    Raises ScheduleError if a call, or an index computed from data, reads `x`.
    """
    body = _Loads(x, before).stmt(func.body)
    if count_uses(body, x) or x.dtype != before.store.buffer.dtype:
        raise ScheduleError(f"{x.name} is more than read")
    params = [b for b in (*before.params, *func.params) if b not in (x, before.store.buffer)]
    return simplify(replace(func, params=_in_order(params), body=body))


def _in_order(params: list[Buffer], last: Store | None = None) -> tuple[Buffer, ...]:
    """Each parameter once: inputs, the output that is stored last, constants, scratch."""
    order = {"arena": 0, "constant": 2, "scratch": 3}
    out = None if last is None else last.buffer
    return tuple(sorted(dict.fromkeys(params), key=lambda b: 1 if b == out else order[b.scope]))


def _seen_as(indices: Terms, buffer: Buffer, shape: tuple[int, ...]) -> Terms:
    """The indices of an element of the buffer in a view of this shape."""
    if buffer.shape == shape:
        return indices
    flat, found = flat_address(buffer, indices), list[Term]()
    for extent in reversed(shape):
        found.insert(0, flat % extent)
        flat = flat // extent
    return tuple(found)


class _Stores(Rewriter):
    """Replaces stores of one buffer by the map's stores; a value that the map reads twice is kept
    in a register.
    """

    def __init__(self, func: PrimFunc, out: Buffer, after: ElementMap, source: Buffer) -> None:
        self.out, self.after, self.source = out, after, source
        self.kept = Buffer(fresh(func, "made"), (1,), out.dtype, "register")
        self.is_kept = len(after.loads(source)) > 1

    def store(self, store: Store) -> Stmt:
        if store.buffer != self.out:
            return store
        at = _seen_as(store.indices, self.out, self.source.shape)
        through = self.after.reading(self.source, at)
        place = (as_term(0),)
        made = Load(self.kept, place) if self.is_kept else store.value
        stored = replace(through, value=_Instead(self.source, made).expr(through.value))
        return Seq((Store(self.kept, place, store.value), stored)) if self.is_kept else stored


class _Once(Rewriter):
    """Hoists reads that are the same for all elements to each thread's start."""

    def __init__(self, source: Buffer) -> None:
        self.source, self.starts = source, list[Store]()

    def store(self, store: Store) -> Store:
        return replace(store, value=self.expr(store.value))

    def expr(self, expr: Expr) -> Expr:
        parts = list(subexpressions(expr))
        loads = [part for part in parts if isinstance(part, Load)]
        is_same = loads and all(
            isinstance(part, (Binary, Const))
            or (isinstance(part, Load) and part.buffer != self.source and _is_fixed(part))
            for part in parts
        )
        if not is_same or not isinstance(expr, Binary):
            return super().expr(expr)
        kept = Buffer(f"once{len(self.starts)}", (1,), expr.dtype, "register")
        self.starts.append(Store(kept, (as_term(0),), expr))
        return Load(kept, (as_term(0),))


def _is_fixed(load: Load) -> bool:
    return all(index.constant is not None for index in load.indices)


class _Instead(Rewriter):
    """Replaces each load from a buffer by a value."""

    def __init__(self, buffer: Buffer, value: Expr) -> None:
        self.of, self.value = buffer, value

    def load(self, load: Load) -> Expr:
        return self.value if load.buffer == self.of else load


class _Loads(Rewriter):
    """Replaces loads of one buffer by the map's values."""

    def __init__(self, x: Buffer, before: ElementMap) -> None:
        self.x, self.before = x, before

    def load(self, load: Load) -> Expr:
        if load.buffer != self.x:
            return load
        made = self.before.store
        return self.before.at(_seen_as(load.indices, self.x, made.buffer.shape)).value
