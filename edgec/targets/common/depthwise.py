"""Depthwise convolution in plain loops: one channel after the other, on a padded copy of it."""

from __future__ import annotations

from edgec.loop.in_place import in_place_inputs, row_bytes
from edgec.loop.ir import Buffer, Const, IndexValue, Select, Store
from edgec.loop.rewrite import loops_of, statements, subexpressions
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import decompose, find_param, gather_temporaries, output_loops
from edgec.targets.common.per_element import MOST_STRAIGHT, window_loops


def schedule_planes(schedule: Schedule, straight: bool) -> None:
    """Each channel: copy its plane, then all its outputs; the weights stay where they are.

    Two neighbouring outputs are computed at once where the width is even, since they share most
    of their inputs.
    """
    func = schedule.func
    x, out, weights, plane = (find_param(func, name) for name in ("x", "out", "w", "plane"))
    batch, height, width, channel = output_loops(func, "out", "out")
    schedule.reorder(batch, channel, height, width)
    each = out.shape[3] // x.shape[3]
    outer = schedule.split(channel, each)[0] if each > 1 else channel
    is_straight = straight and weights.elements // weights.shape[0] <= MOST_STRAIGHT
    place, lane = width, None
    if is_straight and out.shape[2] % 2 == 0:
        place, lane = schedule.split(width, 2)
    gather_temporaries(schedule, place, apart=("plane",))
    schedule.compute_at("plane", outer, scope="scratch")
    window = window_loops(schedule.func)
    # Operations between the sums and the output, such as the offset of a table.
    follows = [name for name in loops_of(schedule.func.body) if name == "element_d2"]
    if lane is not None:
        schedule.reorder(*window, "acc_w")
    decompose(schedule, "acc")
    if is_straight:
        lanes = (lane, "acc_w", "acc_w_init", *follows) if lane is not None else ()
        for loop in (*window, *lanes):
            schedule.unroll(loop)
    schedule.simplify()
    schedule.in_place = in_place_inputs(schedule.func)
    schedule.row_bytes = row_bytes(schedule.func)
    gather_plane(schedule, x, plane)


def gather_plane(schedule: Schedule, x: Buffer, plane: Buffer) -> None:
    """Let the microkernel fill the plane; x, plane: as they were before the first step."""
    func = schedule.func
    store = next(
        s for s in statements(func.body) if isinstance(s, Store) and s.buffer.name == "plane"
    )
    loops = [name for name in loops_of(func.body) if name.startswith("plane_")]
    if not loops or not isinstance(store.value, Select):
        return
    row, _, column, _ = (
        e.term for e in subexpressions(store.value.condition) if isinstance(e, IndexValue)
    )
    fill = store.value.no
    assert isinstance(fill, Const)
    _, height, width, step = x.shape
    _, _, rows, columns = plane.shape
    sizes = {
        "height": height, "width": width, "step": step,
        "top": -row.offset, "left": -column.offset,
        "plane_height": rows, "plane_width": columns, "fill": int(fill.value),
    }  # fmt: skip
    kernel = {"int8": "ec_gather_plane_s8", "int16": "ec_gather_plane_s16"}[x.dtype]
    schedule.tensorize(loops[0], kernel, sizes)
