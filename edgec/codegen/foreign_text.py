"""Copies of a user's C files that a model's operators and kernels need, and their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from edgec.codegen.c_types import C_TYPE
from edgec.codegen.names import identifier
from edgec.codegen.program import Program
from edgec.errors import BuildFailed
from edgec.loop.foreign import Foreign, find_source, prototype
from edgec.loop.ir import Call
from edgec.loop.rewrite import statements

#: Suffixes of assembly files; gcc's preprocessor reads them.
ASSEMBLY = (".S", ".s")


@dataclass(frozen=True)
class ForeignText:
    """A user's C file, the name of its copy, and the functions that the model calls."""

    name: str
    text: str
    prototypes: tuple[str, ...]


def foreign_texts(program: Program) -> tuple[ForeignText, ...]:
    """The files of a program, in the order of their names. Raises BuildFailed as `copies_for`."""
    return copies_for(_calls(program), program.model)


def _calls(program: Program) -> Iterator[Call]:
    functions = (*(step.function for step in program.steps), *program.callees.values())
    return (s for each in functions for s in statements(each.body) if isinstance(s, Call))


def copies_for(calls: Iterable[Call], model: str) -> tuple[ForeignText, ...]:
    """The files that these calls need; calls of microkernels and our own functions need none.

    Raises BuildFailed for a function that is called with operands of different types.
    """
    found: dict[str, tuple[Foreign, str]] = {}
    for call in calls:
        foreign = find_source(call.callee)
        if foreign is None or foreign.on_gpu:
            continue
        text = prototype(call, C_TYPE.__getitem__)
        known = found.setdefault(foreign.symbol, (foreign, text))[1]
        if known != text:
            raise BuildFailed(
                f"{foreign.symbol} is called as `{known}` and as `{text}`",
                hint="declare an operator of its own for each type, with its own C function",
            )
    files = sorted({str(foreign.source.resolve()) for foreign, _ in found.values()})
    further = {name: text for foreign, _ in found.values() for name, text in foreign.files}
    return (
        *(_of_file(model, found, name) for name in files),
        *(ForeignText(name, text, ()) for name, text in sorted(further.items())),
    )


def libraries_of(program: Program) -> tuple[str, ...]:
    """The libraries that a program links for the user's functions."""
    return tuple(sorted({name for each in _called(program) for name in each.libraries}))


def alignment_of(program: Program) -> int:
    """The alignment of constants, in bytes, that the user's functions need."""
    return max((each.alignment for each in _called(program)), default=1)


def _called(program: Program) -> Iterator[Foreign]:
    for call in _calls(program):
        found = find_source(call.callee)
        if found is not None:
            yield found


def _of_file(model: str, found: dict[str, tuple[Foreign, str]], path: str) -> ForeignText:
    own = [(f, text) for f, text in found.values() if str(f.source.resolve()) == path]
    source, prototypes = own[0][0].source, tuple(text for _, text in own)
    is_assembly = source.suffix in ASSEMBLY
    declared = () if is_assembly else ("#include <stdint.h>", *prototypes, "")
    lines = [
        f"/* {source.name}, copied by edgec; what {model} calls of it: */", *declared,
        own[0][0].text,
    ]  # fmt: skip
    name = f"{model}_custom_{identifier(source.stem)}{'.S' if is_assembly else '.c'}"
    return ForeignText(name, "\n".join(lines), prototypes)
