"""Read a module from graph IR text; `docs/graph_ir.md` describes the grammar.

The reverse of `edgec.graph.printer`: print(parse(print(m))) == print(m). Errors name the line.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.errors import ContractError, TypeMismatch
from edgec.graph.extents import infer_types
from edgec.graph.ir import Constant, Count, Function, Module, Node, State, Value
from edgec.graph.lexer import Lexer, Token, unquote
from edgec.graph.literal import MAX_DEPTH, LiteralParser
from edgec.graph.operator import NoAttrs, Operator, Signature, all_ops, get_op
from edgec.graph.printer import constant_hash
from edgec.graph.provenance import Origin
from edgec.graph.types import Array, TensorType
from edgec.graph.verify import verify_body, verify_module
from edgec.numerics.term import Var


def parse_module(text: str, constants: Mapping[str, Array]) -> Module:
    """The module that a text describes, verified.

    constants: data by hash, from `constant_data`. The operators of the text must be registered
    (`edgec.ops.load`). Raises ContractError with the line for a text that does not follow the
    grammar, for an unknown operator, value or hash, and for types that contradict an operator's
    type relation.
    """
    return _Parser(text, constants).module()


class _Parser:
    """Recursive descent, one method for each rule of the grammar."""

    def __init__(self, text: str, constants: Mapping[str, Array]) -> None:
        self.lexer = Lexer(text)
        self.aliases: dict[str, Any] = {}
        self.literals = LiteralParser(self.lexer, self.aliases)
        self.constants = constants
        self.values: dict[str, Value] = {}  # of one function, by sigil and name
        self.depth = 0  # of bodies

    def module(self) -> Module:
        self.lexer.expect("module")
        functions: dict[str, Function] = {}
        header: Module = self.literals.record(Module, {"functions": functions})
        while self.lexer.peek().kind == "alias":
            self.alias()
        while self.lexer.at("function"):
            start = self.lexer.peek()
            function = self.function()
            if function.name in functions:
                raise ContractError(f"line {start.line}: function {function.name!r} exists already")
            functions[function.name] = function
        if self.lexer.peek().kind != "end":
            self.lexer.fail("expected a function")
        module = dataclasses.replace(header, functions=functions)
        verify_module(module)
        return module

    def alias(self) -> None:
        token = self.lexer.take()
        if token.text in self.aliases:
            raise ContractError(f"line {token.line}: {token.text} is defined twice")
        self.lexer.expect("=")
        self.aliases[token.text] = self.literals.literal({})

    def function(self) -> Function:
        self.lexer.expect("function")
        return self.definition()

    def body(self) -> Function:
        """A function inside a node, whose names are its own."""
        outer, self.depth = self.values, self.depth + 1
        if self.depth > MAX_DEPTH:
            self.lexer.fail(f"bodies are nested more than {MAX_DEPTH} deep")
        self.lexer.expect("body")
        body = self.definition()
        self.values, self.depth = outer, self.depth - 1
        try:
            verify_body(body)
        except ContractError as error:
            self.lexer.fail(f"expected another body before this: {error.message}")
        return body

    def definition(self) -> Function:
        name = self.lexer.string("the function's name in quotes")
        self.lexer.expect("{")
        self.values = {}
        while self.lexer.accept("size"):
            self.size()
        params = []
        while self.lexer.accept("param"):
            params.append(self.define(*self.binding()))
        while self.lexer.accept("constant"):
            self.constant()
        nodes = []
        while self.lexer.peek().kind == "name":
            nodes.append(self.node())
        self.lexer.expect("return")
        results = self.references() if self.lexer.peek().kind == "name" else ()
        states = []
        while self.lexer.accept("state"):
            before = self.reference()
            self.lexer.expect("->")
            after = self.reference()
            self.lexer.expect("initial")
            states.append(State(before, after, self.initial()))
        counts = []
        while self.lexer.accept("count"):
            counts.append(Count(*(self.literals.integer() for _ in range(3))))
        self.lexer.expect("}")
        return Function(name, tuple(params), tuple(nodes), results, tuple(states), tuple(counts))

    def size(self) -> None:
        name = self.lexer.string("the size's name in quotes")
        self.lexer.expect("from")
        low = self.literals.integer()
        self.lexer.expect("to")
        self.literals.symbols[name] = Var(name, low, self.literals.integer() + 1)

    def binding(self) -> tuple[Token, TensorType, Origin | None]:
        """`%name: type [from origin]`; not yet defined, so that a node cannot read itself."""
        token = self.lexer.expect_kind("name", "the name of a value")
        if not token.text.startswith("%"):
            raise ContractError(f"line {token.line}: {token.text} is not the name of a value")
        self.lexer.expect(":")
        return token, self.literals.tensor_type(), self.origin()

    def define(self, token: Token, type_: TensorType, origin: Origin | None) -> Value:
        return self.add(token, Value(unquote(token), type_, origin))

    def add(self, token: Token, value: Value) -> Value:
        key = token.text[0] + value.name
        if key in self.values:
            raise ContractError(f"line {token.line}: {token.text} is defined twice")
        self.values[key] = value
        return value

    def constant(self) -> None:
        token = self.lexer.expect_kind("name", "the name of a constant")
        if not token.text.startswith("@"):
            raise ContractError(f"line {token.line}: {token.text} is not the name of a constant")
        self.lexer.expect(":")
        type_ = self.literals.tensor_type()
        self.lexer.expect("sha256")
        digest = self.lexer.string("the constant's hash in quotes")
        origin = self.origin()
        data = self.constants.get(digest)
        if data is None:
            raise ContractError(f"line {token.line}: no data were given for {token.text}, {digest}")
        if constant_hash(data) != digest:
            raise ContractError(f"line {token.line}: the data of {token.text} are not {digest}")
        try:
            self.add(token, Constant(unquote(token), type_, origin, data=data))
        except ValueError as error:
            raise ContractError(f"line {token.line}: {error}") from None

    def origin(self) -> Origin | None:
        if not self.lexer.accept("from"):
            return None
        origin: Origin = self.literals.record(Origin)
        return origin

    def node(self) -> Node:
        bindings = [self.binding()]
        while self.lexer.accept(","):
            bindings.append(self.binding())
        self.lexer.expect("=")
        start = self.lexer.expect_kind("word", "the name of an operator")
        op = self.operator(start)
        self.lexer.expect("(")
        inputs = self.references() if self.lexer.peek().kind == "name" else ()
        self.lexer.expect(")")
        attrs = self.attributes(op, start)
        self.lexer.expect("node")
        name = self.lexer.string("the node's name in quotes")
        sources: Any = (name,)
        if self.lexer.accept("sources"):
            sources = self.literals.literal({})
        bodies = []
        while self.lexer.at("body"):
            bodies.append(self.body())
        signatures = [body.signature for body in bodies]
        stated = tuple(type_ for _, type_, _ in bindings)
        check_types(op, attrs, signatures, inputs, stated, start)
        outputs = tuple(self.define(*binding) for binding in bindings)
        return Node(op, attrs, inputs, outputs, name, sources, tuple(bodies))

    def operator(self, token: Token) -> Operator[Any]:
        try:
            return get_op(token.text)
        except KeyError:
            known = [op.name for op in all_ops()]
            near = difflib.get_close_matches(token.text, known, 1)
            raise ContractError(
                f"line {token.line}: unknown operator {token.text!r}",
                hint=f"did you mean {near[0]!r}?" if near else "`edgec ops` lists all operators",
            ) from None

    def attributes(self, op: Operator[Any], start: Token) -> Any:
        if self.lexer.at("{"):
            return self.literals.record(op.attrs_class)
        if op.attrs_class is NoAttrs:
            return NoAttrs()
        try:
            return op.attrs_class()
        except TypeError as error:
            raise ContractError(f"line {start.line}: {op.name} needs attributes: {error}") from None

    def references(self) -> tuple[Value, ...]:
        values = [self.reference()]
        while self.lexer.accept(","):
            values.append(self.reference())
        return tuple(values)

    def initial(self) -> Constant:
        token = self.lexer.peek()
        value = self.reference()
        if not isinstance(value, Constant):
            raise ContractError(f"line {token.line}: {token.text} is not a constant")
        return value

    def reference(self) -> Value:
        token = self.lexer.expect_kind("name", "the name of a value")
        value = self.values.get(token.text[0] + unquote(token))
        if value is None:
            raise ContractError(f"line {token.line}: {token.text} is not defined")
        return value


def check_types(
    op: Operator[Any],
    attrs: Any,
    bodies: Sequence[Signature],
    inputs: tuple[Value, ...],
    stated: tuple[TensorType, ...],
    at: Token,
) -> None:
    """Raise ContractError unless an operator has the types that the text states."""
    try:
        inferred = infer_types(op, attrs, bodies, [value.type for value in inputs])
    except TypeMismatch as mismatch:
        raise ContractError(
            f"line {at.line}: {op.name}: {mismatch.message}",
            details=mismatch.details,
            hint=mismatch.hint,
        ) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Another number of inputs, or attributes of other Python types, than the operator takes.
        raise ContractError(f"line {at.line}: {op.name}: {error}") from None
    if inferred != stated:
        raise ContractError(
            f"line {at.line}: {op.name} gives other types than the text states",
            details=(
                f"stated: {', '.join(map(str, stated))}",
                f"given: {', '.join(map(str, inferred))}",
            ),
        )
