"""winograd: sums over windows of 3 x 3 by fewer products, of tiles of the input and of weights.

Source: Lavin, Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, section 4: a tile of
2 x 2 outputs takes 16 products for each input channel, not 36, one of 4 x 4 takes 36, not 144.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import copysign, frexp, prod

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.ir import Axis, Binary, Block, Buffer, Const, For, Load, PrimFunc, Stmt, Store
from edgec.loop.primitives.layout import Array, Repack
from edgec.loop.primitives.lookup import fresh, with_changes
from edgec.loop.primitives.nests import own_nest
from edgec.loop.primitives.sum_term import SumTerm, find_term, nest_of_copy
from edgec.loop.rewrite import ReplaceBuffer, sequence
from edgec.loop.values import ExprValue, Value, index, select
from edgec.numerics.term import Term, Var, as_term, floor_div, floor_mod, minimum

KERNEL = 3
Matrix = Sequence[Sequence[float]]
Place = dict[str, Term]


@dataclass(frozen=True)
class Tile:
    """One dimension of a tile: outputs = back (apart weights * into inputs), element by element."""

    into: Matrix
    apart: Matrix
    back: Matrix


def _tile(*points: float) -> Tile:
    """The method of Toom and Cook multiplies polynomials at these points and at infinity."""
    into, apart = [], []
    for p in points:
        others = [q for q in points if q != p]
        scale = prod(p - q for q in others)
        into.append([*_with_roots(others), 0.0])
        apart.append([p**power / scale for power in range(KERNEL)])
    back = [[*(p**power for p in points), 0.0] for power in range(len(points) - 1)]
    back[-1][-1] = 1.0
    return Tile([*into, _with_roots(points)], [*apart, [0.0, 0.0, 1.0]], back)


def _with_roots(roots: Iterable[float]) -> list[float]:
    """The coefficients of the polynomial with these roots, constant term first."""
    found = [1.0]
    for root in roots:
        found = [a - root * b for a, b in zip([0.0, *found], [*found, 0.0], strict=True)]
    return found


#: By the outputs of a tile in each dimension. A number times a coefficient of `into` and `back` is
#: exact, or a sum of two that are: whether a compiler rounds a product before it adds makes no
#: difference then. Of such points for four outputs these have the least error: 1, -1, 2 and -2 have
#: four times that.
TILES = {2: _tile(0, 1, -1), 4: _tile(0, 1, -1, 1 / 2, -2)}


def winograd(
    func: PrimFunc, block: str, buffer: str, outputs: int
) -> tuple[PrimFunc, tuple[str, Repack]]:
    """Sum over windows of 3 x 3, tile by tile of `outputs` x `outputs`, by the method of Winograd.

        block acc(h, w, c, kh, kw, k) {         block acc_rows(i, r, v, k) {
          init { acc[h, w, c] = bias[c] }         acc_rows[..] = x[2*r + .., v, k] -+ x[..]
          acc[h, w, c] = acc[h, w, c]           }
            + x[h + kh, w + kw, k]              block acc_in(i, j, r, t, k) {
            * w[c, kh, kw, k]             ->      acc_in[..] = acc_rows[i, r, 2*t + .., k] -+ ..
        }                                       }
                                                block acc_tiles(i, j, r, t, c, k) {
                                                  acc_tiles[..] = acc_tiles[..]
                                                    + acc_in[i, j, r, t, k] * w[i, j, c, k]
                                                }
                                                block acc_back(q, j, r, t, c) {
                                                  acc_back[..] = acc_tiles[.., j, ..] +- ..
                                                }
                                                block acc(h, w, c) {
                                                  acc[h, w, c] = bias[c]
                                                    + (acc_back[h % 2, .., h // 2, w // 2, c] +- ..)
                                                }

    Tiles that reach outside read the last row or column again for outputs that are not stored.
    Returns the weights' name, and the function that transforms their array at compile time.
    Requires: floats, complete windows of stride 1, one image after the other. The sums are the same
    except for rounding.
    """
    made = _Tiled(func, find_term("winograd", func, block, buffer), outputs)
    stages = sequence(*made.inputs(), made.products(), *made.results())
    func = with_changes(func, [(own_nest(func, block).root, stages)])
    func = replace(func, body=ReplaceBuffer({made.sums: made.whole_sums}).stmt(func.body))
    weights = replace(made.weights.buffer, shape=made.weights_shape)
    position = func.params.index(made.sums)
    before = tuple(weights if p == made.weights.buffer else p for p in func.params[:position])
    params = (*before, *made.temporaries, made.whole_sums, *func.params[position + 1 :])
    tile = made.tile
    return replace(func, params=params), (weights.name, lambda array: _apart(tile, array))


def _apart(tile: Tile, array: Array) -> Array:
    """Weights [out, 3, 3, in], transformed to tiles: [tile, tile, out, in]."""
    g = np.asarray(tile.apart, np.float64)
    made = np.einsum("ia,jb,oabk->ijok", g, g, array.astype(np.float64))
    return np.ascontiguousarray(made.astype(np.float32))


def _rows(row: Term | Var, matrix: Matrix, read: Callable[[int], ExprValue]) -> ExprValue:
    """The sum of read values, weighted by a row of the matrix."""
    *others, found = [_sum_of(coefficients, read) for coefficients in matrix]
    for number, value in reversed([*enumerate(others)]):
        found = select(index(row).equals(number), value, found)
    assert isinstance(found, ExprValue)
    return found


def _sum_of(coefficients: Sequence[float], read: Callable[[int], ExprValue]) -> Value:
    """One row's sum, from the last one on."""
    total: Value | None = None
    for k, factor in reversed([*enumerate(coefficients)]):
        if factor:
            part = _times(read(k), factor if total is None else abs(factor))
            total = part if total is None else total + part if factor > 0 else total - part
    assert total is not None
    return total


def _times(value: Value, factor: float) -> Value:
    """A number times a power of two, or the sum of it times two of them."""
    mantissa, exponent = frexp(factor)
    power = copysign(2.0 ** (exponent - 1), mantissa)
    exact = value if power == 1 else value * power
    return exact if power == factor else exact + _times(value, factor - power)


class _Tiled:
    """The parts of a sum that is made tile by tile."""

    def __init__(self, func: PrimFunc, term: SumTerm, outputs: int) -> None:
        if outputs not in TILES:
            raise ScheduleError(f"winograd: no tiles of {outputs} outputs, but {[*TILES]}")
        load, weights, store = term.read, term.weight, term.block.body
        assert isinstance(store, Store)
        is_float = term.source.dtype == store.buffer.dtype == "float32"
        if not (isinstance(load, Load) and isinstance(weights, Load) and is_float):
            raise ScheduleError(f"winograd: {term.block.name} multiplies no floats by weights")
        self.func, self.term, self.outputs, self.tile = func, term, outputs, TILES[outputs]
        self.load, self.weights, self.sums = load, weights, store.buffer
        self.wide = outputs + KERNEL - 1
        axes = [axis.var for axis in term.block.axes]
        if len(axes) != 7 or weights.dtype != "float32":
            raise ScheduleError(f"winograd: {term.block.name} has {len(axes)} axes, not 7")
        self.n, self.h, self.w, self.c, self.kh, self.kw, self.k = axes
        self._require_windows()
        size = self.sums.shape
        self.r, self.t = (Var(name, 0, -(-size[d] // outputs)) for name, d in (("r", 1), ("t", 2)))
        self.i, self.j = Var("i", 0, self.wide), Var("j", 0, self.wide)
        self.q = Var("q", 0, outputs)
        whole = (size[0], self.r.stop * outputs, self.t.stop * outputs, size[3])
        self.whole_sums = replace(self.sums, shape=whole)
        self.h, self.w = (
            replace(v, stop=e) for v, e in zip((self.h, self.w), whole[1:3], strict=True)
        )
        self.y, self.v = (Var(name, 0, tiles.stop * outputs + KERNEL - 1)
                          for name, tiles in (("y", self.r), ("v", self.t)))  # fmt: skip
        self.temporaries: list[Buffer] = []

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The shape in which tiles take the weights."""
        return (self.wide, self.wide, self.c.stop, self.k.stop)

    def _require_windows(self) -> None:
        term, axes = self.term, [as_term(var) for var in (self.c, self.kh, self.kw, self.k)]
        extents, shape = [term.extent(a.var) for a in term.block.axes], self.weights.buffer.shape
        if list(self.weights.indices) != axes or shape[1:3] != (KERNEL, KERNEL):
            raise ScheduleError(f"winograd: {term.block.name} has no windows of 3 x 3")
        if extents != [*self.sums.shape, *shape[1:]]:
            raise ScheduleError(f"winograd: the windows of {term.block.name} are not whole")
        n, h, w, k = map(as_term, (self.n, self.h, self.w, self.k))
        wanted = (n, h + self.kh, w + self.kw, k)
        shifts = [(p - at).constant for p, at in zip(self.load.indices, wanted, strict=True)]
        if None in shifts or shifts[0] or shifts[3]:
            raise ScheduleError(f"winograd: windows of {term.block.name} do not step by one")
        self.shifts = [shift or 0 for shift in shifts]

    def _temporary(self, name: str, axes: Sequence[Var]) -> Buffer:
        made = Buffer(fresh(self.func, f"{self.term.block.name}_{name}"),
                      tuple(var.stop for var in axes), "float32", "scratch")  # fmt: skip
        self.temporaries.append(made)
        return made

    def inputs(self) -> tuple[Stmt, Stmt, Stmt]:
        """The whole tiles of the input; their rows, then their columns."""
        n, i, j, r, t, y, v, k = self.n, self.i, self.j, self.r, self.t, self.y, self.v, self.k
        source, into, size = self.load.buffer, self.tile.into, self.outputs
        edges = [
            minimum(as_term(at) + self.shifts[axis], source.shape[axis] - 1)
            for axis, at in ((1, y), (2, v))
        ]
        copy = self._temporary("from", (n, y, v, k))
        whole = nest_of_copy(copy, (n, y, v, k), _read(source, n, *edges, k).expr)
        rows = self._temporary("rows", (n, i, r, v, k))
        value = _rows(i, into, lambda a: _read(copy, n, as_term(r) * size + a, v, k))
        first = nest_of_copy(rows, (n, i, r, v, k), value.expr)
        self.taken = self._temporary("in", (n, r, t, i, j, k))
        value = _rows(j, into, lambda b: _read(rows, n, i, r, as_term(t) * size + b, k))
        return whole, first, nest_of_copy(self.taken, (n, r, t, i, j, k), value.expr)

    def products(self) -> Stmt:
        """The loops that multiply tiles by weights and sum over the input's channels."""
        axes = (self.n, self.r, self.t, self.i, self.j, self.c)
        self.tiles = self._temporary("tiles", axes)
        name = self.tiles.name
        here = tuple(map(as_term, axes))
        weights = replace(self.weights.buffer, shape=self.weights_shape)
        product = Binary(
            "mul",
            Load(self.taken, (*here[:-1], as_term(self.k))),
            Load(weights, tuple(map(as_term, (self.i, self.j, self.c, self.k)))),
        )
        body = Store(self.tiles, here, Binary("add", Load(self.tiles, here), product))
        loops = [replace(var, name=f"{name}_{var.name}") for var in (*axes, self.k)]
        bound = zip((*axes, self.k), loops, strict=True)
        nest: Stmt = Block(
            name,
            tuple(Axis(a, "reduce" if a is self.k else "spatial", as_term(v)) for a, v in bound),
            Store(self.tiles, here, Const(0.0, "float32")), body,
        )  # fmt: skip
        for loop in reversed(loops):
            nest = For(loop, as_term(0), as_term(loop.stop), "serial", nest)
        return nest

    def results(self) -> tuple[Stmt, Stmt]:
        """Rows of tiles of the output, then their columns."""
        n, j, r, t, q, c, size = self.n, self.j, self.r, self.t, self.q, self.c, self.outputs
        back = self._temporary("back", (n, r, t, q, j, c))
        value = _rows(q, self.tile.back, lambda a: _read(self.tiles, n, r, t, a, j, c))
        rows = nest_of_copy(back, (n, r, t, q, j, c), value.expr)
        init = self.term.block.init
        assert isinstance(init, Store)
        h, w = as_term(self.h), as_term(self.w)
        tiles = (floor_div(h, size), floor_div(w, size))
        value = _rows(floor_mod(w, size), self.tile.back,
                        lambda b: _read(back, n, *tiles, floor_mod(h, size), b, c))  # fmt: skip
        whole = Binary("add", init.value, value.expr)
        axes = (n, self.h, self.w, c)
        return rows, nest_of_copy(self.sums, axes, whole, self.term.block.name)


def _read(buffer: Buffer, *places: Term | Var | int) -> ExprValue:
    return ExprValue(Load(buffer, tuple(map(as_term, places))))
