"""Run a PrimFunc: print it as Python source over flat lists, and execute that.

Arithmetic is C's, exactly: integers wrap at their width, `shr` is arithmetic, `div` truncates,
float32 is rounded after every operation. An index that cannot be proven to stay inside its buffer
is checked when it is used; reading an element that nothing wrote is an error too.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from edgec.errors import ContractError
from edgec.loop.access import term_range
from edgec.loop.bound import BOUND, launch_of
from edgec.loop.dtype import integer_range, is_float, is_integer, wrap
from edgec.loop.foreign import runner
from edgec.loop.intrinsics import get_intrinsic, names
from edgec.loop.ir import (
    TRACES,
    Binary,
    Branch,
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
    Sync,
    While,
)
from edgec.loop.microkernel import get_microkernel
from edgec.loop.rewrite import statements
from edgec.loop.simplify import lower_blocks
from edgec.loop.threads import run_grid
from edgec.numerics.term import Atom, FloorDiv, FloorMod, Min, Product, Term, Var, as_term

Array = npt.NDArray[Any]
# A called function gets the buffer's flat list and an offset for each pointer; values by value.
Callee = Callable[..., None]


def interpret(
    func: PrimFunc,
    arrays: Mapping[str, Array],
    *,
    callees: Mapping[str, Callee] | None = None,
    indices: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Run the function on arrays given by parameter name; returns every arena buffer afterwards.

    Buffers without an array start with no value in any element: reading one that nothing wrote
    raises ContractError, as does an index outside its buffer. `callees` run the calls inside;
    registered microkernels are known.
    """
    lists: dict[str, list[Any]] = {}
    for buffer in (*func.params, *func.allocs):
        lists[buffer.name] = _to_list(buffer, arrays.get(buffer.name))
    run_source(func, lists, callees, indices)
    result = {}
    for buffer in func.params:
        values = lists[buffer.name]
        if buffer.scope == "arena" and None not in values:
            result[buffer.name] = np.array(values, dtype=buffer.dtype).reshape(buffer.shape)
    return result


def run_source(
    func: PrimFunc,
    lists: Mapping[str, list[Any]],
    callees: Mapping[str, Callee] | None = None,
    indices: Mapping[str, int] | None = None,
) -> None:
    """Run the function on flat lists by buffer name, in place; other temporaries are made.

    `indices` has the function's index arguments by name.
    """
    scope: dict[str, Any] = dict(_RUNTIME)
    for stmt in statements(func.body):
        if isinstance(stmt, Call):
            unwatched = _show if stmt.callee in TRACES else None
            given = (callees or {}).get(stmt.callee, unwatched)
            given = given or runner(stmt)
            scope[f"call_{stmt.callee}"] = given or get_microkernel(stmt.callee).run
    exec(_compiled(func), scope)
    buffers = {b.name: lists.get(b.name) for b in (*func.params, *func.allocs)}
    own = {b.name: [None] * b.elements for b in (*func.params, *func.allocs)}
    try:
        numbers = {f"v_{name}": value for name, value in (indices or {}).items()}
        lists = {f"b_{n}": own[n] if v is None else v for n, v in buffers.items()}
        launch = launch_of(func)
        if launch is None:
            scope["run"](**lists, **numbers)
        else:
            memory = {f"b_{b.name}": lists[f"b_{b.name}"] for b in func.params}
            run_grid(func, launch, scope["run"], memory, numbers)
    except TypeError as error:
        if "NoneType" not in str(error):
            raise
        raise ContractError(f"{func.name} reads an element that nothing wrote") from error


@lru_cache(maxsize=64)
def _compiled(func: PrimFunc) -> CodeType:
    return compile(to_python(func), f"<loop {func.name}>", "exec")


def _to_list(buffer: Buffer, array: Array | None) -> list[Any]:
    if array is None:
        return [None] * buffer.elements
    if array.shape != buffer.shape or str(array.dtype) != buffer.dtype:
        raise ContractError(
            f"{buffer.name} is given {array.dtype}{list(array.shape)}, "
            f"it is {buffer.dtype}{list(buffer.shape)}"
        )
    values: list[Any] = array.reshape(-1).tolist()
    return values


def to_python(func: PrimFunc) -> str:
    """The source of `run(b_<buffer>, ...)`, which works on flat lists.

    For a function with bound loops it runs one thread, whose indices are further arguments.
    """
    buffers = (*func.params, *func.allocs)
    names = [*(f"b_{b.name}" for b in buffers), *(f"v_{var.name}" for var in func.indices)]
    is_bound = launch_of(func) is not None
    lines = [f"def run({', '.join([*names, *(BOUND if is_bound else ())])}):"]
    lines += _Printer().stmt(lower_blocks(func.body), "    ")
    # A thread is a generator, also where it comes to no barrier.
    return "\n".join([*lines, "    return", *(["    yield"] if is_bound else ())]) + "\n"


class _Printer:
    def __init__(self) -> None:
        self.loops: list[For] = []

    def stmt(self, stmt: Stmt, indent: str) -> list[str]:
        deeper = indent + "    "
        if isinstance(stmt, For):
            return self.loop(stmt, indent)
        if isinstance(stmt, Sync):
            return [f"{indent}yield {stmt.scope!r}"]
        if isinstance(stmt, Store):
            value, _ = self.expr(stmt.value)
            return [f"{indent}{self.element(stmt.buffer, stmt.indices)} = {value}"]
        if isinstance(stmt, If | Branch):
            test = (
                f"{python_term(stmt.left)} < {python_term(stmt.right)}"
                if isinstance(stmt, If)
                else self.expr(stmt.condition)[0]
            )
            lines = [f"{indent}if {test}:", *(self.stmt(stmt.body, deeper) or [f"{deeper}pass"])]
            if stmt.otherwise is not None:
                other = self.stmt(stmt.otherwise, deeper) or [f"{deeper}pass"]
                lines += [f"{indent}else:", *other]
            return lines
        if isinstance(stmt, While):
            rounds = "count()" if stmt.limit is None else f"range({stmt.limit})"
            return [
                f"{indent}for _ in {rounds}:",
                *self.stmt(stmt.head, deeper),
                f"{deeper}if not {self.expr(stmt.condition)[0]}:",
                f"{deeper}    break",
                *self.stmt(stmt.body, deeper),
            ]
        if isinstance(stmt, Seq):
            return [line for child in stmt.stmts for line in self.stmt(child, indent)]
        assert isinstance(stmt, Call)
        args = ", ".join(self.argument(a) for a in stmt.args)
        return [f"{indent}call_{stmt.callee}({args})"]

    def loop(self, loop: For, indent: str) -> list[str]:
        """A loop; if it is bound, the step of this thread (`edgec.loop.threads`)."""
        self.loops.append(loop)
        body = self.stmt(loop.body, f"{indent}    ") or [f"{indent}    pass"]
        self.loops.pop()
        name, start, stop = f"v_{loop.var.name}", python_term(loop.start), python_term(loop.stop)
        if loop.kind in BOUND:
            return [
                f"{indent}{name} = {start} + {loop.kind}",
                f"{indent}if {name} < {stop}:",
                *body,
            ]
        return [f"{indent}for {name} in range({start}, {stop}):", *body]

    def argument(self, argument: BufferRef | Expr) -> str:
        if isinstance(argument, BufferRef):
            return f"b_{argument.buffer.name}, {self.flat(argument.buffer, argument.indices)}"
        return self.expr(argument)[0]

    def element(self, buffer: Buffer, indices: tuple[Term, ...]) -> str:
        return f"b_{buffer.name}[{self.flat(buffer, indices)}]"

    def flat(self, buffer: Buffer, indices: tuple[Term, ...]) -> str:
        inside = True
        total = as_term(0)
        for index, extent in zip(indices, buffer.shape, strict=True):
            low, high = term_range(index, self.loops)
            inside = inside and low >= 0 and high < extent
            total = total * extent + index
        if inside:
            return python_term(total)
        return self.checked(buffer, [python_term(i) for i in indices])

    def checked(self, buffer: Buffer, indices: list[str]) -> str:
        return f"checked({buffer.name!r}, {buffer.shape}, ({', '.join(indices)},))"

    def expr(self, expr: Expr) -> tuple[str, tuple[int, int] | None]:
        """Source of a value and, for an integer, the interval that it stays in."""
        if isinstance(expr, Const):
            if is_float(expr.dtype):
                value = _f32(expr.value) if expr.dtype == "float32" else float(expr.value)
                return f"float({str(value)!r})", None
            return f"({int(expr.value)})", (int(expr.value), int(expr.value))
        if isinstance(expr, Load):
            return self.element(expr.buffer, expr.indices), _range(expr.dtype)
        if isinstance(expr, Gather):
            indices = [self.expr(i)[0] for i in expr.indices]
            source = f"b_{expr.buffer.name}[{self.checked(expr.buffer, indices)}]"
            return source, _range(expr.dtype)
        if isinstance(expr, IndexValue):
            return f"({python_term(expr.term)})", term_range(expr.term, self.loops)
        if isinstance(expr, Binary):
            return self.binary(expr)
        if isinstance(expr, Cast):
            return self.cast(expr)
        if isinstance(expr, Select):
            parts = [self.expr(p) for p in (expr.condition, expr.yes, expr.no)]
            return f"select({', '.join(p[0] for p in parts)})", _range(expr.dtype)
        assert isinstance(expr, Intrinsic)
        get_intrinsic(expr.name)  # known, or an error that names it
        args = ", ".join(self.expr(a)[0] for a in expr.args)
        return f"intrinsic_{expr.name}({args})", _range(expr.dtype)

    def binary(self, expr: Binary) -> tuple[str, tuple[int, int] | None]:
        left, a = self.expr(expr.left)
        right, b = self.expr(expr.right)
        dtype = expr.left.dtype
        if expr.op in ("lt", "le", "eq"):
            return f"({left} {_COMPARE[expr.op]} {right})", (0, 1)
        if is_float(dtype):
            if expr.op in ("min", "max"):
                return f"float_{expr.op}({left}, {right})", None
            if expr.op == "div":
                text = f"float_div({left}, {right})"
            else:
                text = f"({left} {_ARITHMETIC[expr.op]} {right})"
            return (f"f32({text})" if dtype == "float32" else text), None
        if expr.op in ("min", "max"):
            return f"{expr.op}({left}, {right})", _interval(expr.op, a, b)
        if expr.op == "div":
            return wrapped(f"int_div({left}, {right})", dtype, None)
        source = f"({left} {_ARITHMETIC[expr.op]} {right})"
        if expr.op in ("and", "or", "xor", "shr"):
            return source, _range(dtype)
        return wrapped(source, dtype, _interval(expr.op, a, b))

    def cast(self, expr: Cast) -> tuple[str, tuple[int, int] | None]:
        value, interval = self.expr(expr.value)
        source = expr.value.dtype
        if is_float(expr.dtype):
            if expr.dtype == "float32":
                return f"f32({value})" if is_float(source) else f"int_to_f32({value})", None
            return f"float({value})", None
        if expr.dtype == "bool":
            return f"({value} != 0)", (0, 1)
        if is_float(source):
            return f"float_to_int({value}, {expr.dtype!r})", _range(expr.dtype)
        return wrapped(f"int({value})" if source == "bool" else value, expr.dtype, interval)


_ARITHMETIC = {
    "add": "+", "sub": "-", "mul": "*", "shl": "<<", "shr": ">>", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_COMPARE = {"lt": "<", "le": "<=", "eq": "=="}


def _range(dtype: str) -> tuple[int, int] | None:
    if dtype == "bool":
        return 0, 1
    return integer_range(dtype) if is_integer(dtype) else None


def _interval(
    op: str, a: tuple[int, int] | None, b: tuple[int, int] | None
) -> tuple[int, int] | None:
    if a is None or b is None or op == "shl":
        return None
    if op in ("min", "max"):
        choose = min if op == "min" else max
        return choose(a[0], b[0]), choose(a[1], b[1])
    if op == "add":
        return a[0] + b[0], a[1] + b[1]
    if op == "sub":
        return a[0] - b[1], a[1] - b[0]
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def wrapped(
    source: str, dtype: str, interval: tuple[int, int] | None
) -> tuple[str, tuple[int, int]]:
    """Source that reduces a value modulo 2**bits, where its interval says that it may overflow."""
    low, high = integer_range(dtype)
    if interval is not None and low <= interval[0] and interval[1] <= high:
        return source, interval
    span = high - low
    if low == 0:
        return f"({source} & {span:#x})", (low, high)
    return f"(({source} + {-low:#x} & {span:#x}) - {-low:#x})", (low, high)


def python_term(term: Term) -> str:
    """An index term as Python source, with variables named `v_<name>`."""
    parts = []
    for atom, coefficient in term.parts:
        text = _python_atom(atom)
        parts.append(text if coefficient == 1 else f"{text}*{coefficient}")
    if term.offset or not parts:
        parts.append(str(term.offset))
    return " + ".join(parts)


def _python_atom(atom: Atom) -> str:
    if isinstance(atom, Var):
        return f"v_{atom.name}"
    if isinstance(atom, FloorDiv):
        return f"(({python_term(atom.dividend)}) // {atom.divisor})"
    if isinstance(atom, FloorMod):
        return f"(({python_term(atom.dividend)}) % {atom.divisor})"
    if isinstance(atom, Product):
        return f"({python_term(atom.left)}) * ({python_term(atom.right)})"
    name = "min" if isinstance(atom, Min) else "max"
    return f"{name}({python_term(atom.left)}, {python_term(atom.right)})"


def _checked(name: str, shape: tuple[int, ...], indices: tuple[int, ...]) -> int:
    flat = 0
    for index, extent in zip(indices, shape, strict=True):
        if not 0 <= index < extent:
            _outside(name, shape, indices)
        flat = flat * extent + index
    return flat


def _outside(name: str, shape: tuple[int, ...], indices: tuple[int, ...]) -> NoReturn:
    raise ContractError(f"index {list(indices)} is outside buffer {name} of shape {list(shape)}")


def _show(*args: Any) -> None:
    """A row is shown; nobody watches."""


def _f32(value: float) -> float:
    return ctypes.c_float(value).value


def _int_to_f32(value: int) -> float:
    return float(np.asarray(value).astype(np.float32))


def _int_div(a: int, b: int) -> int:
    if b == 0:
        raise ContractError("integer division by zero")
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


def _float_div(a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def _float_to_int(value: float, dtype: str) -> int:
    if value != value or value in (float("inf"), float("-inf")):
        raise ContractError(f"conversion of {value} to {dtype} has no meaning")
    return wrap(int(value), dtype)


_RUNTIME: dict[str, Any] = {
    "checked": _checked,
    "count": itertools.count,
    "f32": _f32,
    "int_to_f32": _int_to_f32,
    "int_div": _int_div,
    "float_div": _float_div,
    "float_min": lambda a, b: a if a < b else b,
    "float_max": lambda a, b: a if a > b else b,
    "float_to_int": _float_to_int,
    "select": lambda condition, yes, no: yes if condition else no,
    **{f"intrinsic_{name}": get_intrinsic(name).meaning for name in names()},
}
