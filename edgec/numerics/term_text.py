"""Index terms from text: `2*batch + 1`, with + - * // % min(a, b) max(a, b)."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from edgec.errors import ContractError
from edgec.numerics.term import Term, Var, as_term, maximum, minimum

#: Longer texts are not a size of a tensor.
MOST_CHARACTERS = 1000


def read_term(text: str, variables: Mapping[str, Var]) -> Term:
    """The term that a text describes; nothing in it is executed. ContractError if it is none."""
    if len(text) > MOST_CHARACTERS:
        raise ContractError(f"a term of {len(text)} characters")
    try:
        return _term(ast.parse(text.strip(), mode="eval").body, variables)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ContractError(f"{text!r} is not a term: {error}") from None


def _term(node: ast.expr, variables: Mapping[str, Var]) -> Term:
    match node:
        case ast.Constant(value=int(number)):
            return as_term(number)
        case ast.Name(id=name) if name in variables:
            return as_term(variables[name])
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_term(inner, variables)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _term(left, variables), _term(right, variables))
        case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in ("min", "max"):
            choose = minimum if name == "min" else maximum
            return choose(_term(left, variables), _term(right, variables))
    raise ValueError(f"{ast.unparse(node)} is not known")


def _binary(op: ast.operator, left: Term, right: Term) -> Term:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
    if right.constant is None:
        raise ValueError(f"a divisor that is not constant: {right}")
    match op:
        case ast.FloorDiv():
            return left // right.constant
        case ast.Mod():
            return left % right.constant
    raise ValueError("an operator that is not known")
