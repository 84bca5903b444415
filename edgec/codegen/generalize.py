"""Make one C function of several that differ in integers alone, which become its parameters.

    f(x):  for (i = 0; i < 576; ++i) ...            f(x, n0):  for (i = 0; i < n0; ++i) ...
    g(x):  for (i = 0; i < 144; ++i) ...     ->     called as f(x, 576) and f(x, 144)

With its own integers put back, the common function is the text that each of them had, so nothing
changes but speed. Only integers of type int32_t are taken: indices, bounds of loops and
conditions, arguments of functions that want that type, and operands of sums and products. A struct
of sizes becomes one parameter, a pointer to one of the constants beside the function. Where time
counts, only structs become parameters, and only if the function just passes them on to functions
that are not inlined: the compiler folds all other numbers into the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from edgec.codegen.c_struct import CONSTANT, struct_declaration
from edgec.codegen.c_text import CFunction
from edgec.codegen.runtime_source import runtime_functions

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|.", re.S)
_COMMENT = re.compile(r"^ */\*.*?\*/\n", re.S | re.M)
_DECLARED_ARRAY = re.compile(r" *\w+ \w+\[\d+\];")
_BINARY = ("+", "-", "*")
#: Where everything is of type int32_t.
_INDEX, _BOUNDS = "index", "bounds"
#: More parameters than this cost at each call what sharing saves.
MOST_NUMBERS = 12
#: With more parameters than this, each call costs more than sharing saves.
_GONE = "\0"


@dataclass(frozen=True)
class General:
    """One function for several: their positions in the input, and each one's numbers.

    constants: declarations of the arrays that pointers among the numbers point to.
    """

    function: CFunction
    members: tuple[int, ...]
    numbers: tuple[tuple[int | str, ...], ...]
    constants: tuple[str, ...] = ()


def generalize(functions: Sequence[CFunction], by_structs: bool = False) -> tuple[General, ...]:
    """One function for each set of functions that differ in integers alone, in order.

    by_structs: in structs alone, and only where that takes no time.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    split = [_split(_without_comments(function), by_structs) for function in functions]
    for position, (function, (pieces, _)) in enumerate(zip(functions, split, strict=True)):
        groups.setdefault((pieces, function.params), []).append(position)
    result = []
    for members in groups.values():
        general = None
        if len(members) > 1:
            general = _common(functions[members[0]], members, [split[m] for m in members])
        if general is None:
            result += [General(functions[m], (m,), ((),)) for m in members]
        else:
            result.append(general)
    return tuple(sorted(result, key=lambda general: general.members))


def _without_comments(function: CFunction) -> CFunction:
    """Remove comments: a comment about one function is wrong for the others."""
    text = _COMMENT.sub("", "\n".join(function.lines))
    return replace(function, lines=tuple(text.split("\n")))


def _common(
    first: CFunction, members: list[int],
    split: Sequence[tuple[tuple[str, ...], tuple[int | str, ...]]],
) -> General | None:  # fmt: skip
    """The function that stands for all members; None where it would take too many numbers."""
    pieces = split[0][0]
    columns = list(zip(*(numbers for _, numbers in split), strict=True))
    varying = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
    if len({numbers for column in varying for numbers in _members(column)}) > MOST_NUMBERS:
        return None
    used = set(re.findall(r"\w+", "".join(pieces)))
    free = (name for name in map("n{}".format, range(1000)) if name not in used)
    params, constants, given = list(first.params), list[str](), list[tuple[int | str, ...]]()
    texts: dict[tuple[int | str, ...], str] = {}
    for column in varying:
        if isinstance(column[0], int):
            texts[column] = next(free)
            params.append(f"int32_t {texts[column]}")
            given.append(column)
            continue
        struct, name = _declared(pieces[columns.index(column)])
        values = list(dict.fromkeys(map(str, column)))
        texts[column] = _GONE
        params.append(f"const {struct} *{name}")
        own = {value: f"{first.name}_{name}{n}" for n, value in enumerate(values)}
        constants += [f"static {struct_declaration(struct, own[v], v)}" for v in values]
        given.append(tuple(own[str(value)] for value in column))
    text = pieces[0]
    for column, piece in zip(columns, pieces[1:], strict=True):
        text += texts.get(column, str(column[0])) + piece
    lines = tuple(line for line in text.split("\n") if _GONE not in line)
    function = CFunction(first.name, tuple(params), lines)
    numbers = tuple(zip(*given, strict=True)) or ((),) * len(split)
    return General(function, tuple(members), numbers, tuple(constants))


def _members(column: tuple[int | str, ...]) -> Iterator[tuple[int | str, ...]]:
    """The numbers that vary: the column itself, or the numbers of its structs."""
    parts = (re.findall(r"-?\d+", str(value)) for value in column)
    yield from (p for p in zip(*parts, strict=True) if len(set(p)) > 1)


def _declared(before: str) -> tuple[str, str]:
    """The type and name of the constant whose value comes after this text."""
    *_, struct, name, _, _ = before.split(" ")
    return struct, name.removesuffix("[1]")


def _split(function: CFunction, by_structs: bool) -> tuple[tuple[str, ...], tuple[int | str, ...]]:
    """The text between the numbers that may become parameters, and these: integers and structs."""
    pieces, numbers = [""], list[int | str]()
    for number, line in enumerate(function.lines):
        if number:
            pieces[-1] += "\n"
        constant = CONSTANT.fullmatch(line)
        if constant is not None and not (by_structs and _is_read(function, constant[2])):
            pieces[-1] += line[: constant.start(3)]
            pieces.append(line[constant.end(3) :])
            numbers.append(constant[3])
            continue
        if by_structs:
            pieces[-1] += line
            continue
        tokens = _TOKEN.findall(line)
        for token, is_free in zip(tokens, _free_integers(line, tokens), strict=True):
            if is_free:
                numbers.append(int(token))
                pieces.append("")
            else:
                pieces[-1] += token
    return tuple(pieces), tuple(numbers)


def _is_read(function: CFunction, constant: str) -> bool:
    """Whether compilers may see its use: it is not only passed on to kernels."""
    for line in function.lines:
        called = re.match(r" *(\w+)\(", line)
        kernel = runtime_functions().get(called[1]) if called is not None else None
        is_passed = kernel is not None and re.search(r"static EC_(KERNEL|SHARED)", kernel.text)
        if re.search(rf"\b{constant}\b", line) and not (is_passed or CONSTANT.fullmatch(line)):
            return True
    return False


def _free_integers(line: str, tokens: Sequence[str]) -> list[bool]:
    """Return for each token whether it is an integer that an int32_t value can replace."""
    is_array = _DECLARED_ARRAY.fullmatch(line) is not None
    around: list[str | tuple[str, int]] = []  # the content of the open brackets; a call's argument
    free = []
    for position, token in enumerate(tokens):
        if token == "[":
            around.append("extent" if is_array else _INDEX)
        elif token == "(":
            before = tokens[position - 1] if position else ""
            if before == " ":
                before = tokens[position - 2]
            if before in ("for", "if"):
                around.append(_BOUNDS)
            elif re.fullmatch(r"[A-Za-z_]\w*", before):
                around.append((before, 0))
            else:
                around.append("")
        elif token in ")]":
            around.pop()
        elif token == "," and around and isinstance(around[-1], tuple):
            name, index = around[-1]
            around[-1] = name, index + 1
        is_integer = token.isdigit() and _is_int32(token)
        free.append(is_integer and _may_vary(around, tokens, position))
    return free


def _is_int32(token: str) -> bool:
    return int(token) < 1 << 31


def _may_vary(
    around: Sequence[str | tuple[str, int]], tokens: Sequence[str], position: int
) -> bool:
    for kind in reversed(around):
        if kind in (_INDEX, _BOUNDS):
            return True
        if isinstance(kind, tuple):
            name, index = kind
            types = _parameter_types(name)
            return index < len(types) and types[index] == "int32_t"
        if kind:
            return False
    before, after = tokens[:position][-3:], tokens[position + 1 : position + 3]
    is_right = len(before) == 3 and before[0] != "," and before[1] in _BINARY and before[2] == " "
    return is_right or (len(after) == 2 and after[0] == " " and after[1] in _BINARY)


@cache
def _parameter_types(name: str) -> tuple[str, ...]:
    """The types of the parameters of a function of the runtime, without their names."""
    function = runtime_functions().get(name)
    found = re.search(rf"\b{name}\(([^)]*)\)", function.text) if function is not None else None
    if found is None:
        return ()
    return tuple(re.sub(r"\s*\w+$", "", p.strip()) for p in found[1].split(","))
