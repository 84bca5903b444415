"""The loop IR's nodes. All are immutable; a rewrite returns new nodes.

    func      = PrimFunc(name, params: Buffer*, allocs: Buffer*, body: stmt, indices: var*)
    buffer    = Buffer(name, shape, dtype, scope)          row-major, no padding
    scope     = arena | scratch | constant | register | shared
    stmt      = For(var, start: term, stop: term, kind, body)
              | Block(name, axes: (Axis(var, kind, binding: term))*, init: stmt?, body: stmt)
              | Store(buffer, indices: term*, value: expr)
              | If(left: term, right: term, body, otherwise: stmt?)       when left < right
              | Branch(condition: expr, body, otherwise: stmt?)           when it is not zero
              | While(head, condition: expr, body, limit: int?)           see `While`
              | Seq(stmts)
              | Call(callee, args)                         a PrimFunc or a microkernel by name
              | Sync(scope)                                a barrier: warp | block | grid
    for kind  = serial | unrolled | vectorized | parallel
              | block_x ... block_z | thread_x ... thread_z     see `edgec.loop.bound`
    axis kind = spatial | reduce
    expr      = Const(value, dtype) | Load(buffer, indices: term*) | IndexValue(term)
              | Gather(buffer, indices: expr*)                  an element that data choose
              | Binary(op, left, right) | Cast(dtype, value) | Select(condition, yes, no)
              | Intrinsic(name, args, dtype)
    op        = add | sub | mul | min | max | div | shl | shr | and | or | xor | lt | le | eq

A block's body uses only its axes; each axis' binding computes its value from the loops around. A
block runs once for every value of its axes. Its reduce axes accumulate: `init`, where present, runs
at the first step of all reduce axes, before the body. Reads and writes of a block are derived from
its body (`edgec.loop.access`), never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, wraps
from math import copysign
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, Union

from edgec.numerics.term import Term, Var

P = ParamSpec("P")
T = TypeVar("T")

Scope = Literal["arena", "scratch", "constant", "register", "shared"]
BoundKind = Literal["block_x", "block_y", "block_z", "thread_x", "thread_y", "thread_z"]
ForKind = Literal["serial", "unrolled", "vectorized", "parallel"] | BoundKind
SyncScope = Literal["warp", "block", "grid"]
AxisKind = Literal["spatial", "reduce"]
Use = Literal["", "reads", "writes", "updates"]


def _hashed_once(cls: type[T]) -> type[T]:
    """Cache the hash of a frozen dataclass: hashing a tree walks through all of it.

    Pickles omit it, since hashes of strings differ between processes.
    """
    compute = cls.__hash__

    def of(self: T) -> int:
        known = self.__dict__
        if "_hash" not in known:
            known["_hash"] = compute(self)
        found: int = known["_hash"]
        return found

    def state(self: T) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    cls.__hash__ = of  # type: ignore[assignment, method-assign]
    cls.__getstate__ = state  # type: ignore[assignment, method-assign]
    return cls


@dataclass(frozen=True)
class Buffer:
    """A row-major array. Names are unique within a PrimFunc.

    extents: where sizes are open, each dimension in a run, which determines the strides; `shape` is
    then the upper bound.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: Scope
    extents: tuple[Term, ...] | None = None

    def __hash__(self) -> int:
        return hash(self.name)  # a text remembers its hash

    @property
    def elements(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count


@dataclass(frozen=True)
class Const:
    """A literal of the given dtype; 0.0 and -0.0 are not equal."""

    value: int | float
    dtype: str
    is_negative: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_negative", copysign(1, self.value) < 0)


@_hashed_once
@dataclass(frozen=True)
class Load:
    """One element of a buffer; its dtype is the buffer's."""

    buffer: Buffer
    indices: tuple[Term, ...]

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.buffer.dtype


@_hashed_once
@dataclass(frozen=True)
class Gather:
    """One element of a buffer at indices that are int32 values (a table, an embedding)."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.buffer.dtype


@dataclass(frozen=True)
class IndexValue:
    """An index term used as an int32 value."""

    term: Term
    dtype: str = "int32"


@_hashed_once
@dataclass(frozen=True)
class Binary:
    """An operation on two values of one dtype; comparisons give bool.

    Integer add, sub and mul wrap modulo 2**bits; `shr` is arithmetic; `div` truncates to zero.
    """

    op: str
    left: Expr
    right: Expr

    @property
    def dtype(self) -> str:
        """The operands' type, or bool for a comparison."""
        return "bool" if self.op in ("lt", "le", "eq") else self.left.dtype


@_hashed_once
@dataclass(frozen=True)
class Cast:
    """C's conversion to another dtype (integers wrap; float to integer truncates)."""

    dtype: str
    value: Expr


@_hashed_once
@dataclass(frozen=True)
class Select:
    """`yes` where the condition holds, else `no`; both are evaluated."""

    condition: Expr
    yes: Expr
    no: Expr

    @property
    def dtype(self) -> str:
        """The type of both branches."""
        return self.yes.dtype


@_hashed_once
@dataclass(frozen=True)
class Intrinsic:
    """A scalar function of the runtime, by name (`edgec.loop.intrinsics` defines it)."""

    name: str
    args: tuple[Expr, ...]
    dtype: str


Expr = Union[Const, Load, Gather, IndexValue, Binary, Cast, Select, Intrinsic]


@dataclass(frozen=True)
class For:
    """Run the body for var = start .. stop - 1; the bounds may depend on outer variables."""

    var: Var
    start: Term
    stop: Term
    kind: ForKind
    body: Stmt

    @property
    def extent(self) -> int | None:
        """Number of steps; None if it depends on outer loops."""
        return (self.stop - self.start).constant


@dataclass(frozen=True)
class Axis:
    """One axis of a block's iteration domain and its value in terms of the loops outside."""

    var: Var
    kind: AxisKind
    binding: Term


@dataclass(frozen=True)
class Block:
    """A unit of computation that schedules move around as a whole."""

    name: str
    axes: tuple[Axis, ...]
    init: Stmt | None
    body: Stmt


@dataclass(frozen=True)
class Store:
    """buffer[indices] = value; the value has the buffer's dtype."""

    buffer: Buffer
    indices: tuple[Term, ...]
    value: Expr


@dataclass(frozen=True)
class If:
    """Run `body` when left < right, else `otherwise`."""

    left: Term
    right: Term
    body: Stmt
    otherwise: Stmt | None = None


@dataclass(frozen=True)
class Branch:
    """Run `body` when an integer or bool that data decide is not zero, else `otherwise`."""

    condition: Expr
    body: Stmt
    otherwise: Stmt | None = None


@dataclass(frozen=True)
class While:
    """Run `head`; if then the condition is not zero, `body`, and begin again.

    With a limit, `body` runs at most so often.
    """

    head: Stmt
    condition: Expr
    body: Stmt
    limit: int | None = None


@dataclass(frozen=True)
class Seq:
    """Statements one after the other."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True)
class BufferRef:
    """A pointer to an element of a buffer, as an argument of a call.

    With a `use`, the callee touches only the box of the shape `box` that starts there: it "reads"
    or "writes" it, or does both ("updates"). Without, it may do whatever it can reach.
    """

    buffer: Buffer
    indices: tuple[Term, ...]
    use: Use = ""
    box: tuple[int, ...] = ()


@dataclass(frozen=True)
class Call:
    """Call a microkernel or another PrimFunc by name."""

    callee: str
    args: tuple[BufferRef | Expr, ...]


@dataclass(frozen=True)
class Sync:
    """A barrier: no thread of the scope continues before all have reached it.

    After it, every thread of the scope reads what any of them wrote before it.
    """

    scope: SyncScope


#: A call with this callee shows a row to whoever watches: (number of the value, row, its index).
#: It does nothing.
TRACE_ROW = "trace_row"
#: A call with this callee reports that a row of a layer is done: (number of the layer).
TRACE_PART = "trace_part"
#: Both; a build that nobody watches has no code for them.
TRACES = frozenset({TRACE_ROW, TRACE_PART})

Stmt = Union[For, Block, Store, If, Branch, While, Seq, Call, Sync]


@dataclass(frozen=True)
class PrimFunc:
    """A function over buffers. `params` are pointers given at the call; `allocs` are its own.

    Params have scope arena (inputs and outputs, in this order), constant (weights and tables)
    or scratch; allocs have scope register (C locals). Which arena address or weight a parameter
    is appears only at the call, so structurally equal functions are emitted once. `indices` are
    int32 arguments after the pointers.
    """

    name: str
    params: tuple[Buffer, ...]
    allocs: tuple[Buffer, ...]
    body: Stmt
    indices: tuple[Var, ...] = ()

    @cached_property
    def known(self) -> dict[object, Any]:
        """Cached facts about the function, by the function that computed them; see `remembered`."""
        return {}


@lru_cache(maxsize=4096)
def shared(func: PrimFunc) -> PrimFunc:
    """The first of all equal functions, so that results cached for one serve all."""
    return func


def remembered(
    compute: Callable[Concatenate[PrimFunc, P], T],
) -> Callable[Concatenate[PrimFunc, P], T]:
    """Compute something about a function once; nobody may change the result.

    The arguments beside the function must have exact texts (`repr`).
    """

    @wraps(compute)
    def look_up(func: PrimFunc, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (compute, repr((args, kwargs)) if args or kwargs else "")
        if key not in func.known:
            func.known[key] = compute(func, *args, **kwargs)
        found: T = func.known[key]
        return found

    return look_up
