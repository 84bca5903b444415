"""The kind of a nest's sums, found from its accesses, for rules that match sums of products.

A block `acc` computes the sums before the output is stored.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from edgec.loop.ir import Binary, Block, Expr, Load, PrimFunc, Stmt, Store
from edgec.loop.primitives.lookup import reduce_vars
from edgec.loop.rewrite import blocks_of, subexpressions
from edgec.numerics.term import Term, Var
from edgec.targets.common.limits import find_ending
from edgec.targets.common.nests import stored_value


class Kind(enum.Enum):
    """The operand and the element that is multiplied for an output element."""

    MATRIX = enum.auto()  # a row of inputs by the row of weights of an output channel
    WINDOWS = enum.auto()  # a window over all input channels by the weights of an output channel
    CHANNEL_WINDOWS = enum.auto()  # a window over one input channel by the weights of an output's
    FILTERS = enum.auto()  # the inputs of an output channel by its weights, one after the other
    COMPUTED = enum.auto()  # two tensors of the model
    TOTAL = enum.auto()  # nothing: elements are added
    LARGEST = enum.auto()  # nothing: the largest element
    OTHER = enum.auto()


#: Sums of products of inputs by constant weights, each output by the weights of its channel.
WEIGHTED = (Kind.MATRIX, Kind.WINDOWS, Kind.CHANNEL_WINDOWS)


@dataclass(frozen=True)
class Sums:
    """kind: of the sums. is_rescaled: each output element is one sum, rescaled, with the zero point
    added, and limited. is_output: each output element is one sum, stored directly.
    """

    kind: Kind
    is_rescaled: bool
    is_output: bool


def find_sums(func: PrimFunc) -> Sums | None:
    """The sums of a plainly lowered function; None without sums."""
    block = blocks_of(func.body).get("acc")
    if block is None:
        return None
    is_output = _reads(stored_value(func), "acc")
    return Sums(_kind(block), find_ending(func) is not None, is_output)


def _reads(value: Expr | None, name: str) -> bool:
    return isinstance(value, Load) and value.buffer.name == name


def _update(body: Stmt) -> Binary | None:
    """acc + term, or max(acc, term)."""
    if isinstance(body, Store) and isinstance(body.value, Binary):
        return body.value if _reads(body.value.left, body.buffer.name) else None
    return None


def _kind(block: Block) -> Kind:
    update = _update(block.body)
    if update is None or update.op not in ("add", "max"):
        return Kind.OTHER
    if update.op == "max":
        return Kind.LARGEST
    product = update.right
    if not isinstance(product, Binary) or product.op != "mul":
        return Kind.TOTAL
    factors = [_loads(side) for side in (product.left, product.right)]
    if not all(factors):
        return Kind.TOTAL
    if any(len(loads) > 1 for loads in factors):
        return Kind.OTHER
    (first,), (second,) = factors
    return _weighted(block, first, second) if second.buffer.name == "w" else Kind.COMPUTED


def _loads(expr: Expr) -> list[Load]:
    return [part for part in subexpressions(expr) if isinstance(part, Load)]


def _weighted(block: Block, x: Load, weights: Load) -> Kind:
    steps = frozenset(axis.var for axis in block.axes if axis.kind == "reduce")
    steps |= reduce_vars(block)
    rank = len(weights.indices)
    if rank == 1 and len(x.indices) == 2:
        return Kind.FILTERS
    if rank == 2 and len(x.indices) == 2:
        is_row = _is_within(weights.indices[1:], steps) and _is_within(x.indices[1:], steps)
        return Kind.MATRIX if is_row else Kind.OTHER
    if len(x.indices) != 4 or not all(_goes_forward(index) for index in x.indices[1:3]):
        return Kind.OTHER
    if rank == 4 and _is_within(weights.indices[1:], steps) and _is_within(x.indices[3:], steps):
        return Kind.WINDOWS
    if rank == 3 and _is_within(weights.indices[:2], steps):
        return Kind.CHANNEL_WINDOWS
    return Kind.OTHER


def _is_within(indices: tuple[Term, ...], steps: frozenset[Var]) -> bool:
    """Whether only the steps of the sum change these indices."""
    return all(index.variables() <= steps for index in indices)


def _goes_forward(index: Term) -> bool:
    """Whether an index grows with the output's index and with the step, as a window's does."""
    return all(isinstance(atom, Var) and factor > 0 for atom, factor in index.parts)
