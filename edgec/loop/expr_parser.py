"""Tokens, index terms and expressions of the loop IR's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from edgec.errors import ContractError
from edgec.loop.dtype import DTYPES, is_float
from edgec.loop.intrinsics import get_intrinsic, is_known
from edgec.loop.ir import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Gather,
    IndexValue,
    Intrinsic,
    Load,
    Select,
)
from edgec.loop.printer import PRECEDENCE, SUFFIX, SYMBOL
from edgec.numerics.term import Term, Var, as_term, floor_div, floor_mod, maximum, minimum, product

_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d+(?!\.\d)|inf(?=f)|nan(?=f))"
    r"(?:[iuf]\d+)?)(?![A-Za-z_])"
    r"|(?P<word>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<sign>\.\.|//|<<|>>|<=|==|[-+*/%<>=&|^(){}\[\],:])"
)
_OPERATORS = {symbol: op for op, symbol in SYMBOL.items()}
_DTYPE_OF_SUFFIX = {suffix: dtype for dtype, suffix in SUFFIX.items()}
T = TypeVar("T")


class ExprParser:
    """A reader of tokens that knows buffers and the variables in scope."""

    def __init__(self, text: str) -> None:
        self.buffers: dict[str, Buffer] = {}
        self.variables: dict[str, Var] = {}
        self.tokens: list[tuple[str, int]] = []
        self.position = 0
        line, at = 1, 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ContractError(f"line {line}: {text[at]!r} is not understood")
            if match.lastgroup != "space":
                self.tokens.append((match.group(), line))
            line += match.group().count("\n")
            at = match.end()
        self.tokens.append(("", line))

    def peek(self) -> str:
        """The next token; empty at the end."""
        return self.tokens[self.position][0]

    def next(self) -> str:
        """Take the next token."""
        token = self.peek()
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def accept(self, token: str) -> bool:
        """Take the next token if it is this one."""
        if self.peek() != token:
            return False
        self.next()
        return True

    def expect(self, token: str) -> None:
        """Take the next token, which must be this one."""
        if not self.accept(token):
            self.fail(repr(token))

    def fail(self, wanted: str) -> NoReturn:
        """Raise ContractError with the expected token."""
        found = self.peek() or "the end"
        line = self.tokens[self.position][1]
        raise ContractError(f"line {line}: expected {wanted}, found {found!r}")

    def name(self) -> str:
        """Take a name."""
        if not re.match(r"[A-Za-z_]", self.peek()):
            self.fail("a name")
        return self.next()

    def integer(self) -> int:
        """Take an integer without suffix."""
        sign = -1 if self.accept("-") else 1
        if not self.peek().isdigit():
            self.fail("an integer")
        return sign * int(self.next())

    def separated(self, item: Callable[[], T], closing: str) -> list[T]:
        """Items between commas, up to the closing token."""
        found: list[T] = []
        while not self.accept(closing):
            if found:
                self.expect(",")
            found.append(item())
        return found

    @contextmanager
    def scope(self, variables: Mapping[str, Var]) -> Iterator[None]:
        """Know more variables for a while."""
        before = self.variables
        self.variables = {**before, **variables}
        yield
        self.variables = before

    def element(self) -> tuple[Buffer, tuple[Term, ...]]:
        """`buffer[term, ...]`."""
        buffer = self.buffer()
        self.expect("[")
        return buffer, tuple(self.separated(self.term, "]"))

    def buffer(self) -> Buffer:
        """The name of a known buffer."""
        if self.peek() not in self.buffers:
            self.fail("a buffer")
        return self.buffers[self.next()]

    def term(self) -> Term:
        """A sum of products; a leading minus belongs to the whole product after it."""
        total = self._product() * -1 if self.accept("-") else self._product()
        while self.peek() in ("+", "-"):
            sign = 1 if self.next() == "+" else -1
            total = total + self._product() * sign
        return total

    def _product(self) -> Term:
        value = self._factor()
        while self.peek() in ("*", "//", "%"):
            sign = self.next()
            if sign == "*":
                value = product(value, self._factor())
            elif sign == "//":
                value = floor_div(value, self.integer())
            else:
                value = floor_mod(value, self.integer())
        return value

    def _factor(self) -> Term:
        if self.accept("("):
            inner = self.term()
            self.expect(")")
            return inner
        if self.peek() in ("min", "max"):
            choose = minimum if self.next() == "min" else maximum
            self.expect("(")
            left = self.term()
            self.expect(",")
            right = self.term()
            self.expect(")")
            return choose(left, right)
        if self.peek() == "-" or self.peek().isdigit():
            return as_term(self.integer())
        if self.peek() not in self.variables:
            self.fail("a variable in scope")
        return as_term(self.variables[self.next()])

    def expr(self, level: int = 1) -> Expr:
        """An expression whose operators bind at least as tightly as `level`."""
        left = self._operand()
        while True:
            op = _OPERATORS.get(self.peek())
            if op is None or PRECEDENCE[op] < level:
                return left
            self.next()
            left = Binary(op, left, self.expr(PRECEDENCE[op] + 1))

    def _operand(self) -> Expr:
        token = self.peek()
        if self.accept("("):
            inner = self.expr()
            self.expect(")")
            return inner
        if token == "-" or token[:1].isdigit() or token[:4] in ("inff", "nanf"):
            return self._number()
        if token in ("true", "false"):
            return Const(int(self.next() == "true"), "bool")
        if token in self.buffers:
            return Load(*self.element())
        name = self.name()
        if name == "index":
            return self._index()
        if name == "gather":
            self.expect("(")
            buffer = self.buffer()
            self.expect(",")
            return Gather(buffer, tuple(self.separated(self.expr, ")")))
        if self.peek() == "[":
            self.position -= 1
            self.fail("a buffer")
        dtype = ""
        if self.accept(":"):
            dtype = self.name()
        self.expect("(")
        args = self.separated(self.expr, ")")
        if name in DTYPES and len(args) == 1:
            return Cast(name, args[0])
        if name in ("min", "max") and len(args) == 2:
            return Binary(name, args[0], args[1])
        if name == "select" and len(args) == 3:
            return Select(args[0], args[1], args[2])
        if not dtype:
            if not is_known(name):
                raise ContractError(
                    f"line {self.tokens[self.position][1]}: {name!r} is neither a buffer nor a "
                    "known function",
                    hint=f"a function that is not registered needs its type: {name}:int32(...)",
                )
            dtype = get_intrinsic(name).dtype
        return Intrinsic(name, tuple(args), dtype)

    def _index(self) -> Expr:
        self.expect("(")
        term = self.term()
        dtype = self.name() if self.accept(",") else "int32"
        self.expect(")")
        return IndexValue(term, dtype)

    def _number(self) -> Const:
        sign = -1 if self.accept("-") else 1
        match = re.fullmatch(r"(inf|nan|[\d.]+(?:e[+-]?\d+)?)([iuf]\d+)?", self.peek())
        if match is None or (match[2] or "") not in _DTYPE_OF_SUFFIX:
            self.fail("a number")
        self.next()
        dtype = _DTYPE_OF_SUFFIX[match[2] or ""]
        if is_float(dtype):
            return Const(sign * float(match[1]), dtype)
        if not match[1].isdigit():
            raise ContractError(f"{match[1]} is not of dtype {dtype}")
        return Const(sign * int(match[1]), dtype)
