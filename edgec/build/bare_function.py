"""The C file of a variant's function by itself."""

from __future__ import annotations

from edgec.build.bare_image import HEAD
from edgec.codegen.c_function import emit_function
from edgec.codegen.c_types import C_TYPE, INT_RANGE
from edgec.codegen.ranges import range_class
from edgec.codegen.runtime_source import needed_functions
from edgec.graph.types import Array
from edgec.loop.foreign import find_source, prototype
from edgec.loop.ir import Call
from edgec.loop.rewrite import statements
from edgec.passes.lower_groups import Variant


def c_text(variant: Variant, name: str) -> str:
    """The C file of a variant's function, which has this name."""
    known = {
        param: range_class(array.dtype.name, int(array.min()), int(array.max()))
        for param, array in variant.constants.items()
        if _has_range(array)
    }
    function = emit_function(variant.function, name, known=known)
    helpers = (piece.text for piece in needed_functions([function.text]))
    # A function of its own, as the steps of a model are.
    alone = function.text.replace("static void", "__attribute__((noinline)) void", 1)
    declared = "".join(f"{text}\n" for text in sorted(_prototypes(variant)))
    own = alone[: alone.index(")\n{" if ")\n{" in alone else ") {") + 1] + ";"
    return "\n\n".join((HEAD + declared, *helpers, own, alone)) + "\n"


def _prototypes(variant: Variant) -> set[str]:
    """Of the functions of the user's that it calls."""
    calls = [s for s in statements(variant.function.body) if isinstance(s, Call)]
    theirs = [call for call in calls if find_source(call.callee) is not None]
    return {prototype(call, C_TYPE.__getitem__) for call in theirs}


def _has_range(array: Array) -> bool:
    return bool(array.size) and array.dtype.name in INT_RANGE
