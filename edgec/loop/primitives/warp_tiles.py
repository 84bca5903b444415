"""warp_tiles: sums of products as tiles that the warps of a GPU's block multiply together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import flat_address, reads
from edgec.loop.dtype import bits, is_float
from edgec.loop.ir import (
    Binary,
    BoundKind,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    ForKind,
    If,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
)
from edgec.loop.primitives.layout import Repack
from edgec.loop.primitives.lookup import constant_extent, find_loop, with_changes
from edgec.loop.rewrite import Rewriter, Substitute, sequence
from edgec.numerics.term import Term, TermLike, Var, as_term, floor_div, floor_mod, minimum

Array = npt.NDArray[Any]

#: What one instruction of a warp multiplies: 16 rows by 8 columns, over 32 bytes of each.
ROWS, COLUMNS, STEP_BYTES = 16, 8, 32
#: Warps of a block. A lane has rows g and g + 8 of each 16, and columns 2q and 2q + 1 of each 8.
WARPS = 4
#: Rows that lie together in shared memory: a lane's two rows are one such group apart.
GROUP = 8
#: The outermost loop of what the instruction means.
MMA_NEST = "tile_k"
UNROLLED: ForKind = "unrolled"


def warp_tiles(
    func: PrimFunc, loop: str, rows: int, columns: int, chunks: int
) -> tuple[PrimFunc, tuple[str, Repack]]:
    """Give each block of a GPU a tile of a product, and each thread four sums of a part.

        for m in 0..M {                      block_y for tile_m in 0..M // 16 {
          for c in 0..N {                      block_x for tile_n in 0..N // 32 {
            acc[0] = bias[c]                     thread_z for warp in 0..4 {
            for k in 0..K {               ->       thread_y for g in 0..8 { thread_x for q in 0..4 {
              acc[0] = acc[0]                        acc[0..4] = bias of columns 2q and 2q + 1
                + int32(x[m, k])                     fetched[..] = 16 rows of x, by all
                * int32(w[c, k])                     for kk in 0..K // 32 {
            }                                          acc[r, s] += fetched[.., 8r + g, ..] * w[..]
            out[m, c] = f(acc[0], c)                 }
        } }                                          out[.., ..] = f(acc[r, s], 2q + s)
                                             } } } } }

    `loop` is the outermost of the nest; all but the last one count rows. A block has `rows` rows
    and `columns` columns; its warps share out the columns where each has some, else the rows. The
    sum goes over `chunks` parts, each of which lies in shared memory as a whole. The innermost
    loops of the products, from `tile_k` on, are what the instruction means. Weights are packed by
    columns and steps, with zeros at the end of the sum; the last is said by the result.

    Requires a simplified function, and columns that divide N. Barriers are not placed yet.
    """
    target, _ = find_loop(func, loop)
    found = _match(target)
    tile = _Tile(found, rows, columns, chunks)
    body = _Builder(tile).stmt()
    packed = tile.packed
    changed = with_changes(func, [(target, body)])
    params = tuple(packed if p == found.weights.buffer else p for p in func.params)
    allocs = tuple(b for b in func.allocs if b != found.acc)
    changed = replace(changed, params=params, allocs=(*allocs, tile.sums, tile.shared))
    if found.weights.buffer in reads(changed.body):
        raise ScheduleError("warp_tiles: the weights are read elsewhere, too")
    return changed, (packed.name, tile.pack)


@dataclass(frozen=True)
class _Product:
    """The nest: rows by their loops, the channel, the start of a sum, its steps, what follows."""

    rows: tuple[For, ...]
    channel: For
    start: Store
    steps: tuple[For, ...]
    x: Load
    weights: Load
    rest: tuple[Stmt, ...]

    @property
    def acc(self) -> Buffer:
        return self.start.buffer

    def sizes(self) -> tuple[int, int, int]:
        """Rows, channels, and steps of a sum."""
        loops = (self.rows, (self.channel,), self.steps)
        m, n, k = (prod(map(plain_extent, each)) for each in loops)
        return m, n, k


def plain_extent(loop: For) -> int:
    """The steps of a serial loop from 0 to a constant; ScheduleError for another one."""
    extent = constant_extent(loop)
    if extent is None or loop.start.constant != 0 or loop.kind != "serial":
        raise ScheduleError(f"loop {loop.var.name} is no plain loop from 0")
    return extent


def nested(stmt: Stmt) -> tuple[tuple[For, ...], Stmt]:
    """Loops that are directly nested, and what is inside."""
    found: list[For] = []
    while isinstance(stmt, For):
        plain_extent(stmt)
        found.append(stmt)
        stmt = stmt.body
    return tuple(found), stmt


def _match(target: For) -> _Product:
    loops, body = nested(target)
    stmts = body.stmts if isinstance(body, Seq) else ()
    if len(stmts) < 3 or not isinstance(stmts[0], Store):
        raise ScheduleError("warp_tiles: the nest does not start a sum, add and store")
    steps, update = nested(stmts[1])
    start = stmts[0]
    if start.buffer.scope != "register" or start.buffer.elements != 1 or not steps:
        raise ScheduleError("warp_tiles: the sum is no single register")
    x, weights = _factors(update, start.buffer)
    found = _Product(loops[:-1], loops[-1], start, steps, x, weights, stmts[2:])
    k = found.sizes()[2]
    place = _linear(steps) + as_term(found.channel.var) * k
    if flat_address(weights.buffer, weights.indices) != place:
        raise ScheduleError("warp_tiles: the weights of a channel do not lie together")
    return found


def _linear(loops: Sequence[For]) -> Term:
    """The number of a step of nested loops."""
    total = as_term(0)
    for loop in loops:
        total = total * plain_extent(loop) + loop.var
    return total


def _factors(update: Stmt, acc: Buffer) -> tuple[Load, Load]:
    """The loads of acc = acc + int32(x) * int32(w), or of floats; one is of constants."""
    product = _added(update, acc)
    sides = () if product is None else (product.left, product.right)
    loads = [load for load in map(_factor, sides) if load is not None]
    loads.sort(key=lambda load: load.buffer.scope == "constant")
    if [load.buffer.scope == "constant" for load in loads] != [False, True]:
        raise ScheduleError("warp_tiles: it adds no products of int8 or float32 by constants")
    return loads[0], loads[1]


def _added(update: Stmt, acc: Buffer) -> Binary | None:
    """The product that is added to the sum."""
    value = update.value if isinstance(update, Store) and update.buffer == acc else None
    if isinstance(value, Binary) and (value.op, value.left) == ("add", Load(acc, (as_term(0),))):
        product = value.right
        return product if isinstance(product, Binary) and product.op == "mul" else None
    return None


def _factor(expr: Expr) -> Load | None:
    """The element of int8 that an expression widens, or a float."""
    inside = expr.value if isinstance(expr, Cast) else expr
    dtype = "int8" if isinstance(expr, Cast) else "float32"
    return inside if isinstance(inside, Load) and inside.dtype == dtype else None


def steps_of(dtype: str) -> int:
    """Steps of a sum that one instruction adds."""
    return STEP_BYTES * 8 // bits(dtype)


@dataclass(frozen=True)
class _Tile:
    """A tile and its buffers. rows, columns: of a block. m, n: instructions of a warp."""

    product: _Product
    rows: int
    columns: int
    chunks: int

    def __post_init__(self) -> None:
        n = self.product.sizes()[1]
        is_whole = self.columns % COLUMNS == 0 and self.rows % ROWS == 0
        if not is_whole or n % self.columns or (not self.is_wide and self.rows % (ROWS * WARPS)):
            raise ScheduleError(f"warp_tiles: {self.rows} x {self.columns} do not share out {n}")

    @property
    def is_wide(self) -> bool:
        """Whether each warp has columns of its own, not rows."""
        return self.columns % (COLUMNS * WARPS) == 0

    @property
    def m(self) -> int:
        return self.rows // ROWS // (1 if self.is_wide else WARPS)

    @property
    def n(self) -> int:
        return self.columns // COLUMNS // (WARPS if self.is_wide else 1)

    @property
    def at_once(self) -> int:
        """Steps of an instruction."""
        return steps_of(self.product.x.dtype)

    @property
    def steps(self) -> int:
        """Of a chunk, a multiple of those of an instruction."""
        return -(-self.product.sizes()[2] // (self.at_once * self.chunks)) * self.at_once

    @property
    def shared(self) -> Buffer:
        shape = (self.steps // self.at_once * self.rows // GROUP, GROUP, self.at_once)
        return Buffer("fetched", shape, self.product.x.dtype, "shared")

    @property
    def sums(self) -> Buffer:
        return replace(self.product.acc, shape=(self.m * self.n * 4,))

    @property
    def packed(self) -> Buffer:
        channels = self.product.sizes()[1]
        groups = self.chunks * self.steps // self.at_once
        shape = (channels // COLUMNS, groups, COLUMNS, self.at_once)
        return replace(self.product.weights.buffer, shape=shape)

    def pack(self, array: Array) -> Array:
        """Weights [channels, ..] as columns and steps of instructions."""
        _, channels, steps = self.product.sizes()
        flat = np.reshape(array, (channels, steps))
        flat = np.pad(flat, [(0, 0), (0, self.chunks * self.steps - steps)])
        parts = flat.reshape(channels // COLUMNS, COLUMNS, -1, self.at_once).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(parts)


def _each(name: str, extent: int, body: Callable[[Term], Stmt], kind: ForKind = "serial") -> Stmt:
    """A loop, or what is inside where there is one step alone."""
    if extent == 1:
        return body(as_term(0))
    var = Var(name, 0, extent)
    return For(var, as_term(0), as_term(extent), kind, body(as_term(var)))


def _guarded(index: Term, stop: int, body: Stmt, otherwise: Stmt | None = None) -> Stmt:
    """The body where the index is below; without a guard where it always is."""
    if index.bounds()[1] < stop:
        return body
    return If(index, as_term(stop), body, otherwise)


class _Sum(Rewriter):
    """Reads one of several sums."""

    def __init__(self, old: Buffer, new: Buffer, index: Term) -> None:
        self.old, self.read = old, Load(new, (index,))

    def load(self, load: Load) -> Load:
        return self.read if load.buffer == self.old else load


class _Builder:
    """Writes the nest."""

    def __init__(self, tile: _Tile) -> None:
        self.tile, self.product = tile, tile.product
        self.of_m, self.of_n, self.of_k = tile.product.sizes()
        self.q = self.g = self.warp = Var("none", 0, 1)  # of the part that is written
        self.first_row = self.first_column = as_term(0)

    def stmt(self) -> Stmt:
        """All blocks."""

        def in_columns(row: Term) -> Callable[[Term], Stmt]:
            def inside(column: Term) -> Stmt:
                self.first_row, self.first_column = row * self.tile.rows, column * self.tile.columns
                return sequence(
                    self._threads("begin", self._start), self._chunks(),
                    self._threads("end", self._end),
                )  # fmt: skip

            return inside

        across, down = self.of_n // self.tile.columns, -(-self.of_m // self.tile.rows)

        def in_row(row: Term) -> Stmt:
            column = Var("tile_n", 0, across)
            body = in_columns(row)(as_term(column if across > 1 else 0))
            return For(column, as_term(0), as_term(across), "block_x", body)

        return _each("tile_m", down, in_row, "block_y")

    def _threads(self, part: str, make: Callable[[], Stmt]) -> Stmt:
        """What each thread does between two barriers."""
        self.q, self.g = Var(f"{part}_q", 0, 4), Var(f"{part}_g", 0, GROUP)
        self.warp = Var(f"{part}_warp", 0, WARPS)
        body = make()
        kinds: tuple[tuple[Var, BoundKind], ...] = (
            (self.q, "thread_x"), (self.g, "thread_y"), (self.warp, "thread_z"),
        )  # fmt: skip
        for var, kind in kinds:
            body = For(var, as_term(0), as_term(var.stop), kind, body)
        return body

    def _sums(self, name: str, body: Callable[[Term, Term, Term], Stmt]) -> Stmt:
        """For each sum of a thread: by its number, its row and its column."""
        tile, kind = self.tile, UNROLLED
        wm, wn = (0, self.warp) if tile.is_wide else (self.warp, 0)

        def of(m: Term, n: Term, r: Term, s: Term) -> Stmt:
            number = (m * tile.n + n) * 4 + r * 2 + s
            row = self.first_row + (as_term(wm) * tile.m + m) * ROWS + r * GROUP + self.g
            column = self.first_column + (as_term(wn) * tile.n + n) * COLUMNS + as_term(self.q) * 2
            return body(number, row, column + s)

        return _each(f"{name}_m", tile.m, lambda m:
            _each(f"{name}_n", tile.n, lambda n:
                _each(f"{name}_r", 2, lambda r:
                    _each(f"{name}_s", 2, lambda s: of(m, n, r, s),
                          kind), kind), kind), kind)  # fmt: skip

    def _places(self, row: Term, column: TermLike) -> Mapping[Var, TermLike]:
        return {**decoded(self.product.rows, row), self.product.channel.var: column}

    def _start(self) -> Stmt:
        def start(number: Term, row: Term, column: Term) -> Stmt:
            places = self._places(minimum(row, self.of_m - 1), column)
            value = Substitute(places).expr(self.product.start.value)
            return Store(self.tile.sums, (number,), value)

        return self._sums("begin", start)

    def _end(self) -> Stmt:
        def end(number: Term, row: Term, column: Term) -> Stmt:
            swap = _Sum(self.product.acc, self.tile.sums, number)
            bind = Substitute(self._places(row, column))
            stmts = (bind.stmt(swap.stmt(stmt)) for stmt in self.product.rest)
            return _guarded(row, self.of_m, sequence(*stmts))

        return self._sums("end", end)

    def _chunks(self) -> Stmt:
        return _each(
            "tile_part", self.tile.chunks,
            lambda part: sequence(
                self._threads("fetch", lambda: self._fetch(part)),
                self._threads("multiply", lambda: self._multiply(part)),
            ),
        )  # fmt: skip

    def _fetch(self, part: Term) -> Stmt:
        """Each warp fetches groups of eight rows and 32 bytes, each lane eight bytes of a row."""
        groups = self.tile.shared.shape[0]

        def fetch(turn: Term) -> Stmt:
            group = turn * WARPS + self.warp
            body = _each(
                "tile_half", self.tile.at_once // 4 // self._width,
                lambda half: self._fetch_some(part, group, half),
            )  # fmt: skip
            return _guarded(group, groups, body)

        return _each("tile_turn", -(-groups // WARPS), fetch)

    @property
    def _width(self) -> int:
        """Steps that lie side by side in the input as well: four of int8, or one."""
        inner = self.product.steps[-1]
        address = flat_address(self.product.x.buffer, self.product.x.indices)
        rest = address - as_term(inner.var)
        strides = [c for _, c in rest.parts]
        is_side_by_side = inner.var not in rest.variables() and plain_extent(inner) % 4 == 0
        is_side_by_side = is_side_by_side and self.product.x.dtype == "int8"
        return 4 if is_side_by_side and not any(c % 4 for c in (*strides, rest.offset)) else 1

    def _fetch_some(self, part: Term, group: Term, half: Term) -> Stmt:
        rows, width = self.tile.rows // GROUP, self._width
        place = as_term(self.q) * (self.tile.at_once // 4) + half * width
        row = self.first_row + floor_mod(group, rows) * GROUP + self.g
        step = part * self.tile.steps + floor_div(group, rows) * self.tile.at_once + place
        places = decoded(self.product.rows, row) | decoded(self.product.steps, step)

        def copy(name: str, is_read: bool) -> Stmt:
            def one(lane: Term) -> Stmt:
                inner = self.product.steps[-1].var
                at = {**places, inner: as_term(places[inner]) + lane}
                read = Substitute(at).expr(self.product.x)
                dtype = self.product.x.dtype
                value = read if is_read else Const(0.0 if is_float(dtype) else 0, dtype)
                return Store(self.tile.shared, (group, as_term(self.g), place + lane), value)

            return _each(name, width, one)

        read, nothing = copy("tile_copy", True), copy("tile_clear", False)
        inside = _guarded(step, self.of_k, read, nothing)
        return _guarded(row, self.of_m, inside, nothing)

    def _multiply(self, part: Term) -> Stmt:
        tile, kind = self.tile, UNROLLED
        wm, wn = (0, self.warp) if tile.is_wide else (self.warp, 0)

        def product(kk: Term, m: Term, n: Term) -> Stmt:
            k, r, s = Var(MMA_NEST, 0, tile.at_once), Var("tile_r", 0, 2), Var("tile_s", 0, 2)
            number = (m * tile.n + n) * 4 + as_term(r) * 2 + s
            group = kk * (tile.rows // GROUP) + (as_term(wm) * tile.m + m) * 2 + r
            column = floor_div(self.first_column, COLUMNS) + as_term(wn) * tile.n + n
            x = Load(tile.shared, (group, as_term(self.g), as_term(k)))
            turn = part * (tile.steps // tile.at_once) + kk
            w = Load(tile.packed, (column, turn, as_term(self.q) * 2 + s, as_term(k)))
            sides = (x, w) if is_float(x.dtype) else (Cast("int32", x), Cast("int32", w))
            value = Binary("mul", *sides)
            total = Binary("add", Load(tile.sums, (number,)), value)
            body: Stmt = Store(tile.sums, (number,), total)
            for var in (s, r, k):
                body = For(var, as_term(0), as_term(var.stop), "serial", body)
            return body

        return _each("tile_kk", tile.steps // tile.at_once, lambda kk:
            _each("tile_i", tile.m, lambda m:
                _each("tile_j", tile.n, lambda n: product(kk, m, n), kind), kind))  # fmt: skip


def decoded(loops: Sequence[For], number: Term) -> dict[Var, TermLike]:
    """The variables of nested loops at a step of all of them."""
    found: dict[Var, TermLike] = {}
    inner = 1
    for position, loop in reversed(list(enumerate(loops))):
        at = floor_div(number, inner)
        inner *= plain_extent(loop)
        found[loop.var] = at if position == 0 else floor_mod(at, plain_extent(loop))
    return found
