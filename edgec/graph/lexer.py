"""Split graph IR text into tokens that know their lines.

    name      %x  @w  %serving_default_x:0  %'any characters'    a value or constant
    alias     #q0
    string    'text' or "text", with Python's escapes
    number    3  -1  0.25  1e-05  inf  -inf  nan
    word      param  int8  conv2d  TensorType  Padding.SAME
    mark      = ( ) [ ] { } , : ->

White space separates and has no other meaning; `//` starts a comment that ends with its line.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import NoReturn

from edgec.errors import ContractError

_STRING = r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
#: A name that needs no quotes: it may hold what TFLite and ONNX names usually hold.
_BARE_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_./:;+-]*[A-Za-z0-9_])?"

_TOKEN = re.compile(
    rf"""
    (?P<space>\s+|//[^\n]*)
  | (?P<name>[%@](?:{_BARE_NAME}|{_STRING}))
  | (?P<alias>\#[A-Za-z0-9_]+)
  | (?P<string>{_STRING})
  | (?P<number>-?(?:inf|nan)\b|-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
  | (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
  | (?P<mark>->|[=()\[\]{{}},:])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """One token; `text` is "" and `kind` is "end" after the last one. Lines start at 1."""

    kind: str
    text: str
    line: int


def print_name(sigil: str, name: str) -> str:
    """`%name`, quoted where the name holds other characters than a bare name may."""
    return sigil + (name if re.fullmatch(_BARE_NAME, name) else repr(str(name)))


class Lexer:
    """All tokens of a text and a position among them."""

    def __init__(self, text: str) -> None:
        self._tokens: list[Token] = []
        self._next = 0
        line, position = 1, 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ContractError(f"line {line}: unexpected character {text[position]!r}")
            kind = str(match.lastgroup)
            if kind != "space":
                self._tokens.append(Token(kind, match[0], line))
            line += match[0].count("\n")
            position = match.end()
        self._tokens.append(Token("end", "", line))

    def peek(self) -> Token:
        """The next token, not taken."""
        return self._tokens[self._next]

    def take(self) -> Token:
        """The next token; "end" stays for ever."""
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def at(self, text: str) -> bool:
        """Whether the next token is this word or mark."""
        token = self.peek()
        return token.kind in ("word", "mark") and token.text == text

    def accept(self, text: str) -> bool:
        """Take the next token if it is this word or mark."""
        found = self.at(text)
        if found:
            self.take()
        return found

    def expect(self, text: str) -> Token:
        """Take this word or mark; ContractError with the line otherwise."""
        if not self.at(text):
            self.fail(f"expected {text!r}")
        return self.take()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Take a token of this kind; ContractError says that `what` was expected."""
        if self.peek().kind != kind:
            self.fail(f"expected {what}")
        return self.take()

    def string(self, what: str) -> str:
        """Take a string and return its value."""
        token = self.expect_kind("string", what)
        return unquote(token)

    def fail(self, problem: str) -> NoReturn:
        """Raise ContractError for the next token."""
        token = self.peek()
        found = repr(token.text) if token.text else "the end of the text"
        raise ContractError(f"line {token.line}: {problem}, found {found}")


def unquote(token: Token) -> str:
    """The text that a string token, or the quoted part of a name token, stands for."""
    text = token.text[1:] if token.kind == "name" else token.text
    if text[:1] not in ("'", '"'):
        return text
    try:
        return str(ast.literal_eval(text))
    except (SyntaxError, ValueError) as error:
        raise ContractError(f"line {token.line}: {text} is not a string: {error}") from None
