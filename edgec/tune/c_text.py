"""The C file of a candidate."""

from __future__ import annotations

from edgec.codegen.c_function import emit_function
from edgec.codegen.c_types import INT_RANGE
from edgec.codegen.ranges import range_class
from edgec.codegen.runtime_source import needed_functions
from edgec.graph.types import Array
from edgec.passes.lower_groups import Variant
from edgec.tune.image import HEAD


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
    return "\n\n".join((HEAD, *helpers, alone)) + "\n"


def _has_range(array: Array) -> bool:
    return bool(array.size) and array.dtype.name in INT_RANGE
