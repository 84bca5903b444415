"""Cut single functions out of the runtime's headers, so that a model's .c carries what it uses.

Every function there is `static inline`, has a comment right above it and closes with a brace in
the first column. What a function calls comes with it, in the order of the headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgec.errors import ContractError
from edgec.resources import resource_dir

_FUNCTION = re.compile(
    r"^/\*(?:[^*]|\*(?!/))*\*/\nstatic inline [^\n]*?\b(?P<name>ec_\w+)\((?:.*\n)*?\}\n", re.M
)
_WORD = re.compile(r"\bec_\w+(?=\()")


@dataclass(frozen=True)
class RuntimeFunction:
    """A function's text with its comment, and the runtime functions it calls."""

    name: str
    text: str
    calls: tuple[str, ...]


@cache
def runtime_functions() -> dict[str, RuntimeFunction]:
    """Every function of the runtime's headers by name, callees before callers."""
    root = resource_dir("runtime_c")
    order = ("ec_math.h", "ec_fixed_point.h")
    include = root / "include" / "edgec"
    headers = [include / name for name in order]
    headers += sorted(path for path in include.glob("*.h") if path.name not in order)
    headers += sorted((root / "math").glob("*.h"))
    headers += sorted((root / "microkernels").glob("*/*.h"))
    found: dict[str, RuntimeFunction] = {}
    for header in headers:
        for function in _functions_of(header):
            found[function.name] = function
    return found


def _functions_of(header: Path) -> list[RuntimeFunction]:
    text = header.read_text(encoding="utf-8")
    result = []
    for match in _FUNCTION.finditer(text):
        name, body = match["name"], match[0].rstrip("\n")
        calls = sorted({word for word in _WORD.findall(_code_of(body)) if word != name})
        result.append(RuntimeFunction(name, body, tuple(calls)))
    return result


def _code_of(text: str) -> str:
    return re.sub(r"/\*(?:[^*]|\*(?!/))*\*/", " ", text)


def needed_functions(texts: Iterable[str]) -> tuple[RuntimeFunction, ...]:
    """The runtime functions that these C texts call, and what those call, ready to paste.

    Raises ContractError if a name that starts with ec_ is called and does not exist.
    """
    known = runtime_functions()
    wanted: set[str] = set()
    pending = [word for text in texts for word in set(_WORD.findall(_code_of(text)))]
    while pending:
        name = pending.pop()
        if name in wanted:
            continue
        if name not in known:
            raise ContractError(f"the runtime has no function {name}")
        wanted.add(name)
        pending += known[name].calls
    return tuple(function for name, function in known.items() if name in wanted)
