"""Attribute values as text, and back: generic over the dataclasses of all operators.

    literal = None | True | False | number | string | "(" [literal ","]* ")"
            | Enum.MEMBER | Class record | type | "term" "(" term ")" | quant | alias
    record  = "{" [field "=" literal ","]* "}"
    type    = dtype "[" [extent ","]* "]" ["sizes" "(" [term ","]* ")"] [quant]
    quant   = "quant(" scale "," zero_point ")" | "quant(" [field "=" list ","]* ")" | alias

A record has the fields of a dataclass; which classes and enumerations a text may name follows
from the annotations of the attributes it belongs to. Nothing in a text is ever executed.
"""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from edgec.errors import ContractError
from edgec.graph.lexer import Lexer, unquote
from edgec.graph.types import DTYPES, Quant, TensorType
from edgec.numerics.term import Term, Var
from edgec.numerics.term_text import read_term

#: Deeper nesting cannot be an attribute of an operator.
MAX_DEPTH = 40

#: Tuples of more items are printed as an alias.
MAX_INLINE = 8

_WORDS = {"None": None, "True": True, "False": False}


class LiteralPrinter:
    """Prints values; long and frequent ones become aliases.

    aliases: by text, the name (`#q0` for a per-channel quantization, `#t1` for a long tuple), in
    the order of definition.
    """

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}

    def literal(self, value: object) -> str:
        """One value; ContractError if the text has no form for it."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, enum.Enum):
            return f"{type(value).__name__}.{value.name}"
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        if isinstance(value, float):
            return repr(float(value))
        if isinstance(value, tuple):
            items = [self.literal(item) for item in value]
            text = f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
            return text if len(items) <= MAX_INLINE else self._alias("#t", text)
        if isinstance(value, Term):
            return f"term({str(value)!r})"
        if isinstance(value, Quant):
            return self.quant(value)
        if isinstance(value, TensorType):
            return self.tensor_type(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return type(value).__name__ + self.record(value)
        raise ContractError(f"graph text has no form for the {type(value).__name__} {value!r}")

    def record(self, instance: Any, *, omit_defaults: bool = False) -> str:
        """`{field=value, ...}` of a dataclass, in the order of its fields."""
        parts = []
        for field in dataclasses.fields(instance):
            value = getattr(instance, field.name)
            if field.init and not (omit_defaults and value == field.default):
                parts.append(f"{field.name}={self.literal(value)}")
        return "{" + ", ".join(parts) + "}"

    def quant(self, quant: Quant) -> str:
        """Short where there is one scale for the tensor, an alias otherwise."""
        if quant.per_tensor:
            return f"quant({self.literal(quant.scale[0])}, {self.literal(quant.zero_point[0])})"
        text = (
            f"quant(axis={self.literal(quant.axis)}, scale={self._list(quant.scale)},"
            f" zero_point={self._list(quant.zero_point)})"
        )
        return self._alias("#q", text)

    def tensor_type(self, type_: TensorType) -> str:
        """`int8[1, 8] quant(0.5, -128)`."""
        text = f"{type_.dtype}[{', '.join(self.literal(extent) for extent in type_.shape)}]"
        if type_.extents is not None:
            text += f" sizes({', '.join(repr(str(term)) for term in type_.extents)})"
        return text if type_.quant is None else f"{text} {self.quant(type_.quant)}"

    def _alias(self, prefix: str, text: str) -> str:
        return self.aliases.setdefault(text, f"{prefix}{len(self.aliases)}")

    def _list(self, items: tuple[Any, ...]) -> str:
        return "[" + ", ".join(self.literal(item) for item in items) + "]"


class LiteralParser:
    """Reads values from a lexer; `aliases` are the values that have a name."""

    def __init__(self, lexer: Lexer, aliases: Mapping[str, Any]) -> None:
        self.lexer = lexer
        self.aliases = aliases
        self.symbols: dict[str, Var] = {}
        self._depth = 0

    def literal(self, classes: Mapping[str, type]) -> Any:
        """One value; `classes` are the dataclasses and enumerations that it may name."""
        token = self.lexer.peek()
        if token.kind == "string":
            return unquote(self.lexer.take())
        if token.kind == "number":
            return self.number()
        if token.kind == "alias":
            return self.alias()
        if self.lexer.at("quant"):
            return self.quant()
        if token.kind == "word":
            return self._word(classes)
        if token.text == "(":
            return self._tuple(classes)
        self.lexer.fail("expected a value")

    def record(self, cls: type[Any], known: Mapping[str, Any] | None = None) -> Any:
        """`{field=value, ...}` as an instance of a dataclass; `known` are fields given elsewhere.

        Fields that are left out get their defaults. Raises ContractError for a field that does
        not exist or has no value.
        """
        start = self.lexer.peek()
        names = {field.name for field in dataclasses.fields(cls) if field.init}
        names -= set(known or ())
        values = self._fields(names, cls.__name__, {} if known else reachable_classes(cls))
        try:
            return cls(**values, **(known or {}))
        except (TypeError, ValueError) as error:
            raise ContractError(f"line {start.line}: {error}") from None

    def number(self) -> int | float:
        """An integer or, with a point, an exponent or a word, a float."""
        token = self.lexer.expect_kind("number", "a number")
        try:
            return int(token.text)
        except ValueError:
            return float(token.text)

    def integer(self) -> int:
        value = self.number()
        if isinstance(value, int):
            return value
        self.lexer.fail(f"expected an integer before this, not {value}")

    def alias(self) -> Any:
        """The value that an alias stands for."""
        token = self.lexer.expect_kind("alias", "an alias")
        if token.text not in self.aliases:
            raise ContractError(f"line {token.line}: {token.text} is not defined")
        return self.aliases[token.text]

    def tensor_type(self) -> TensorType:
        token = self.lexer.expect_kind("word", "a tensor type")
        if token.text not in DTYPES:
            raise ContractError(f"line {token.line}: unknown dtype {token.text!r}")
        shape = self._sequence("[", "]", self.integer)
        extents = None
        if self.lexer.accept("sizes"):
            extents = tuple(self._sequence("(", ")", self.term))
        following = self.lexer.peek()
        has_quant = following.kind == "alias" or self.lexer.at("quant")
        quant = self.quant() if has_quant else None
        try:
            return TensorType(tuple(shape), token.text, quant, extents)
        except ValueError as error:
            raise ContractError(f"line {token.line}: {error}") from None

    def term(self) -> Term:
        """A term over the sizes of the function, in quotes."""
        token = self.lexer.peek()
        try:
            return read_term(self.lexer.string("a size in quotes"), self.symbols)
        except ContractError as error:
            raise ContractError(f"line {token.line}: {error.message}") from None

    def quant(self) -> Quant:
        """A quantization, in full or by its alias."""
        token = self.lexer.peek()
        if token.kind == "alias":
            value = self.alias()
            if not isinstance(value, Quant):
                raise ContractError(f"line {token.line}: {token.text} is not a quantization")
            return value
        self.lexer.expect("quant")
        self.lexer.expect("(")
        if self.lexer.peek().kind == "number":
            scale = self.number()
            self.lexer.expect(",")
            arguments: dict[str, Any] = {"scale": (scale,), "zero_point": (self.integer(),)}
        else:
            arguments = {}
            while self.lexer.peek().kind == "word":
                field = self.lexer.take().text
                self.lexer.expect("=")
                is_list = self.lexer.at("[")
                arguments[field] = (
                    tuple(self._sequence("[", "]", self.number)) if is_list else self.literal({})
                )
                if not self.lexer.accept(","):
                    break
        self.lexer.expect(")")
        try:
            return Quant(**arguments)
        except (TypeError, ValueError) as error:
            raise ContractError(f"line {token.line}: {error}") from None

    def _word(self, classes: Mapping[str, type]) -> Any:
        token = self.lexer.peek()
        if token.text in DTYPES:
            return self.tensor_type()
        self.lexer.take()
        if token.text == "term":
            (term,) = self._sequence("(", ")", self.term)
            return term
        if token.text in _WORDS:
            return _WORDS[token.text]
        name, _, member = token.text.partition(".")
        cls = classes.get(name)
        if cls is not None and issubclass(cls, enum.Enum) and member in cls.__members__:
            return cls[member]
        if cls is not None and dataclasses.is_dataclass(cls) and not member:
            return self.record(cls)
        raise ContractError(f"line {token.line}: {token.text!r} is not known here")

    def _tuple(self, classes: Mapping[str, type]) -> tuple[Any, ...]:
        return tuple(self._sequence("(", ")", lambda: self.literal(classes)))

    def _sequence(self, opening: str, closing: str, item: Callable[[], Any]) -> list[Any]:
        """Items between brackets; a comma may follow the last."""
        self.lexer.expect(opening)
        self._deeper(1)
        items = []
        while not self.lexer.at(closing):
            items.append(item())
            if not self.lexer.accept(","):
                break
        self._deeper(-1)
        self.lexer.expect(closing)
        return items

    def _fields(self, names: set[str], owner: str, classes: Mapping[str, type]) -> dict[str, Any]:
        values: dict[str, Any] = {}

        def field() -> None:
            token = self.lexer.expect_kind("word", "the name of a field")
            if token.text not in names or token.text in values:
                problem = "is given twice" if token.text in values else f"is not a field of {owner}"
                raise ContractError(f"line {token.line}: {token.text!r} {problem}")
            self.lexer.expect("=")
            values[token.text] = self.literal(classes)

        self._sequence("{", "}", field)
        return values

    def _deeper(self, step: int) -> None:
        self._depth += step
        if self._depth > MAX_DEPTH:
            self.lexer.fail(f"more than {MAX_DEPTH} brackets are open")


def reachable_classes(cls: type) -> Mapping[str, type]:
    """Dataclasses and enumerations that the annotations of a dataclass name, at any depth."""
    found: dict[str, type] = {}

    def visit(annotation: object) -> None:
        for argument in typing.get_args(annotation):
            visit(argument)
        if not isinstance(annotation, type) or annotation.__name__ in found:
            return
        if issubclass(annotation, enum.Enum):
            found[annotation.__name__] = annotation
        elif dataclasses.is_dataclass(annotation):
            found[annotation.__name__] = annotation
            visit_fields(annotation)

    def visit_fields(owner: type) -> None:
        for annotation in typing.get_type_hints(owner).values():
            visit(annotation)

    visit_fields(cls)
    return found
