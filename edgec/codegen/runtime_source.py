"""Cut single functions out of the runtime's headers: a model's `_runtime.h` has only the functions
that it uses.

Every function there is `static inline`, `static EC_KERNEL` or `static EC_SHARED`, has a comment
right above it and closes with a brace in the first column; so does every `typedef struct` of sizes,
`ec_..._sizes`. Macros are cut out too: a `#define EC_...` or an `#if defined` ... `#endif` that
holds some, each with a comment right above it. Functions that a function calls or passes on come
with it, in the order of the headers.

Variants of one function come from one text, an `.inc` file. Macros right above its `#include` are
its parameters; a model's `_runtime.h` has the text with their values in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from edgec.errors import ContractError
from edgec.resources import resource_dir

_COMMENT = r"^/\*(?:[^*]|\*(?!/))*\*/\n"
_PIECE = re.compile(
    _COMMENT
    + r"(?:static (?:inline|EC_KERNEL|EC_SHARED) [^\n]*?\n?\b(?P<name>ec_\w+)\((?:.*\n)*?\}\n"
    + r"|typedef struct \{\n(?:    .*\n)*\} (?P<struct>ec_\w+_sizes);\n"
    + r"|(?P<define>#define EC_\w+(?:.*\\\n)*.*\n)"
    + r"|(?P<block>#if defined(?:.*\n)*?#endif\n))",
    re.M,
)
_WORD = re.compile(r"\bec_\w+(?= ?[(,)}])|\bec_\w+_sizes\b|\bEC_[A-Z0-9_]+\b")
_MACRO = re.compile(r"^ *#define (EC_\w+)", re.M)
_VARIANT = re.compile(r'((?:^#define EC_.*\n)+)#include "(kernels/[\w/]+\.inc)"\n', re.M)
_PARAMETER = re.compile(r"^#define (EC_\w+)(?:\((\w+)\))? ?(.*)\n", re.M)


@dataclass(frozen=True)
class RuntimeFunction:
    """A function or macro: its text with the comment."""

    name: str
    text: str

    @cached_property
    def calls(self) -> tuple[str, ...]:
        """The runtime names in it; found when asked for, as a model uses few functions."""
        words = {*_WORD.findall(_code_of(self.text))}
        return tuple(sorted(words - {self.name}))


@cache
def runtime_functions() -> dict[str, RuntimeFunction]:
    """Every function of the runtime's headers by name, callees before callers, structs first."""
    root = resource_dir("runtime_c")
    order = ("ec_kernel.h", "ec_math.h", "ec_fixed_point.h")
    include = root / "include" / "edgec"
    headers = [include / name for name in order]
    headers += sorted(path for path in include.glob("*.h") if path.name not in order)
    headers += sorted((root / "math").glob("*.h"))
    headers += sorted((root / "kernels").glob("*/*.h"), key=_by_numbers)
    found: dict[str, RuntimeFunction] = {}
    for header in headers:
        for function in _functions_of(header):
            if found.setdefault(function.name, function).text != function.text:
                raise ContractError(f"{header.name}: {function.name} is defined twice")
    return dict(sorted(found.items(), key=lambda item: not item[0].endswith("_sizes")))


def _by_numbers(path: Path) -> tuple[bool, str, list[str | int]]:
    """Folder by folder, shared code first; s8 before s16."""
    parts = re.split(r"(\d+)", path.stem)
    folder = path.parent.name
    return folder != "common", folder, [int(part) if part.isdigit() else part for part in parts]


def _functions_of(header: Path) -> list[RuntimeFunction]:
    text = read_header(header)
    result = []
    for match in _PIECE.finditer(text):
        body = match[0].rstrip("\n")
        own = match["name"] or match["struct"]
        names = [own] if own else _MACRO.findall(body)
        result += [RuntimeFunction(name, body) for name in dict.fromkeys(names)]
    return result


def read_header(header: Path) -> str:
    """The text of a header, variants in place of their #include."""
    return _VARIANT.sub(_variant, header.read_text(encoding="utf-8"))


def _variant(match: re.Match[str]) -> str:
    """Return a text of variants with the values of its parameters; one of them may be a name."""
    text = (resource_dir("runtime_c") / match[2]).read_text(encoding="utf-8")
    for name, argument, value in _PARAMETER.findall(match[1]):
        if argument:
            parts = value.replace(" ", "").split("##")
            made = "".join(r"\1" if part == argument else part for part in parts)
            # clang-format takes a call by such a name for two lines
            text = re.sub(rf"\b{name}\((\w+)\)(?:\s+(?=\())?", made, text)
        else:
            text = re.sub(rf"\b{name}\b", value, text)
    return text


def _code_of(text: str) -> str:
    return re.sub(r"/\*(?:[^*]|\*(?!/))*\*/", " ", text)


def needed_functions(texts: Iterable[str]) -> tuple[RuntimeFunction, ...]:
    """The runtime functions that these C texts call, directly or indirectly, ready to paste.

    Raises ContractError if a name that starts with ec_ is called and does not exist.
    """
    known = runtime_functions()
    wanted: set[str] = set()
    pending = [word for text in texts for word in set(_WORD.findall(_code_of(text)))]
    while pending:
        name = pending.pop()
        if name in wanted:
            continue
        if name not in known and name.startswith("EC_"):
            continue  # of the model's own file
        if name not in known:
            raise ContractError(f"the runtime has no function {name}")
        wanted.add(name)
        pending += known[name].calls
    pieces: dict[str, RuntimeFunction] = {}
    for name, function in known.items():
        if name in wanted:  # one text may define several macros
            pieces.setdefault(function.text, function)
    return tuple(pieces.values())
