"""Print a module as graph IR text; `docs/graph_ir.md` describes the grammar.

The text holds everything except the constants' data: `constant_data` returns these by the hash in
the text. `edgec.graph.parser.parse_module` reads both back.
"""

from __future__ import annotations

import dataclasses
import hashlib

from edgec.errors import ContractError
from edgec.graph.extents import symbols_of
from edgec.graph.ir import Constant, Function, Module, Node, Value
from edgec.graph.lexer import print_name
from edgec.graph.literal import LiteralPrinter
from edgec.graph.types import Array

#: Hexadecimal digits of a constant's SHA-256 in the text: 64 bits distinguish all constants.
HASH_DIGITS = 16


def print_module(module: Module) -> str:
    """All functions of a module as text that ends with a newline.

    Raises ContractError where an attribute has a value of a type that the grammar lacks.
    """
    literals = LiteralPrinter()
    functions = [
        "\n".join(_function(name, function, literals)) + "\n"
        for name, function in module.functions.items()
    ]
    # Aliases are collected while the functions are printed, but stand above them.
    aliases = [f"{alias} = {text}\n" for text, alias in literals.aliases.items()]
    header = {
        field.name: getattr(module, field.name)
        for field in dataclasses.fields(module)
        if field.name != "functions"
    }
    fields = ", ".join(f"{name}={literals.literal(value)}" for name, value in header.items())
    blocks = [f"module {{{fields}}}\n", "".join(aliases), *functions]
    return "\n".join(block for block in blocks if block)


def constant_data(module: Module) -> dict[str, Array]:
    """The data of all constants, by the hash that stands for them in the text."""
    return {
        constant_hash(constant.data): constant.data
        for outer in module.functions.values()
        for function in outer.walk()
        for constant in function.constants()
    }


def constant_hash(data: Array) -> str:
    """The first digits of the SHA-256 of an array's dtype, shape and little-endian bytes."""
    digest = hashlib.sha256(f"{data.dtype.name}{list(data.shape)}".encode())
    digest.update(data.astype(data.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()[:HASH_DIGITS]


def _function(name: str, function: Function, literals: LiteralPrinter) -> list[str]:
    if name != function.name:
        raise ContractError(f"function {function.name!r} is stored in its module as {name!r}")
    lines = [f"function {name!r} {{"]
    lines += [
        f"  size {var.name!r} from {var.start} to {var.stop - 1}"
        for var in symbols_of(value.type for value in function.params)
    ]
    lines += [f"  param {_binding(value, literals)}" for value in function.params]
    lines += [f"  constant {_constant(value, literals)}" for value in function.constants()]
    for node in function.nodes:
        lines += ["", *_node(node, literals)]
    lines += ["", f"  return {', '.join(map(_reference, function.results))}".rstrip()]
    lines += [
        f"  state {_reference(s.before)} -> {_reference(s.after)} initial {_reference(s.initial)}"
        for s in function.states
    ]
    lines += [f"  count {c.output} {c.axis} {c.number}" for c in function.counts]
    return [*lines, "}"]


def _node(node: Node, literals: LiteralPrinter) -> list[str]:
    """Print a node: results, operator, attributes, origin in the model file, and bodies."""
    outputs = ",\n  ".join(_binding(value, literals) for value in node.outputs)
    operands = ", ".join(map(_reference, node.inputs))
    attrs = literals.record(node.attrs)
    source = f"    node {node.name!r}"
    if node.sources != (node.name,):
        source += f" sources {literals.literal(node.sources)}"
    return [
        f"  {outputs}",
        f"    = {node.op.name}({operands})" + ("" if attrs == "{}" else f" {attrs}"),
        source,
        *(f"    {line}" if line else "" for body in node.bodies for line in _body(body, literals)),
    ]


def _body(body: Function, literals: LiteralPrinter) -> list[str]:
    first, *rest = _function(body.name, body, literals)
    return [f"body {first.removeprefix('function ')}", *rest]


def _constant(constant: Constant, literals: LiteralPrinter) -> str:
    text = f"{_reference(constant)}: {literals.tensor_type(constant.type)}"
    text += f" sha256 {constant_hash(constant.data)!r}"
    return text + _origin(constant, literals)


def _binding(value: Value, literals: LiteralPrinter) -> str:
    text = f"{_reference(value)}: {literals.tensor_type(value.type)}"
    return text + _origin(value, literals)


def _origin(value: Value, literals: LiteralPrinter) -> str:
    if value.origin is None:
        return ""
    return f" from {literals.record(value.origin, omit_defaults=True)}"


def _reference(value: Value) -> str:
    return print_name("@" if isinstance(value, Constant) else "%", value.name)
