"""Functions that are larger than CONTRIBUTING.md allows, and the list of those that still are.

`python tests/repo/large_functions.py` takes off the list what is no longer too large. It never adds
anything: a new function has to be small.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

MOST_LINES, MOST_BRANCHES, MOST_PARAMETERS = 40, 8, 8
REPO_ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_suffix(".txt")

Function = ast.FunctionDef | ast.AsyncFunctionDef
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.match_case)


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Everything in a function except what is in the functions inside it."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function):
            waiting += ast.iter_child_nodes(node)


def complexity(function: Function) -> int:
    """McCabe's: 1 and one for each branch, each further operand of `and` and `or`, and each `if`
    of a comprehension."""
    found = 1
    for node in own_nodes(function):
        if isinstance(node, BRANCHES):
            found += 1
        elif isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            found += len(node.ifs)
    return found


def parameters(function: Function) -> int:
    """Without self and cls."""
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def faults(function: Function) -> Iterator[str]:
    """By what a function is too large, by the words of the list."""
    if (function.end_lineno or function.lineno) - function.lineno + 1 > MOST_LINES:
        yield "lines"
    if complexity(function) > MOST_BRANCHES:
        yield "branches"
    if parameters(function) > MOST_PARAMETERS:
        yield "parameters"


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function by its qualified name."""
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, (Function, ast.ClassDef)):
            name = f"{prefix}{node.name}."
            if isinstance(node, Function):
                yield name[:-1], node
        yield from functions(node, name)


def large_functions() -> Counter[str]:
    """Lines as the list has them, `Class.method lines`; files may move."""
    return Counter(
        f"{name} {fault}"
        for path in (REPO_ROOT / "edgec").rglob("*.py")
        for name, function in functions(ast.parse(path.read_text("utf-8")))
        for fault in faults(function)
    )


def listed() -> Counter[str]:
    """The functions that are still allowed to be too large."""
    return Counter(LIST.read_text("utf-8").splitlines())


def write(lines: Counter[str]) -> None:
    LIST.write_text("".join(f"{line}\n" for line in sorted(lines.elements())), "utf-8")


if __name__ == "__main__":
    write(listed() & large_functions())
