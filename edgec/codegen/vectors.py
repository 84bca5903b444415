"""Vectorized loops as C: each value of the loop's lanes is one vector of GNU C.

    vectorized for c in 0..8 {        *(v8s32_at *)&acc[0] = (v8s32)((v8u32)*(v8s32_at *)&acc[0]
      acc[c] = acc[c] + b[4 + c]  ->          + (v8u32)*(const v8s32_at *)&b[4]);
    }

  1. Adjacent elements are loaded and stored together, at any address; others lane by lane. A value
     that all lanes share is a scalar until a vector needs it.
  2. Integers wrap, so sums and products are of unsigned lanes. A condition is a mask: a vector of
     -1 and 0 with the lane width of the comparison's operands.
  3. A function of the runtime is called for each lane.
  4. A register that only the loop uses, at the same index in each lane, is a vector itself.

The types are typedefs at the top of the loop's scope, so a file has only those that it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edgec.codegen.c_expr import ExprPrinter
from edgec.codegen.c_term import term_text
from edgec.codegen.c_types import C_TYPE, is_integer
from edgec.errors import ContractError
from edgec.loop.access import flat_term
from edgec.loop.dtype import bits
from edgec.loop.intrinsics import get_intrinsic
from edgec.loop.ir import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Gather,
    IndexValue,
    Intrinsic,
    Load,
    Select,
    Store,
)
from edgec.loop.rewrite import subexpressions
from edgec.numerics.term import Term

_WRAPPING = {"add": "+", "sub": "-", "mul": "*"}
_PLAIN = {**_WRAPPING, "div": "/", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}
_COMPARED = {"lt": "<", "le": "<=", "eq": "=="}


def _widths(source: str, dtype: str) -> list[str]:
    """The dtypes from an integer to a wider one, each twice as wide as the one before.

    gcc 12 converts lane by lane, in scalars, where a vector becomes four times as wide at once.
    """
    if not is_integer(source) or not is_integer(dtype):
        return [dtype]
    kind, wanted, width = source.rstrip("0123456789"), bits(dtype), 2 * bits(source)
    steps = []
    while width < wanted:
        steps.append(f"{kind}{width}")
        width *= 2
    return [*steps, dtype]


@dataclass
class Lanes:
    """A vectorized loop that is being emitted.

    printer: of values that all lanes share. address: the C of `buffer[offset]`, of an element by
    its flat offset. fresh: a new local name. private: buffers of vectors.
    """

    loop: For
    printer: ExprPrinter
    address: Callable[[Buffer, Term], str]
    fresh: Callable[[str], str]
    private: frozenset[Buffer]
    types: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        extent = (self.loop.stop - self.loop.start).constant
        assert extent is not None
        return extent

    # types --------------------------------------------------------------------------------------

    def type_of(self, dtype: str) -> str:
        """The name of the type of a vector."""
        size = bits(dtype) // 8
        name = f"v{self.count}{dtype[0] if dtype != 'bool' else 'u'}{size * 8}"
        declared = (
            f"typedef {C_TYPE[dtype]} {name} __attribute__((vector_size({self.count * size})));"
        )
        self.types.setdefault(name, declared)
        return name

    def _anywhere(self, dtype: str) -> str:
        """The vector type for loads and stores at any address."""
        name = f"{self.type_of(dtype)}_at"
        declared = f"typedef {name[:-3]} {name} __attribute__((aligned(1), may_alias));"
        self.types.setdefault(name, declared)
        return name

    def _mask(self, dtype: str) -> str:
        return f"int{bits(dtype)}"

    # lanes --------------------------------------------------------------------------------------

    def _at(self, term: Term, lane: int) -> Term:
        return term.substitute({self.loop.var: self.loop.start + lane})

    def _step(self, flat: Term) -> int | None:
        """Return the distance from each lane's element to the next one's; None if it varies."""
        first = self._at(flat, 0)
        steps = [(self._at(flat, lane) - first).constant for lane in range(self.count)]
        step = steps[1]
        even = step is not None and steps == [lane * step for lane in range(self.count)]
        return step if even else None

    def varies(self, expr: Expr) -> bool:
        """Whether lanes differ in this value."""
        for part in subexpressions(expr):
            if isinstance(part, (Load, Gather)) and part.buffer in self.private:
                return True
            terms = part.indices if isinstance(part, Load) else ()
            terms = (part.term,) if isinstance(part, IndexValue) else terms
            if any(self.loop.var in term.variables() for term in terms):
                return True
        return False

    def named(self, text: str, type_name: str) -> str:
        name = self.fresh("lanes")
        self.lines.append(f"const {type_name} {name} = {text};")
        return name

    def _listed(self, texts: Sequence[str], dtype: str) -> str:
        return f"({self.type_of(dtype)}){{{', '.join(texts)}}}"

    # values -------------------------------------------------------------------------------------

    def _vector(self, expr: Expr) -> tuple[str, str]:
        """The C text and the lanes' dtype; for bool, the mask's dtype."""
        if not self.varies(expr):
            return self._shared(expr)
        match expr:
            case Load(Buffer(dtype="bool")):
                return (
                    f"(({self.type_of('int8')})({self._load(expr)} != {self._zero('bool')}))",
                    "int8",
                )
            case Load():
                return self._load(expr), expr.dtype
            case IndexValue(term, dtype):
                texts = [
                    term_text(self._at(term, lane), self.printer.var).text
                    for lane in range(self.count)
                ]
                return self._listed(texts, dtype), dtype
            case Cast():
                return self._cast(expr)
            case Select():
                return self._select(expr)
            case Binary():
                return self._binary(expr)
            case Gather() | Intrinsic():
                return self._lane_by_lane(expr), expr.dtype
        raise ContractError(f"codegen knows no vector of {type(expr).__name__}")

    def _shared(self, expr: Expr) -> tuple[str, str]:
        """A scalar in every lane. Less 0 rather than plus: that keeps the sign of -0."""
        dtype = expr.dtype
        text = self.printer.as_dtype(expr, dtype)
        if dtype == "bool":
            return f"((int8_t)-(({text}) != 0) - {self._zero('int8')})", "int8"
        if isinstance(expr, Const) and expr.value == 0 and is_integer(dtype):
            return self._zero(dtype), dtype
        return f"(({C_TYPE[dtype]})({text}) - {self._zero(dtype)})", dtype

    def _zero(self, dtype: str) -> str:
        return f"({self.type_of(dtype)}){{0}}"

    def _ones(self, mask: str, lanes: str) -> str:
        """1 and 0 of a mask."""
        return f"({mask} & (({C_TYPE[lanes]})1 - {self._zero(lanes)}))"

    def _load(self, expr: Load) -> str:
        flat = flat_term(expr.indices, expr.buffer.shape)
        if expr.buffer in self.private:
            return self.address(expr.buffer, flat)
        if self._step(flat) == 1:
            first = self.address(expr.buffer, self._at(flat, 0))
            return f"(*(const {self._anywhere(expr.dtype)} *)&{first})"
        texts = [self.address(expr.buffer, self._at(flat, lane)) for lane in range(self.count)]
        return self._listed(texts, expr.dtype)

    def _converted(self, text: str, source: str, dtype: str) -> str:
        if source == dtype:
            return text
        for step in _widths(source, dtype):
            text = f"__builtin_convertvector({text}, {self.type_of(step)})"
        return text

    def _as(self, text: str, dtype: str) -> str:
        """The same bits as lanes of another type of that size."""
        return f"(({self.type_of(dtype)}){text})"

    def _cast(self, expr: Cast) -> tuple[str, str]:
        text, source = self._vector(expr.value)
        if expr.value.dtype == "bool":
            if expr.dtype == "bool":
                return text, source
            return self._converted(self._ones(text, source), source, expr.dtype), expr.dtype
        if expr.dtype == "bool":
            return f"({text} != {self._zero(source)})", self._mask(source)
        return self._converted(text, source, expr.dtype), expr.dtype

    def _select(self, expr: Select) -> tuple[str, str]:
        yes, dtype = self._vector(expr.yes)
        no, _ = self._vector(expr.no)
        if not self.varies(expr.condition):
            condition = self.printer.as_dtype(expr.condition, "bool")
            return f"(({condition}) ? {self._as(yes, dtype)} : {self._as(no, dtype)})", dtype
        condition, lanes = self._vector(expr.condition)
        mask = self._mask(dtype)
        return self._chosen(self._converted(condition, lanes, mask), yes, no, dtype), dtype

    def _chosen(self, mask: str, yes: str, no: str, dtype: str) -> str:
        lanes = self._mask(dtype)
        name = self.named(mask, self.type_of(lanes))
        both = f"(({name} & {self._as(yes, lanes)}) | (~{name} & {self._as(no, lanes)}))"
        return both if lanes == dtype else self._as(both, dtype)

    def _binary(self, expr: Binary) -> tuple[str, str]:
        left, lanes = self._vector(expr.left)
        right, other = self._vector(expr.right)
        dtype = expr.left.dtype
        if dtype == "bool":
            right = self._converted(right, other, lanes)
            if expr.op == "eq":
                return f"(~({left} ^ {right}))", lanes
            return f"({left} {_PLAIN[expr.op]} {right})", lanes
        if expr.op in _COMPARED:
            mask = self._mask(dtype)
            compared = f"({left} {_COMPARED[expr.op]} {right})"
            return f"(({self.type_of(mask)}){compared})", mask
        if expr.op in ("min", "max"):
            left, right = (self.named(side, self.type_of(dtype)) for side in (left, right))
            sign = "<" if expr.op == "min" else ">"
            mask = f"({self.type_of(self._mask(dtype))})({left} {sign} {right})"
            return self._chosen(mask, left, right, dtype), dtype
        operator = _PLAIN.get(expr.op)
        if operator is None:
            raise ContractError(f"codegen knows no vector of {expr.op!r}")
        if dtype.startswith("int") and expr.op in (*_WRAPPING, "shl"):
            wide = f"u{dtype}"
            result = f"({self._as(left, wide)} {operator} {self._as(right, wide)})"
            return self._as(result, dtype), dtype
        return f"({left} {operator} {right})", dtype

    def _lane_by_lane(self, expr: Gather | Intrinsic) -> str:
        """Element lane of each argument, which is a local vector or a scalar that all share."""
        args = expr.indices if isinstance(expr, Gather) else expr.args
        of_lane: list[Callable[[int], str]] = []
        for arg in args:
            if self.varies(arg):
                text, dtype = self._vector(arg)
                name = self.named(text, self.type_of(dtype))
                of_lane.append(lambda lane, name=name: f"{name}[{lane}]")  # type: ignore[misc]
            else:
                scalar = self.printer.as_dtype(arg, arg.dtype)
                of_lane.append(lambda lane, text=scalar: text)  # type: ignore[misc]
        texts = []
        for lane in range(self.count):
            given = [text(lane) for text in of_lane]
            if isinstance(expr, Intrinsic):
                texts.append(f"{get_intrinsic(expr.name).c_name}({', '.join(given)})")
                continue
            flat = given[0]
            for text, extent in zip(given[1:], expr.buffer.shape[1:], strict=True):
                flat = f"({flat}) * {extent} + {text}"
            texts.append(f"{self.printer.buffer(expr.buffer)}[{flat}]")
        return self._listed(texts, expr.dtype)

    # stores -------------------------------------------------------------------------------------

    def store(self, store: Store) -> list[str]:
        """The statements of one store of all lanes."""
        self.lines = []
        text, lanes = self._vector(store.value)
        dtype = store.buffer.dtype
        if dtype == "bool":
            text = self._converted(self._ones(text, lanes), lanes, "bool")
        flat = flat_term(store.indices, store.buffer.shape)
        if store.buffer in self.private:
            return [*self.lines, f"{self.address(store.buffer, flat)} = {text};"]
        if self._step(flat) == 1:
            first = self.address(store.buffer, self._at(flat, 0))
            return [*self.lines, f"*({self._anywhere(dtype)} *)&{first} = {text};"]
        name = self.named(text, self.type_of(dtype))
        return [
            *self.lines,
            *(
                f"{self.address(store.buffer, self._at(flat, lane))} = {name}[{lane}];"
                for lane in range(self.count)
            ),
        ]
