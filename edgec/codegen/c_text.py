"""A function of C as text: its declaration, its lines, and how long ones are broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgec.codegen.c_types import C_TYPE
from edgec.loop.ir import TRACES, Buffer, Call, PrimFunc, Store
from edgec.loop.microkernel import written_by
from edgec.loop.rewrite import statements

INDENT = "    "
COLUMNS = 100
#: Above a parallel loop: EC_THREADS, the model's, start and end there, or run the whole function.
PARALLEL_FOR = "parallel for num_threads(EC_THREADS) schedule(static)"
SHARED = "for schedule(static) nowait"
#: The end of a call of a foreign function that can fail.
FAILED = " == 0 ? EC_OK : EC_ERR_NPU;"


@dataclass(frozen=True)
class CFunction:
    """A function in C: its parameters, and the body's lines, however long."""

    name: str
    params: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def signature(self) -> str:
        """The declaration without its semicolon, wrapped to 100 columns."""
        return signature_text(self.name, self.params, "ec_status" if self.can_fail else "void")

    @property
    def can_fail(self) -> bool:
        """Whether it returns a status, where the model's run may end."""
        return any(FAILED in line for line in self.lines)

    @property
    def is_shared(self) -> bool:
        """Whether all threads run it."""
        return f"#pragma omp {SHARED}" in self.lines

    @property
    def body(self) -> tuple[str, ...]:
        return tuple(part for line in self.lines for part in wrapped(line))

    @property
    def text(self) -> str:
        return "\n".join((f"{self.signature} {{", *self.body, "}"))


def writes_param(func: PrimFunc, param: Buffer) -> bool:
    """Whether the function, or something it calls, may write through this parameter."""
    for stmt in statements(func.body):
        if isinstance(stmt, Store) and stmt.buffer == param:
            return True
        if isinstance(stmt, Call) and param in written_by(stmt):
            return True
    return False


def shows_rows(func: PrimFunc) -> bool:
    """Whether the function shows rows: it then takes the context and its first trace id."""
    return any(isinstance(s, Call) and s.callee in TRACES for s in statements(func.body))


def parameters(
    func: PrimFunc, params: Mapping[Buffer, str], indices: Iterable[str]
) -> tuple[str, ...]:
    pieces = ["const void *context", "uint32_t trace"] if shows_rows(func) else []
    for param in func.params:
        c_type = C_TYPE[param.dtype]
        if param.scope == "constant":
            pieces.append(f"const {c_type} *restrict {params[param]}")
        else:
            const = "" if writes_param(func, param) else "const "
            pieces.append(f"{const}{c_type} *{params[param]}")
    return (*pieces, *(f"int32_t {name}" for name in indices))


def signature_text(name: str, params: Sequence[str], result: str = "void") -> str:
    start = f"static {result} {name}("
    line, lines = start, []
    for position, piece in enumerate(params):
        text = piece + ("," if position + 1 < len(params) else ")")
        if len(line) + len(text) + 1 > COLUMNS and not line.endswith("("):
            lines.append(line)
            line = INDENT + INDENT + text
        else:
            line += text if line.endswith("(") else f" {text}"
    if not params:
        line += "void)"
    return "\n".join((*lines, line))


def wrapped(line: str) -> list[str]:
    """Break a line of code that is longer than 100 columns, best after a comma or semicolon."""
    lines: list[str] = []
    indent = len(line) - len(line.lstrip())
    while len(line) > COLUMNS:
        window = line[indent : COLUMNS + 1]
        cut = max(window.rfind("; "), window.rfind(", "))
        if cut < 0 or indent + cut < COLUMNS // 2:
            cut = window.rfind(" ") - 1
        if cut < 0:
            break
        lines.append(line[: indent + cut + 1])
        if len(lines) == 1:
            indent += 2 * len(INDENT)
        line = " " * indent + line[len(lines[-1]) + 1 :].lstrip()
    return [*lines, line]


def openmp(words: str) -> list[str]:
    """A line for compilers with OpenMP."""
    return ["#if defined(_OPENMP)", f"#pragma omp {words}", "#endif"]
