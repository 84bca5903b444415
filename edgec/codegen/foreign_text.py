"""Copies of a user's C files that a model's custom operators need, with what the model calls."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.codegen.c_types import C_TYPE
from edgec.codegen.names import identifier
from edgec.codegen.program import Program
from edgec.errors import BuildFailed
from edgec.loop.foreign import Foreign, find_foreign, prototype
from edgec.loop.ir import Call
from edgec.loop.rewrite import walk


@dataclass(frozen=True)
class ForeignText:
    """A user's file of C, by the name that its copy gets, and what the model calls of it."""

    name: str
    text: str
    prototypes: tuple[str, ...]


def foreign_texts(program: Program) -> tuple[ForeignText, ...]:
    """The files, in the order of their names.

    Raises BuildFailed for a function that is called with operands of different types.
    """
    found: dict[str, tuple[Foreign, str]] = {}
    for step in program.steps:
        for call, _ in walk(step.function.body):
            foreign = find_foreign(call.callee) if isinstance(call, Call) else None
            if foreign is None:
                continue
            assert isinstance(call, Call)
            text = prototype(call, C_TYPE.__getitem__)
            known = found.setdefault(foreign.symbol, (foreign, text))[1]
            if known != text:
                raise BuildFailed(
                    f"{foreign.symbol} is called as `{known}` and as `{text}`",
                    hint="declare an operator of its own for each type, with its own C function",
                )
    files = sorted({str(foreign.source.resolve()) for foreign, _ in found.values()})
    return tuple(_of_file(program.model, found, name) for name in files)


def is_foreign_file(model: str, name: str) -> bool:
    """Whether a file of a project is such a copy."""
    return name.startswith(f"{model}_custom_") and name.endswith(".c")


def _of_file(model: str, found: dict[str, tuple[Foreign, str]], path: str) -> ForeignText:
    own = [(f, text) for f, text in found.values() if str(f.source.resolve()) == path]
    source, prototypes = own[0][0].source, tuple(text for _, text in own)
    lines = [
        f"/* {source.name}, copied by edgec; what {model} calls of it: */", "#include <stdint.h>",
        *prototypes, "", own[0][0].text,
    ]  # fmt: skip
    name = f"{model}_custom_{identifier(source.stem)}.c"
    return ForeignText(name, "\n".join(lines), prototypes)
