"""Sums of products of rows by columns: a nest's factors and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from edgec.errors import ScheduleError
from edgec.loop.access import flat_address
from edgec.loop.ir import Binary, Buffer, Cast, Const, Expr, For, Load, PrimFunc, Seq, Stmt, Store
from edgec.loop.primitives.lookup import find_loop
from edgec.numerics.term import Term, TermLike, Var, as_term, floor_div, floor_mod


@dataclass(frozen=True)
class Operand:
    """A factor of a product: the loaded element, and the offset that is added to an int8."""

    load: Load
    offset: int

    @property
    def address(self) -> Term:
        """The offset of the element from the buffer's start."""
        return flat_address(self.load.buffer, self.load.indices)

    def stride(self, step: Var) -> int:
        """Distance to the element of the next step."""
        return dict(self.address.parts).get(step, 0)


@dataclass(frozen=True)
class Product:
    """The nest. batch: loops that change both factors; rest: statements after the sum; is_packed:
    the weights are constants stored channel by channel, and can be packed.
    """

    batch: tuple[For, ...]
    rows: tuple[For, ...]
    channel: For
    start: Store
    steps: tuple[For, ...]
    x: Operand
    w: Operand
    rest: tuple[Stmt, ...]
    is_packed: bool

    @property
    def acc(self) -> Buffer:
        return self.start.buffer

    def sizes(self) -> tuple[int, int, int]:
        """Rows, channels, and steps of a sum."""
        loops = (self.rows, (self.channel,), self.steps)
        m, n, k = map(steps_in, loops)
        return m, n, k


@dataclass(frozen=True)
class Sizes:
    """Sizes of a product: number of products, rows, columns and steps; whether weights are packed;
    for rows and columns: the buffer, the offset added to each element, the stride along the sum.
    """

    batch: int
    rows: int
    columns: int
    steps: int
    is_packed: bool
    buffers: tuple[str, str]
    offsets: tuple[int, int]
    strides: tuple[int, int]


def sizes_of(func: PrimFunc, loop: str) -> Sizes:
    """The sizes of the product that a nest is; ScheduleError where `warp_tiles` takes none."""
    found = match_product(find_loop(func, loop)[0])
    x, w, inner = found.x, found.w, found.steps[-1].var
    return Sizes(
        steps_in(found.batch), *found.sizes(), found.is_packed,
        (x.load.buffer.name, w.load.buffer.name), (x.offset, w.offset),
        (x.stride(inner), w.stride(inner)),
    )  # fmt: skip


def steps_in(loops: Sequence[For]) -> int:
    """All steps of nested loops."""
    return prod(map(plain_extent, loops))


def plain_extent(loop: For) -> int:
    """The steps of a serial loop from 0 to a constant; ScheduleError for another one."""
    extent = loop.extent
    if extent is None or loop.start.constant != 0 or loop.kind != "serial":
        raise ScheduleError(f"loop {loop.var.name} is not a plain loop from 0")
    return extent


def nested(stmt: Stmt) -> tuple[tuple[For, ...], Stmt]:
    """Directly nested loops, and the body of the innermost one."""
    found: list[For] = []
    while isinstance(stmt, For):
        plain_extent(stmt)
        found.append(stmt)
        stmt = stmt.body
    return tuple(found), stmt


def match_product(target: For) -> Product:
    """The product that a nest computes; ScheduleError if it is not a sum of products."""
    loops, body = nested(target)
    stmts = body.stmts if isinstance(body, Seq) else ()
    if len(stmts) < 3 or not isinstance(stmts[0], Store):
        raise ScheduleError("warp_tiles: the nest does not start a sum, add and store")
    steps, update = nested(stmts[1])
    start = stmts[0]
    if start.buffer.scope != "register" or start.buffer.elements != 1 or not steps:
        raise ScheduleError("warp_tiles: the sum is not a single register")
    x, w = _factors(update, start.buffer, loops[-1].var)
    is_packed = _is_in_order(w, loops[-1], steps) and x.offset == w.offset == 0
    batch = _of_both(loops[:-1], w)
    return Product(
        loops[:batch], loops[batch:-1], loops[-1], start, steps, x, w, stmts[2:], is_packed
    )


def _is_in_order(w: Operand, channel: For, steps: Sequence[For]) -> bool:
    """Whether these are constants that lie channel by channel, and step by step."""
    place = _linear(steps) + as_term(channel.var) * steps_in(steps)
    return w.load.buffer.scope == "constant" and w.address == place


def _of_both(loops: Sequence[For], w: Operand) -> int:
    """Number of loops from the outermost one to the last that w depends on."""
    found = w.address.variables()
    return max((i for i, loop in enumerate(loops, 1) if loop.var in found), default=0)


def _linear(loops: Sequence[For]) -> Term:
    """The number of a step of nested loops."""
    total = as_term(0)
    for loop in loops:
        total = total * plain_extent(loop) + loop.var
    return total


def _factors(update: Stmt, acc: Buffer, channel: Var) -> tuple[Operand, Operand]:
    """The factors of acc = acc + (int32(x) + 3) * int32(w), or of floats; the second one changes
    with the channel.
    """
    product = _added(update, acc)
    sides = () if product is None else (product.left, product.right)
    found = [operand for operand in map(_factor, sides) if operand is not None]
    changes = [channel in operand.address.variables() for operand in found]
    if sorted(changes) != [False, True] or len({o.load.dtype for o in found}) != 1:
        raise ScheduleError("warp_tiles: it adds no products of rows by columns")
    return found[changes.index(False)], found[changes.index(True)]


def _added(update: Stmt, acc: Buffer) -> Binary | None:
    """The product that is added to the sum."""
    value = update.value if isinstance(update, Store) and update.buffer == acc else None
    if isinstance(value, Binary) and (value.op, value.left) == ("add", Load(acc, (as_term(0),))):
        product = value.right
        return product if isinstance(product, Binary) and product.op == "mul" else None
    return None


def _factor(expr: Expr) -> Operand | None:
    """The int8 element that an expression widens, with its offset; or a float element."""
    if isinstance(expr, Load) and expr.dtype == "float32":
        return Operand(expr, 0)
    wide, offset = _without_constant(expr)
    if not isinstance(wide, Cast) or wide.dtype != "int32" or not -127 <= offset <= 128:
        return None
    inside = wide.value
    return Operand(inside, offset) if isinstance(inside, Load) and inside.dtype == "int8" else None


def _without_constant(expr: Expr) -> tuple[Expr, int]:
    """An expression of integers as a sum of one and a constant, which may be 0."""
    if not isinstance(expr, Binary) or expr.op != "add" or not isinstance(expr.right, Const):
        return expr, 0
    return expr.left, int(expr.right.value)


def decoded(loops: Sequence[For], number: Term) -> dict[Var, TermLike]:
    """The variables of nested loops at a step of all of them."""
    found: dict[Var, TermLike] = {}
    inner = 1
    for position, loop in reversed(list(enumerate(loops))):
        at = floor_div(number, inner)
        inner *= plain_extent(loop)
        found[loop.var] = at if position == 0 else floor_mod(at, plain_extent(loop))
    return found
