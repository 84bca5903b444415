"""Every primitive of a schedule shows its loops before and after, and is tried on random nests."""

import inspect
import re

import pytest
from test_bound import BINDING
from test_factor import FACTORING
from test_floor_sum import FLOORING
from test_halves import WIDENING
from test_hold_places import HOLDING
from test_primitives import PRIMITIVES
from test_recurrent_primitives import RECURRING
from test_roll import ROLLING
from test_share_rows import TOGETHER
from test_share_sum import SHARING
from test_shifts import SHIFTING
from test_slide import SLIDING
from test_steps import STEPPING
from test_tensorize import TENSORIZING
from test_warp_tiles import TILING
from test_whole_windows import WINDOWING
from test_winograd import IN_TILES

from edgec.loop import simplify as simplify_module
from edgec.loop.primitives import (
    barriers,
    cache,
    call_foreign,
    complement,
    compute_at,
    compute_inline,
    cut,
    factor,
    flatten,
    floor_sum,
    fold_offset,
    fold_storage,
    fuse_axes,
    gather,
    halves,
    hold_places,
    inline_constant,
    int4,
    layout,
    loops,
    reduction,
    reverse_compute_at,
    roll,
    run_once,
    sampling,
    share_rows,
    share_sum,
    shifts,
    slide,
    split_steps,
    spread,
    steps,
    storage,
    store_over,
    tensorize,
    warp_tiles,
    whole_windows,
    winograd,
)
from edgec.loop.schedule import Schedule

MODULES = (
    barriers, cache, call_foreign, complement, compute_at, compute_inline, cut, factor, flatten,
    fuse_axes,
    floor_sum, fold_offset, fold_storage, gather,
    halves, hold_places, inline_constant, layout, loops, int4, reduction,
    reverse_compute_at,
    roll, run_once, sampling, share_rows, share_sum, shifts,
    slide, split_steps, spread, steps, storage, store_over,
    tensorize, warp_tiles, whole_windows, winograd, simplify_module,
)  # fmt: skip
#: Other names for `set_kind`, and what is no primitive.
SHORT_NAMES = {"unroll", "vectorize", "parallel", "bind"}
OTHERS = {"trace_json", "table", "copy"}
METHODS = sorted(
    name
    for name, _ in inspect.getmembers(Schedule, inspect.isfunction)
    if not name.startswith("_") and name not in SHORT_NAMES | OTHERS
)


@pytest.mark.parametrize("name", METHODS)
def test_before_and_after_are_shown(name):
    (function,) = {getattr(module, name) for module in MODULES if hasattr(module, name)}
    text = inspect.getdoc(function) or ""
    # Before on the left, after on the right.
    assert re.search(r"\S {2,}-> {2,}", text, re.M), f"{name} does not show its loops"


def test_each_is_tried_on_random_nests():
    # Nothing is known of what a user's function computes: tests/unit/external compares.
    methods = {*METHODS} - {"call_foreign"}
    tried = {*PRIMITIVES, *SLIDING, *TENSORIZING, *WIDENING, *STEPPING, *SHIFTING, *ROLLING}
    tried |= {*WINDOWING, *BINDING, *FLOORING, *RECURRING, *TILING, *SHARING, *TOGETHER}
    tried |= {*IN_TILES, *HOLDING, *FACTORING}
    assert tried == methods
