"""The C file of a variant's function alone."""

from __future__ import annotations

import numpy as np

from edgec.build.bare_image import HEAD
from edgec.codegen.c_function import emit_function
from edgec.codegen.c_types import C_TYPE, INT_RANGE
from edgec.codegen.ranges import range_class
from edgec.codegen.runtime_source import needed_functions
from edgec.graph.types import Array
from edgec.loop.foreign import find_source, prototype
from edgec.loop.ir import Buffer, Call, PrimFunc
from edgec.loop.rewrite import statements
from edgec.passes.lower_groups import Variant

#: Alignment of every constant, and of the unreadable bytes after it: in a model of several layers,
#: too, no instruction reaches from one constant to another of its layer.
ALIGNMENT, ROOM = 16, 4096
#: gcc 12 may take a function for pure whose loops it counts from its constants' address, and then
#: leaves out the call. The statement makes no instruction.
_BARRIER = '    __asm__ volatile("" : : : "memory");\n'


def c_text(variant: Variant, name: str) -> str:
    """The C file of a variant's function, which has this name."""
    return _text(variant, name, "void")


def text_in_model(variant: Variant, name: str) -> str:
    """The C file of a variant's function, and of one that has this name and calls it.

    It is called as in a model: its constants are members of one object, whose address the compiler
    knows and builds into the function. Measured by pointers alone, the same function takes some
    percent more or fewer instructions. The caller takes pointers to the other parameters, in order;
    who runs it writes the constants to the object `constants_name(name)`, which has no bytes in the
    file.
    """
    params, constants = variant.function.params, constants_name(name)
    members = [
        f"    {C_TYPE[p.dtype]} {p.name}[{p.elements}] __attribute__((aligned({ALIGNMENT})));\n"
        f"    char after_{p.name}[{ROOM}];\n"
        for p in _members(variant.function)
    ]
    given = [f"{constants}.{p.name}" if p.scope == "constant" else p.name for p in params]
    taken = ", ".join(f"void *{p.name}" for p in params if p.scope != "constant")
    held = f"extern const struct {{\n{''.join(members)}}} {constants};" if members else ""
    size = sum(map(_member_bytes, _members(variant.function)))
    room = f'__asm__(".comm {constants}, {size}, {ALIGNMENT}");' if members else ""
    head = f"void {name}({taken})"
    caller = f"{head};\n{head} {{ {name}_step({', '.join(given)}); }}\n"
    step = _text(variant, f"{name}_step", "static void").rstrip().removesuffix("}")
    return "\n\n".join((f"{step}{_BARRIER}}}", held, room, caller))


def constants_name(name: str) -> str:
    """The object that holds the constants of a function by `text_in_model`."""
    return f"{name}_constants"


def constant_offsets(func: PrimFunc) -> dict[str, int]:
    """Byte offset of each constant in the object of `text_in_model`, by parameter."""
    offsets, end = {}, 0
    for param in _members(func):
        offsets[param.name] = end
        end += _member_bytes(param)
    return offsets


def _members(func: PrimFunc) -> list[Buffer]:
    return [param for param in func.params if param.scope == "constant"]


def _member_bytes(param: Buffer) -> int:
    size = param.elements * np.dtype(param.dtype).itemsize + ROOM
    return -(-size // ALIGNMENT) * ALIGNMENT


def _text(variant: Variant, name: str, kind: str) -> str:
    known = {
        param: range_class(array.dtype.name, int(array.min()), int(array.max()))
        for param, array in variant.constants.items()
        if _has_range(array)
    }
    function = emit_function(variant.function, name, known=known)
    helpers = (piece.text for piece in needed_functions([function.text]))
    # A function of its own, as the steps of a model are.
    alone = function.text.replace("static void", f"__attribute__((noinline)) {kind}", 1)
    declared = "".join(f"{text}\n" for text in sorted(_prototypes(variant)))
    own = alone[: alone.index(")\n{" if ")\n{" in alone else ") {") + 1] + ";"
    return "\n\n".join((HEAD + declared, *helpers, own, alone)) + "\n"


def _prototypes(variant: Variant) -> set[str]:
    """Return prototypes of the user's functions that it calls."""
    calls = [s for s in statements(variant.function.body) if isinstance(s, Call)]
    theirs = [call for call in calls if find_source(call.callee) is not None]
    return {prototype(call, C_TYPE.__getitem__) for call in theirs}


def _has_range(array: Array) -> bool:
    return bool(array.size) and array.dtype.name in INT_RANGE
