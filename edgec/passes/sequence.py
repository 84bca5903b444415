"""The passes before fusion, in order."""

from __future__ import annotations

from collections.abc import Callable

from edgec.graph.ir import Function
from edgec.numerics.fixed_point import Rounding
from edgec.passes.fold_constants import fold_constants
from edgec.passes.fold_limits import fold_limits
from edgec.passes.fold_padding import fold_padding
from edgec.passes.fold_scales import fold_scales, fold_stored_biases
from edgec.passes.fold_tables import fold_tables
from edgec.passes.fuse_norms import fuse_norms
from edgec.passes.fuse_qdq import fuse_qdq
from edgec.passes.narrow_accumulators import narrow_accumulators
from edgec.passes.plain_convolutions import plain_convolutions
from edgec.passes.simplify_views import simplify_views
from edgec.passes.sink_transposes import sink_transposes
from edgec.passes.trim_windows import trim_windows
from edgec.passes.uint8_to_int8 import uint8_to_int8

Pass = Callable[[Function, Rounding], Function]

#: In order, of main and of the bodies of its nodes. Each keeps the meaning: the reference
#: interpreter is the test.
PASSES: tuple[tuple[str, Pass], ...] = (
    ("uint8_to_int8", lambda function, rounding: uint8_to_int8(function)),
    ("sink_transposes", lambda function, rounding: sink_transposes(function)),
    ("fold_stored_biases", lambda function, rounding: fold_stored_biases(function)),
    ("fuse_norms", lambda function, rounding: fuse_norms(function, stored=True)),
    ("fuse_qdq", fuse_qdq),
    ("fold_limits", lambda function, rounding: fold_limits(function)),
    ("fold_constants", lambda function, rounding: fold_constants(function)),
    ("fold_scales", lambda function, rounding: fold_scales(function)),
    ("fold_tables", lambda function, rounding: fold_tables(function)),
    ("fold_padding", lambda function, rounding: fold_padding(function)),
    ("trim_windows", lambda function, rounding: trim_windows(function)),
    ("plain_convolutions", lambda function, rounding: plain_convolutions(function)),
    ("simplify_views", lambda function, rounding: simplify_views(function)),
    ("narrow_accumulators", lambda function, rounding: narrow_accumulators(function)),
)


def run_passes(function: Function, rounding: Rounding) -> Function:
    for _, run in PASSES:
        function = run(function, rounding)
    return function
