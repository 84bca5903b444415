"""warp_tiles: sums of products as tiles that the warps of a GPU's block multiply together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.access import reads
from edgec.loop.bound import MOST_STEPS
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
    Intrinsic,
    Load,
    PrimFunc,
    Stmt,
    Store,
)
from edgec.loop.primitives.layout import Repack
from edgec.loop.primitives.lookup import find_loop, with_changes
from edgec.loop.primitives.matrix_product import (
    Operand,
    Product,
    decoded,
    match_product,
    plain_extent,
    steps_in,
)
from edgec.loop.rewrite import Rewriter, Substitute, sequence
from edgec.numerics.narrow_float import FORMATS
from edgec.numerics.term import Term, TermLike, Var, as_term, floor_div, floor_mod, minimum

Array = npt.NDArray[Any]

#: The tile that one instruction of a warp multiplies: 16 rows by 8 columns, 32 bytes of each.
ROWS, COLUMNS, STEP_BYTES = 16, 8, 32
#: Warps of a block. A lane has rows g and g + 8 of each 16, and columns 2q and 2q + 1 of each 8.
WARPS = 4
#: Rows that lie together in shared memory: a lane's two rows are one such group apart.
GROUP = 8
#: The outermost loop of the instruction's meaning.
MMA_NEST = "tile_k"
UNROLLED: ForKind = "unrolled"


def warp_tiles(
    func: PrimFunc, loop: str, rows: int, columns: int, chunks: int, halves: bool = False
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
    and `columns` columns; its warps divide the columns if each has some, else the rows. The sum is
    split into `chunks` parts; each lies in shared memory completely. The innermost loops of the
    products, from `tile_k` on, are the instruction's meaning. Weights are packed by columns and
    steps, with zeros at the end of the sum; the result has the packing. Computed columns, and
    constants in another layout, are fetched like rows. Iterations of outer loops that change both
    factors have separate blocks (`block_z`). The instruction adds the offset to an int8 element.
    `halves`: all floats fit in float16, and tiles store float16.

    Requires a simplified function, and columns that divide N; where there are outer loops of both
    factors, rows that divide M, too. Barriers are not placed yet.
    """
    target, _ = find_loop(func, loop)
    tile = _Tile(match_product(target), rows, columns, chunks, halves)
    return _with_buffers(with_changes(func, [(target, _Builder(tile).stmt())]), tile)


def _with_buffers(func: PrimFunc, tile: _Tile) -> tuple[PrimFunc, tuple[str, Repack]]:
    """The function with a tile's buffers instead of its nest's."""
    product, weights = tile.product, tile.product.w.load.buffer
    kept = (buffer for buffer in func.allocs if buffer != product.acc)
    func = replace(func, allocs=(*kept, tile.sums, tile.shared))
    if not product.is_packed:
        allocs = (*func.allocs, tile.weights)
        return replace(func, allocs=allocs), (weights.name, lambda array: array)
    if weights in reads(func.body):
        raise ScheduleError("warp_tiles: the weights are read elsewhere, too")
    params = tuple(tile.weights if p == weights else p for p in func.params)
    return replace(func, params=params), (tile.weights.name, tile.pack)


def steps_of(dtype: str) -> int:
    """Steps of a sum that one instruction adds."""
    return STEP_BYTES * 8 // bits(dtype)


def is_tile(rows: int, columns: int) -> bool:
    """Whether the warps of a block share out columns, or else rows, evenly."""
    shared = columns if columns % (COLUMNS * WARPS) == 0 else rows // ROWS * COLUMNS
    return columns % COLUMNS == 0 and rows % ROWS == 0 and shared % (COLUMNS * WARPS) == 0


@dataclass(frozen=True)
class _Tile:
    """A tile and its buffers. rows, columns: of a block. m, n: instructions of a warp."""

    product: Product
    rows: int
    columns: int
    chunks: int
    halves: bool

    def __post_init__(self) -> None:
        m, n, _ = self.product.sizes()
        if n % self.columns or not is_tile(self.rows, self.columns):
            raise ScheduleError(f"warp_tiles: {self.rows} x {self.columns} do not share out {n}")
        if self.product.batch and m % self.rows:
            raise ScheduleError(f"warp_tiles: {self.rows} do not share out {m} rows of a product")
        if steps_in(self.product.batch) > MOST_STEPS["block_z"]:
            raise ScheduleError("warp_tiles: more products than a GPU has blocks in a column")

    @property
    def dtype(self) -> str:
        """The dtype of the elements in tiles."""
        return "uint16" if self.halves else self.product.x.load.dtype

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
        return steps_of(self.dtype)

    @property
    def steps(self) -> int:
        """The steps of a chunk, a multiple of the steps of an instruction."""
        return -(-self.product.sizes()[2] // (self.at_once * self.chunks)) * self.at_once

    @property
    def shared(self) -> Buffer:
        return self._fetched("fetched", self.rows)

    def _fetched(self, name: str, lines: int) -> Buffer:
        shape = (self.steps // self.at_once * lines // GROUP, GROUP, self.at_once)
        return Buffer(name, shape, self.dtype, "shared")

    @property
    def sums(self) -> Buffer:
        return replace(self.product.acc, shape=(self.m * self.n * 4,))

    @property
    def weights(self) -> Buffer:
        """The weights by columns and steps of instructions: packed, or fetched in chunks."""
        if not self.product.is_packed:
            return self._fetched("fetched_w", self.columns)
        channels = self.product.sizes()[1]
        groups = self.chunks * self.steps // self.at_once
        shape = (channels // COLUMNS, groups, COLUMNS, self.at_once)
        return replace(self.product.w.load.buffer, shape=shape, dtype=self.dtype)

    def pack(self, array: Array) -> Array:
        """Weights [channels, ..] as columns and steps of instructions."""
        _, channels, steps = self.product.sizes()
        flat = np.reshape(array, (channels, steps))
        flat = np.pad(flat, [(0, 0), (0, self.chunks * self.steps - steps)])
        parts = flat.reshape(channels // COLUMNS, COLUMNS, -1, self.at_once).transpose(0, 2, 1, 3)
        parts = parts.astype(np.float16).view(np.uint16) if self.halves else parts
        return np.ascontiguousarray(parts)

    def stored(self, number: Expr) -> Expr:
        """A number as a tile stores it."""
        if not self.halves:
            return number
        arguments = (*FORMATS["float16"].arguments, 0)
        words = tuple(Const(each, "int32") for each in arguments)
        return Cast("uint16", Intrinsic("narrow_f32", (number, *words), "uint32"))

    def number(self, element: Load, offset: int) -> Expr:
        """A factor, from the number in a tile."""
        if self.halves:
            words = tuple(Const(each, "int32") for each in FORMATS["float16"].arguments)
            return Intrinsic("widen_f32", (Cast("uint32", element), *words), "float32")
        if is_float(self.dtype):
            return element
        wide = Cast("int32", element)
        return Binary("add", wide, Const(offset, "int32")) if offset else wide


def _each(name: str, extent: int, body: Callable[[Term], Stmt], kind: ForKind = "serial") -> Stmt:
    """A loop, or only its body if it has one iteration."""
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


@dataclass(frozen=True)
class _Lines:
    """Rows or columns to fetch: the operand, the buffer, first and end index, and the loop
    variables' values at an index.
    """

    name: str
    operand: Operand
    to: Buffer
    first: Term
    stop: int
    bindings: Callable[[Term], Mapping[Var, TermLike]]

    @property
    def nothing(self) -> Const:
        """The value that adds nothing to a sum."""
        return Const(0.0 if is_float(self.to.dtype) else -self.operand.offset, self.to.dtype)

    def width(self, inner: For) -> int:
        """Steps that are copied at once: four of int8 that lie in a word; four that become float16,
        one as far from the other as the next; or one.
        """
        load, stride = self.operand.load, self.operand.stride(inner.var)
        rest = self.operand.address - as_term(inner.var) * stride
        if inner.var in rest.variables() or plain_extent(inner) % 4:
            return 1
        is_word = stride == 1 and not any(c % 4 for c in (rest.offset, *dict(rest.parts).values()))
        return 4 if self.to.dtype == "uint16" or (load.dtype == "int8" and is_word) else 1


class _Builder:
    """Writes the nest."""

    def __init__(self, tile: _Tile) -> None:
        self.tile, self.product = tile, tile.product
        self.of_m, self.of_n, self.of_k = tile.product.sizes()
        self.q = self.g = self.warp = Var("none", 0, 1)  # of the part that is written
        self.batch: dict[Var, TermLike] = {}
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

        def in_batch(batch: Term) -> Stmt:
            self.batch = decoded(self.product.batch, batch)
            return _each("tile_m", down, in_row, "block_y")

        return _each("tile_b", steps_in(self.product.batch), in_batch, "block_z")

    def _threads(self, part: str, make: Callable[[], Stmt]) -> Stmt:
        """The work of each thread between two barriers."""
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
        """Build `body` for each sum of a thread, from its number, its row and its column."""
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

    def _bindings(self, row: Term, column: TermLike) -> Mapping[Var, TermLike]:
        return {**self.batch, **decoded(self.product.rows, row), self.product.channel.var: column}

    def _start(self) -> Stmt:
        def start(number: Term, row: Term, column: Term) -> Stmt:
            bindings = self._bindings(minimum(row, self.of_m - 1), column)
            value = Substitute(bindings).expr(self.product.start.value)
            return Store(self.tile.sums, (number,), value)

        return self._sums("begin", start)

    def _end(self) -> Stmt:
        def end(number: Term, row: Term, column: Term) -> Stmt:
            swap = _Sum(self.product.acc, self.tile.sums, number)
            bind = Substitute(self._bindings(row, column))
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
        """The rows of a part of the sum, and the columns where they are not packed."""
        tile, product = self.tile, self.product
        channel = product.channel.var
        rows = _Lines("rows", product.x, tile.shared, self.first_row, self.of_m,
                      lambda row: decoded(product.rows, row))  # fmt: skip
        columns = _Lines("columns", product.w, tile.weights, self.first_column, self.of_n,
                         lambda column: {channel: column})  # fmt: skip
        fetched = (rows,) if product.is_packed else (rows, columns)
        return sequence(*(self._fetch_lines(part, lines) for lines in fetched))

    def _fetch_lines(self, part: Term, lines: _Lines) -> Stmt:
        """Each warp fetches groups of eight lines and 32 bytes, each lane eight bytes of a line."""
        groups = lines.to.shape[0]
        width = lines.width(self.product.steps[-1])

        def fetch(turn: Term) -> Stmt:
            group = turn * WARPS + self.warp
            body = _each(
                f"{lines.name}_half", self.tile.at_once // 4 // width,
                lambda half: self._fetch_some(part, lines, group, half, width),
            )  # fmt: skip
            return _guarded(group, groups, body)

        return _each(f"{lines.name}_turn", -(-groups // WARPS), fetch)

    def _fetch_some(self, part: Term, lines: _Lines, group: Term, half: Term, width: int) -> Stmt:
        count = lines.to.shape[0] * self.tile.at_once // self.tile.steps
        offset = as_term(self.q) * (self.tile.at_once // 4) + half * width
        line = lines.first + floor_mod(group, count) * GROUP + self.g
        step = part * self.tile.steps + floor_div(group, count) * self.tile.at_once + offset
        bindings = {**self.batch, **lines.bindings(line), **decoded(self.product.steps, step)}

        def copy(name: str, is_read: bool) -> Stmt:
            def one(lane: Term) -> Stmt:
                inner = self.product.steps[-1].var
                at = {**bindings, inner: as_term(bindings[inner]) + lane}
                read = Substitute(at).expr(lines.operand.load)
                value = self.tile.stored(read) if is_read else lines.nothing
                return Store(lines.to, (group, as_term(self.g), offset + lane), value)

            return _each(lines.name + name, width, one)

        read, nothing = copy("_copy", True), copy("_clear", False)
        inside = _guarded(step, self.of_k, read, nothing)
        return _guarded(line, lines.stop, inside, nothing)

    def _multiply(self, part: Term) -> Stmt:
        tile, kind = self.tile, UNROLLED
        wm, wn = (0, self.warp) if tile.is_wide else (self.warp, 0)

        def product(kk: Term, m: Term, n: Term) -> Stmt:
            k, r, s = Var(MMA_NEST, 0, tile.at_once), Var("tile_r", 0, 2), Var("tile_s", 0, 2)
            number = (m * tile.n + n) * 4 + as_term(r) * 2 + s
            group = kk * (tile.rows // GROUP) + (as_term(wm) * tile.m + m) * 2 + r
            column = floor_div(self.first_column, COLUMNS) + as_term(wn) * tile.n + n
            x = Load(tile.shared, (group, as_term(self.g), as_term(k)))
            line: tuple[Term, ...] = (kk * (tile.columns // COLUMNS) + as_term(wn) * tile.n + n,)
            if self.product.is_packed:
                line = (column, part * (tile.steps // tile.at_once) + kk)
            w = Load(tile.weights, (*line, as_term(self.q) * 2 + s, as_term(k)))
            value = Binary("mul", tile.number(x, self.product.x.offset),
                           tile.number(w, self.product.w.offset))  # fmt: skip
            total = Binary("add", Load(tile.sums, (number,)), value)
            body: Stmt = Store(tile.sums, (number,), total)
            for var in (s, r, k):
                body = For(var, as_term(0), as_term(var.stop), "serial", body)
            return body

        return _each("tile_kk", tile.steps // tile.at_once, lambda kk:
            _each("tile_i", tile.m, lambda m:
                _each("tile_j", tile.n, lambda n: product(kk, m, n), kind), kind))  # fmt: skip
