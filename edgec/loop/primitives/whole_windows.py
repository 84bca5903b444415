"""pad_reads, pad_copy, pad_tiles: complete windows for loops that skip elements outside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod

from edgec.errors import ScheduleError
from edgec.loop.dtype import is_integer
from edgec.loop.ir import Axis, Block, Buffer, Cast, Expr, For, Load, PrimFunc, Store
from edgec.loop.primitives.lookup import find_block, find_loop, fresh, require_unused, with_changes
from edgec.loop.primitives.sum_term import (
    SumTerm,
    declare_before,
    find_term,
    nest_of_copy,
    stored_as,
)
from edgec.loop.rewrite import Substitute
from edgec.loop.values import ExprValue, Value, index, select
from edgec.numerics.term import Term, Var, as_term, floor_div, floor_mod, maximum, minimum


def pad_reads(func: PrimFunc, block: str, buffer: str, axes: list[int]) -> tuple[PrimFunc, None]:
    """Extend a sum of products to complete windows; outside of the buffer it reads a neutral
    number.

        for k in max(0, 1 - h)..3 {              for k in 0..3 {
          block acc(h, k) {                        block acc(h, k) {
            acc[h] = acc[h]                  ->      acc[h] = acc[h] + ((h + k - 1 >= 0 ?
              + (x[h + k - 1] + 5) * w[k]              x[max(h + k - 1, 0)] : -5) + 5) * w[k]
        } }                                      } }

    A loop with fixed bounds that leaves out weights, `for k in 1..3`, goes over all of them, too.

    Requires: bounds skip exactly the elements outside the buffer, the sum starts in the block, and
    the padding number fits in the buffer's dtype. axes: the dimensions to pad, even if no window
    leaves the buffer, as kernels do.
    """
    func = _with_all_weights(func, block, buffer)
    term = _clipped("pad_reads", func, block, buffer, axes)
    load = term.read
    assert isinstance(load, Load)
    read = _element(term, dict(enumerate(load.indices)), axes)
    return _whole(func, term, term.with_read(read, term.offset)), None


def pad_copy(
    func: PrimFunc, block: str, buffer: str, name: str, order: list[int], axes: list[int]
) -> tuple[PrimFunc, str]:
    """Let a sum of products go over whole windows of a copy that has padding around it.

        for k in max(0, 1 - h)..3 {             for i in 0..10 {
          block acc(h, k) {                       block padded(i) {
            acc[h] = acc[h] + (x[h + k - 1]  ->     padded[i] = i - 1 inside ? x[i - 1] : -5
                       + 5) * w[k]              } }
        } }                                     for k in 0..3 {
                                                  block acc(h, k) {
                                                    acc[h] = acc[h] + (padded[h + k] + 5) * w[k]
                                                } }

    A loop with fixed bounds that skips weights is extended to all of them, too. The copy's
    dimensions are the buffer's in this `order`. Returns the name of the copy and of its block.
    Requires the same as `pad_reads`; for floats, finite weights and no sum that starts with -0.
    """
    func = _with_all_weights(func, block, buffer)
    term = _clipped("pad_copy", func, block, buffer, axes)
    load = term.read
    assert isinstance(load, Load)
    low, made = _room(term, axes)
    positions = {axis: as_term(var) + low[axis] for axis, var in made.items()}
    reads = {axis: load.indices[axis] - low[axis] for axis in made}
    return _through_copy(func, _Copy(term, name, order, axes), made, positions, reads)


def pad_tiles(
    func: PrimFunc, block: str, buffer: str, name: str, order: list[int], axes: list[int],
    tile: list[int], dtype: str,
) -> tuple[PrimFunc, str]:  # fmt: skip
    """Let a sum of products go over whole windows of a copy with padding, in overlapping tiles.

        for k in max(0, 1 - h)..3 {             for j in 0..2 {
          block acc(h, k) {                       for i in 0..3 {
            acc[h] = acc[h] + (x[h + k - 1]         for r in 0..2 {
                       + 5) * w[k]         ->         block plane(j, i, r) {
        } }                                             plane[j, i, r] = inside
                                                          ? x[j*4 + i*2 + r - 1] : -5
                                                } } } }
                                                for k in 0..3 {
                                                  block acc(h, k) {
                                                    acc[h] = acc[h] + (plane[h // 4,
                                                      (h % 4 + k) // 2, (h % 4 + k) % 2] + 5) * w[k]
                                                } }

    `tile`: a dimension, the outputs along it that a tile serves, and the adjacent elements of a
    tile. In `order`, -1 is the number of the tile, -2 the position within adjacent elements.
    Requires the same as `pad_copy`, and windows of stride 1; all windows may be complete.
    """
    func = _with_all_weights(func, block, buffer)
    term = _inside("pad_tiles", func, block, buffer, axes)
    load, (split, outputs, lanes) = term.read, tile
    assert isinstance(load, Load)
    low, made = _room(term, axes)
    reads = {axis: load.indices[axis] - low[axis] for axis in made}
    output, rest = _step_of(term, reads[split])
    if split not in axes or output.stop % outputs or rest.bounds()[0] < 0:
        raise ScheduleError(f"pad_tiles: {outputs} outputs do not divide the outputs of {block}")
    at, extent = floor_mod(output, outputs) + rest, outputs + rest.bounds()[1]
    reads |= {-1: floor_div(output, outputs), split: floor_div(at, lanes), -2: floor_mod(at, lanes)}
    made |= {-1: Var("j", 0, output.stop // outputs), -2: Var("r", 0, lanes)}
    made[split] = replace(made[split], stop=-(-extent // lanes))
    positions = {axis: as_term(made[axis]) + low[axis] for axis in range(len(low))}
    positions[split] += as_term(made[split]) * (lanes - 1) + made[-2] + as_term(made[-1]) * outputs
    return _through_copy(func, _Copy(term, name, order, axes, dtype), made, positions, reads)


def _step_of(term: SumTerm, at: Term) -> tuple[Var, Term]:
    """The output's axis that an index steps with, and the rest of the index."""
    outputs = [a.var for a in term.block.axes if a.kind == "spatial" and a.var in at.variables()]
    rest = at - as_term(outputs[0]) if outputs else at
    if len(outputs) != 1 or outputs[0].start or outputs[0] in rest.variables():
        raise ScheduleError(f"{term.primitive}: {at} does not step by one with an output")
    return outputs[0], rest


@dataclass(frozen=True)
class _Copy:
    """A copy of a sum's operand to make: the arguments of the primitives."""

    term: SumTerm
    name: str
    order: list[int]
    axes: list[int]
    dtype: str = ""


def _room(term: SumTerm, axes: list[int]) -> tuple[list[int], dict[int, Var]]:
    """Offset of each dimension of the buffer in the copy, and a variable for its elements."""
    load, shape = term.read, term.source.shape
    assert isinstance(load, Load)
    ends = [load.indices[axis].bounds() if axis in axes else (0, size - 1)
            for axis, size in enumerate(shape)]  # fmt: skip
    letters = "nhwc" if len(shape) == 4 else "abcdefgh"
    made = {a: Var(letters[a], 0, last - first + 1) for a, (first, last) in enumerate(ends)}
    return [first for first, _ in ends], made


def _through_copy(
    func: PrimFunc, copy: _Copy, made: dict[int, Var], positions: dict[int, Term],
    reads: dict[int, Term],
) -> tuple[PrimFunc, str]:  # fmt: skip
    """Read a copy: by its dimensions, the variables it is made with, the place in the source that
    each then stands for, and where the sum reads it.
    """
    term, name, order = copy.term, fresh(func, copy.name), copy.order
    if sorted(order) != sorted(made):
        raise ScheduleError(f"{term.primitive}: {order} is not an order of the copy's dimensions")
    dtype, shape = copy.dtype or term.source.dtype, tuple(made[axis].stop for axis in order)
    buffer = Buffer(name, shape, dtype, "scratch")
    value = _element(term, positions, copy.axes)
    value = stored_as(term.primitive, value, dtype)
    nest = nest_of_copy(buffer, [made[axis] for axis in order], value)
    require_unused(func, *(f"{name}_{var.name}" for var in made.values()))
    read = Load(buffer, tuple(reads[axis] for axis in order))
    whole = _whole(func, term, term.with_read(read, term.offset))
    _, above = find_block(whole, term.block.name)
    store = term.block.body
    assert isinstance(store, Store)
    return declare_before(whole, buffer, store.buffer, nest, above), name


def _element(term: SumTerm, positions: dict[int, Term], padded: list[int]) -> Expr:
    """An element of the source, or the neutral number if its index is outside."""
    inside: Value | None = None
    indices = dict(positions)
    for axis in sorted(padded):
        at, extent = positions[axis], term.source.shape[axis]
        is_inside = (index(at) >= 0) & (index(at) < extent)
        inside = is_inside if inside is None else inside & (index(at) >= 0) & (index(at) < extent)
        indices[axis] = maximum(0, minimum(at, extent - 1))
    assert inside is not None
    element = ExprValue(Load(term.source, tuple(indices[a] for a in sorted(indices))))
    read = select(inside, element, _fill(term))
    assert isinstance(read, ExprValue)
    return read.expr


def _fill(term: SumTerm) -> int:
    """The value that adds nothing to the sum."""
    if not is_integer(term.source.dtype):
        return 0
    limits = {"int8": 1 << 7, "int16": 1 << 15}.get(term.source.dtype, 0)
    if not -limits <= -term.offset < limits:
        raise ScheduleError(f"{term.primitive}: {term.source.name} cannot hold {-term.offset}")
    return -term.offset


def _clipped(primitive: str, func: PrimFunc, block: str, buffer: str, axes: list[int]) -> SumTerm:
    term = _inside(primitive, func, block, buffer, axes)
    if not _leaving(term):
        raise ScheduleError(f"{primitive}: all windows of {block} are whole")
    return term


def _inside(primitive: str, func: PrimFunc, block: str, buffer: str, axes: list[int]) -> SumTerm:
    """A sum whose windows, were they whole, leave the buffer along these axes alone."""
    term = find_term(primitive, func, block, buffer)
    if not isinstance(term.read, Load) or term.block.init is None:
        raise ScheduleError(f"{primitive}: {block} does not start its sum, or reads with a choice")
    if not {*_leaving(term)} <= {*axes} <= {*range(len(term.source.shape))}:
        raise ScheduleError(f"{primitive}: windows leave {buffer} along others than {axes}")
    _require_outside(term)
    return term


#: Window positions that are tried, to see that loops skip exactly the elements outside.
MOST_WINDOWS = 1 << 14


def is_clipped(func: PrimFunc, block: str) -> bool:
    """Whether loops around a block leave something out at some places."""
    _, above = find_block(func, block)
    loops = [s for s in above if isinstance(s, For)]
    return any(None in (loop.start.constant, loop.stop.constant) for loop in loops)


def leaves_out_weights(func: PrimFunc, block: str, buffer: str) -> bool:
    """Whether a loop with fixed bounds leaves out weights at every place."""
    return bool(_short_axes(find_term("pad_reads", func, block, buffer)))


def _short_axes(term: SumTerm) -> list[tuple[Axis, int]]:
    """Steps of the sum that do not reach all weights along a dimension, and its extent."""
    weight = term.weight
    while isinstance(weight, Cast):
        weight = weight.value
    if not isinstance(weight, Load):
        return []
    steps = {as_term(axis.var): axis for axis in term.block.axes if axis.kind == "reduce"}
    pairs = zip(weight.indices, weight.buffer.shape, strict=True)
    return [(steps[at], size) for at, size in pairs if at in steps and at.bounds() != (0, size - 1)]


def _with_all_weights(func: PrimFunc, block: str, buffer: str) -> PrimFunc:
    """The function with variables that have a value for every weight; loops keep their bounds."""
    for axis, extent in _short_axes(find_term("pad_reads", func, block, buffer)):
        term = find_term("pad_reads", func, block, buffer)
        loop = next((each for each in term.loops if axis.binding == as_term(each.var)), None)
        if loop is None:
            raise ScheduleError(f"pad_reads: {axis.var} of {block} is not a loop")
        wide, place = (
            replace(axis.var, start=0, stop=extent),
            replace(loop.var, start=0, stop=extent),
        )
        whole = Substitute({axis.var: as_term(wide)})
        init = None if term.block.init is None else whole.stmt(term.block.init)
        axes = tuple(replace(a, var=wide) if a.var == axis.var else a for a in term.block.axes)
        made = replace(term.block, axes=axes, init=init, body=whole.stmt(term.block.body))
        func = with_changes(func, [(term.block, made)])
        loop, _ = find_loop(func, loop.var.name)
        body = Substitute({loop.var: as_term(place)}).stmt(loop.body)
        func = with_changes(func, [(loop, replace(loop, var=place, body=body))])
    return func


def _varying(term: SumTerm) -> list[For]:
    """The loops that leave something out."""
    return [
        loop for loop in term.loops
        if (loop.start.constant, loop.stop.constant) != (loop.var.start, loop.var.stop)
    ]  # fmt: skip


def _leaving(term: SumTerm) -> tuple[int, ...]:
    """The dimensions along which windows, were they whole, might reach outside."""
    load = term.read
    assert isinstance(load, Load)
    moved = [
        axis.var
        for axis in term.block.axes
        if axis.binding.variables() & {loop.var for loop in _varying(term)}
    ]
    return tuple(a for a, at in enumerate(load.indices) if at.variables() & set(moved))


def _require_outside(term: SumTerm) -> None:
    """Require that the loops omit exactly the elements outside of the buffer."""
    load = term.read
    assert isinstance(load, Load)
    bindings = {axis.var: axis.binding for axis in term.block.axes}
    for loop in _varying(term):
        indices = [at.substitute(bindings) for at in load.indices]
        moved = [a for a, at in enumerate(indices) if loop.var in at.variables()]
        terms = (loop.start, loop.stop, *(indices[a] for a in moved))
        used = {var for found in terms for var in found.variables()} - {loop.var}
        outer = sorted(used, key=lambda var: var.name)
        if len(moved) != 1 or prod(v.stop - v.start for v in outer) > MOST_WINDOWS:
            raise ScheduleError(f"{term.primitive}: loop {loop.var} skips unknown elements")
        extent = term.source.shape[moved[0]]
        for place in product(*(range(v.start, v.stop) for v in outer)):
            values = {var.name: value for var, value in zip(outer, place, strict=True)}
            run = range(loop.start.evaluate(values), loop.stop.evaluate(values))
            for step in range(loop.var.start, loop.var.stop):
                at = indices[moved[0]].evaluate({**values, loop.var.name: step})
                if (step in run) != (0 <= at < extent):
                    raise ScheduleError(f"{term.primitive}: loop {loop.var} skips elements inside")


def _whole(func: PrimFunc, term: SumTerm, block: Block) -> PrimFunc:
    """The block in loops that go over all of their variables' values."""
    func = with_changes(func, [(term.block, block)])
    for varying in _varying(term):
        loop, _ = find_loop(func, varying.var.name)
        start, stop = as_term(loop.var.start), as_term(loop.var.stop)
        func = with_changes(func, [(loop, replace(loop, start=start, stop=stop))])
    return func
