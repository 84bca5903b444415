"""tensorize: replace a nest by a call of the microkernel that means the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import accesses, flat_address
from edgec.loop.intrinsics import get_intrinsic
from edgec.loop.ir import (
    Binary,
    Buffer,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Gather,
    If,
    IndexValue,
    Intrinsic,
    Load,
    PrimFunc,
    Select,
    Seq,
    Stmt,
    Store,
)
from edgec.loop.microkernel import Microkernel, get_microkernel, meaning_of
from edgec.loop.parser import parse_term
from edgec.loop.primitives.lookup import find_loop, with_changes
from edgec.loop.simplify import drop_decided, lower_blocks
from edgec.numerics.term import Term, TermLike, Var, as_term

Array = npt.NDArray[Any]

_FORM = "differs in form"
_COMMUTATIVE = ("add", "mul", "min", "max", "and", "or", "xor", "eq")


@dataclass(frozen=True)
class Packed:
    """A constant parameter that a tensorized function reads in place of several others.

    `sources`: the function's constants by their names in the kernel's meaning; `pack` makes the new
    array from their arrays, by the same names.
    """

    name: str
    sources: Mapping[str, str]
    pack: Callable[[Mapping[str, Array]], Array]


def tensorize(
    func: PrimFunc,
    loop: str,
    kernel: str,
    sizes: Mapping[str, int],
    indices: Mapping[str, str] | None = None,
) -> tuple[PrimFunc, Packed | None]:
    """Replace a loop and all inside by a call of a registered microkernel.

        for k in 0..16 {
          for i in 0..4 {
            acc[i] = acc[i] + x[h, k] * w[o, k, i]     ->    call dot4(&acc[0], &x[h, 0],
          }                                                            &w[o, 0, 0], 16)
        }

    Requires: the nest equals the microkernel's meaning for these sizes, apart from names, kinds of
    loops and the order of operands; strides are equal. Comes last, after `simplify`: a buffer that
    is passed to a call is not shrunk any more.

    Constants that the kernel reads as a stream become one parameter, `<loop>_stream`; the result
    describes its contents. It has one part for each call that reads a part. `indices`: for each
    index of the kernel, a term of the outer loops' variables, as text.
    """
    target, above = find_loop(func, loop)
    known = get_microkernel(kernel)
    if set(sizes) != set(known.sizes):
        raise ScheduleError(f"tensorize: {kernel} needs the sizes {', '.join(known.sizes)}")
    if known.struct is not None and not known.struct.holds(sizes):
        raise ScheduleError(f"tensorize: sizes are too large for {kernel}")
    if set(indices or {}) != set(known.indices):
        raise ScheduleError(f"tensorize: {kernel} needs the indices {', '.join(known.indices)}")
    scope = {s.var.name: s.var for s in above if isinstance(s, For)}
    terms = [parse_term((indices or {})[name], scope) for name in known.indices]
    meaning = meaning_of(known, (*(sizes[name] for name in known.sizes), *terms))
    loops_above = tuple(s for s in above if isinstance(s, For))
    actual = drop_decided(lower_blocks(target, loops_above))
    match = _Match()
    why = match.stmt(drop_decided(lower_blocks(meaning.body)), actual)
    if why:
        raise ScheduleError(f"tensorize: loop {loop} is not {kernel}: {why}")
    for parameter in meaning.params:
        if parameter not in match.bases:
            raise ScheduleError(f"tensorize: {kernel} does not use {parameter.name}")
    packed = None
    if known.stream is not None:
        func, packed, ref = _with_stream(func, f"{loop}_stream", known, sizes, match.bases, meaning)
        first = next(p for p in meaning.params if p.name == known.stream.sources[0])
        match.bases[first] = ref
    args: list[BufferRef | Expr] = [match.bases[p] for p in known.pointers(meaning)]
    args += [Const(sizes[name], "int32") for name in known.sizes]
    args += [IndexValue(term) for term in terms]
    return _drop_unused(with_changes(func, [(target, Call(kernel, tuple(args)))])), packed


def _with_stream(
    func: PrimFunc,
    name: str,
    kernel: Microkernel,
    sizes: Mapping[str, int],
    bases: Mapping[Buffer, BufferRef],
    meaning: PrimFunc,
) -> tuple[PrimFunc, Packed, BufferRef]:
    stream = kernel.stream
    assert stream is not None
    sources: dict[str, str] = {}
    shares: set[tuple[Term, int]] = set()
    for parameter in meaning.params:
        if parameter.name in stream.sources:
            base = bases[parameter]
            shares.add(_share(base, parameter))
            sources[parameter.name] = base.buffer.name
    if len(shares) != 1:
        raise ScheduleError(f"tensorize: constants of {kernel.name} begin at different steps")
    ((step, count),) = shares
    words = stream.words(**sizes)
    shape, at = ((words,), (as_term(0),)) if count == 1 else ((count, words), (step, as_term(0)))
    new = Buffer(name, shape, stream.dtype, "constant")
    constants = [p for p in func.params if p.scope == "constant"]
    position = func.params.index(constants[0])
    func = replace(func, params=(*func.params[:position], new, *func.params[position:]))
    fixed = dict(sizes)

    def pack(arrays: Mapping[str, Array]) -> Array:
        if count > 1:
            return stream.pack_parts(arrays, count, fixed)
        return stream.pack(arrays, **fixed).reshape(shape)

    return func, Packed(name, sources, pack), BufferRef(new, at)


def _share(base: BufferRef, parameter: Buffer) -> tuple[Term, int]:
    """Which part of a constant a call reads, and of how many equal ones."""
    buffer, size = base.buffer, parameter.elements
    address = flat_address(buffer, base.indices)
    coefficients = [address.offset, *(coefficient for _, coefficient in address.parts)]
    is_part = buffer.elements % size == 0 and all(c % size == 0 for c in coefficients)
    if buffer.scope != "constant" or not is_part:
        raise ScheduleError(f"tensorize: {buffer.name} does not consist of {parameter.name}s")
    step = Term(tuple((a, c // size) for a, c in address.parts), address.offset // size)
    return step, buffer.elements // size


def _drop_unused(func: PrimFunc) -> PrimFunc:
    """Remove constants and locals that the call replaces."""
    used = {access.buffer for access in accesses(func.body)}
    return replace(
        func,
        params=tuple(p for p in func.params if p.scope != "constant" or p in used),
        allocs=tuple(a for a in func.allocs if a in used),
    )


def _same_number(meant: Const, found: Expr) -> bool:
    """Whether two constants of one dtype are equal; of float32, in its bits."""
    assert isinstance(found, Const)
    if meant.dtype == "float32":
        return np.float32(meant.value).tobytes() == np.float32(found.value).tobytes()
    return meant == found


def _one_of_several(
    found: Gather, rank: int, shape: tuple[int, ...]
) -> tuple[tuple[Term, ...], tuple[Expr, ...]]:
    """Which table of several is read, of this shape, and where in it; no places if there is none.

    The last axes of the table may be several.
    """
    of, indices = found.buffer, found.indices
    if of.shape == shape:
        return (), indices
    terms = [each.term if isinstance(each, IndexValue) else None for each in indices]
    first = next((place for place, term in enumerate(terms) if term is None), 0)
    last = first + rank - 1
    before = tuple(term for term in terms[:first] if term is not None)
    after = tuple(term for term in terms[last:] if term is not None)
    rest = of.shape[last:]
    if len(after) != len(rest) or (*of.shape[first:last], prod(rest)) != shape:
        return (), ()
    flat = flat_address(replace(of, shape=rest), after)
    return before, (*indices[first:last], IndexValue(flat))


def _tidied(buffer: Buffer, indices: tuple[Term, ...]) -> tuple[Term, ...]:
    """The same element without differences of the same terms, each index inside its dimension.

    Only where every part of the address is whole steps of some dimension.
    """
    rest = flat_address(buffer, indices)
    found = []
    for dimension in range(len(buffer.shape)):
        step = prod(buffer.shape[dimension + 1 :])
        whole = tuple((a, c // step) for a, c in rest.parts if c % step == 0)
        found.append(Term(whole, rest.offset // step))
        rest = Term(tuple((a, c) for a, c in rest.parts if c % step), rest.offset % step)
    inside = all(
        index.bounds()[0] >= 0 and index.bounds()[1] < extent
        for index, extent in zip(found, buffer.shape, strict=True)
    )
    return tuple(found) if inside else indices


@dataclass
class _Match:
    """The match so far: the meaning's variables, and where its buffers begin."""

    values: dict[Var, TermLike] = field(default_factory=dict)
    starts: dict[Var, TermLike] = field(default_factory=dict)
    bases: dict[Buffer, BufferRef] = field(default_factory=dict)

    def stmt(self, meant: Stmt, found: Stmt) -> str:
        """Why the two differ, or nothing."""
        if isinstance(meant, For) and isinstance(found, For):
            extent = found.extent
            if extent is not None and extent == meant.extent:
                self.values[meant.var] = as_term(found.var) - found.start + meant.start
                self.starts[found.var] = found.start
            elif self.term(meant.start, found.start) and self.term(meant.stop, found.stop):
                # Bounds that depend on loops around: the variables are the same number.
                self.values[meant.var] = found.var
                self.starts[found.var] = 0
            else:
                return (
                    f"loop {found.var.name} has {found.stop - found.start} steps, "
                    f"{meant.stop - meant.start} are meant"
                )
            return self.stmt(meant.body, found.body)
        if isinstance(meant, Seq) and isinstance(found, Seq):
            if len(meant.stmts) != len(found.stmts):
                return f"{len(found.stmts)} statements stand for {len(meant.stmts)}"
            pairs = zip(meant.stmts, found.stmts, strict=True)
            return next((why for why in (self.stmt(a, b) for a, b in pairs) if why), "")
        if isinstance(meant, Store) and isinstance(found, Store):
            why = self.element(meant.buffer, meant.indices, found.buffer, found.indices)
            return why or self.expr(meant.value, found.value)
        if isinstance(meant, If) and isinstance(found, If):
            same = self.term(meant.left, found.left) and self.term(meant.right, found.right)
            if not same or (meant.otherwise is None) != (found.otherwise is None):
                return f"the condition {found.left} < {found.right} is not meant"
            why = self.stmt(meant.body, found.body)
            if why or meant.otherwise is None or found.otherwise is None:
                return why
            return self.stmt(meant.otherwise, found.otherwise)
        return f"a {type(found).__name__} stands where a {type(meant).__name__} is meant"

    def term(self, meant: Term, found: Term) -> bool:
        return meant.substitute(self.values) == found

    def element(
        self,
        meant: Buffer,
        meant_indices: tuple[Term, ...],
        found: Buffer,
        found_indices: tuple[Term, ...],
    ) -> str:
        if meant.dtype != found.dtype:
            return f"{found.name} is {found.dtype}, {meant.dtype} is meant"
        inner = flat_address(meant, meant_indices).substitute(self.values)
        outer = flat_address(found, found_indices)
        if (outer - inner).variables() & set(self.starts):
            return f"{found.name} at {outer} does not step like {meant.name} at {inner}"
        first = tuple(index.substitute(self.starts) for index in found_indices)
        offset = inner.substitute(self.starts)
        if not first:
            return f"{found.name} has no dimension that a kernel can step along"
        first = _tidied(found, (*first[:-1], first[-1] - offset))
        base = BufferRef(found, first)
        known = self.bases.setdefault(meant, base)
        if known.buffer != found or (
            flat_address(found, known.indices) != flat_address(found, first)
        ):
            return f"{meant.name} would begin in two places"
        return ""

    def expr(self, meant: Expr, found: Expr) -> str:
        if type(meant) is not type(found) or meant.dtype != found.dtype:
            return f"a value of {found.dtype} {_FORM}"
        if isinstance(meant, Const):
            return "" if _same_number(meant, found) else f"{found} is not {meant.value}"
        if isinstance(meant, Load) and isinstance(found, Load):
            return self.element(meant.buffer, meant.indices, found.buffer, found.indices)
        if isinstance(meant, IndexValue) and isinstance(found, IndexValue):
            return "" if self.term(meant.term, found.term) else f"index {found.term} differs"
        if isinstance(meant, Binary) and isinstance(found, Binary):
            if meant.op != found.op:
                return f"{found.op} stands for {meant.op}"
            before = dict(self.bases)
            why = self.expr(meant.left, found.left) or self.expr(meant.right, found.right)
            if why and meant.op in _COMMUTATIVE:
                self.bases = before
                swapped = self.expr(meant.left, found.right) or self.expr(meant.right, found.left)
                why = why if _FORM in swapped else swapped
            return why
        if isinstance(meant, Cast) and isinstance(found, Cast):
            return self.expr(meant.value, found.value)
        if isinstance(meant, Select) and isinstance(found, Select):
            return (
                self.expr(meant.condition, found.condition)
                or self.expr(meant.yes, found.yes)
                or self.expr(meant.no, found.no)
            )
        if isinstance(meant, Intrinsic) and isinstance(found, Intrinsic):
            names = (found.name, get_intrinsic(found.name).general)
            if meant.name not in names or len(meant.args) != len(found.args):
                return f"{found.name} stands for {meant.name}"
            pairs = zip(meant.args, found.args, strict=True)
            return next((why for why in (self.expr(a, b) for a, b in pairs) if why), "")
        assert isinstance(meant, Gather) and isinstance(found, Gather)
        return self.table(meant, found)

    def table(self, meant: Gather, found: Gather) -> str:
        """A table with computed indices: it must be the whole buffer, or one of several tables in
        it.
        """
        first, indices = _one_of_several(found, len(meant.indices), meant.buffer.shape)
        if not indices or any(term.variables() & set(self.starts) for term in first):
            return f"the table {found.buffer.name} has another shape than {meant.buffer.name}"
        zeros = [as_term(0)] * (len(found.buffer.shape) - len(first))
        base = BufferRef(found.buffer, (*first, *zeros))
        if self.bases.setdefault(meant.buffer, base) != base:
            return f"{meant.buffer.name} would begin in two places"
        pairs = zip(meant.indices, indices, strict=True)
        return next((why for why in (self.expr(a, b) for a, b in pairs) if why), "")
