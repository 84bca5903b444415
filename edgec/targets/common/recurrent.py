"""Layers with a memory in plain loops: sums in registers, where they are used."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.loop.primitives.lookup import reduce_vars
from edgec.loop.rewrite import blocks_of, loops_of
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.targets.common.nests import decompose, find_param, largest_divisor
from edgec.targets.common.sums import Kind
from edgec.targets.rule import Nest

GATES = 4

#: Prefixes of the names of constants that rescale.
FACTORS = ("multiplier", "shift")


def is_lstm(nest: Nest) -> bool:
    """Whether gates are sums of products with the inputs and with the layer's own last result."""
    return {"own", "given", "gates"} <= blocks_of(nest.func.body).keys()


def is_gru(nest: Nest) -> bool:
    """Whether gates open, and a state moves as far as they let it."""
    return {"own", "given", "opened"} <= blocks_of(nest.func.body).keys()


def is_recurrence(nest: Nest) -> bool:
    """Whether sums are products with the inputs, and with the layer's own last result."""
    return {"own", "given"} <= blocks_of(nest.func.body).keys()


def is_filter(nest: Nest) -> bool:
    """Whether it computes the dot products of the filters' memories."""
    return nest.sums is not None and nest.sums.kind is Kind.FILTERS and "acc" in nest.temporaries


def schedule_filters(schedule: Schedule, straight: int) -> None:
    """Each sum in a register, where it is used; `straight` products at a time.

    for out_d1 in 0..80 {                          for out_d1 in 0..80 {
      acc[out_d1] = bias[out_d1]                     sum = bias[out_d1]
      for acc_k in 0..20 {                           for acc_k_o in 0..5 {
        acc[out_d1] = acc[out_d1] + ...     ->         sum = sum + ...      four times
    """
    schedule.compute_at("acc", "out_d1")
    decompose(schedule, "acc")
    taps = find_param(schedule.func, "w").elements // find_param(schedule.func, "bias").elements
    _in_line(schedule, "acc_k", taps, straight)


def schedule_lstm(schedule: Schedule, straight: int, tables: Mapping[str, Array]) -> None:
    """The four gates of a unit share every input: four sums in registers, one load."""
    if "given_gates" in blocks_of(schedule.func.body):
        schedule.compute_inline("given_gates")
    for name in ("own", "given"):
        _gates_in_line(schedule, name, "gates_c", straight)
    if straight > 1:
        schedule.unroll("gates_g")
        _factors_in_code(schedule, tables)


def schedule_gru(schedule: Schedule, straight: int) -> None:
    """The gates of a unit share every input, and each unit's state follows its gates.

    Where the reset gate comes before the product, the third gate is a loop after the other two.
    """
    names = blocks_of(schedule.func.body).keys()
    first = "opened_c" if "own_new" in names else "hidden_c"
    schedule.compute_at("new_argument", "hidden_c")
    if first != "opened_c":
        schedule.compute_at("opened", first)
    schedule.compute_at("argument", first)
    hosts = {"own": first, "given": first, "own_new": "hidden_c", "given_new": "hidden_c"}
    for name in names & hosts.keys():
        _gates_in_line(schedule, name, hosts[name], straight)
    if straight > 1:
        schedule.unroll("argument_g")
        schedule.unroll("opened_g")


def schedule_recurrence(schedule: Schedule, straight: int) -> None:
    """The gates of a unit share every input: their sums in registers, one load.

    for own_c in 0..96 {                          for own_c in 0..96 {
      for own_g in 0..2 {                           sums[0..2] = 0
        own[own_c, own_g] = 0                       for own_k in 0..96 {
        for own_k in 0..96 {                ->        sums[0] = sums[0] + ...
          own[own_c, own_g] = ...                     sums[1] = sums[1] + ...
    } } }                                           }
                                                    own[own_c, ..] = sums[..]
                                                  }
    """
    sums = [name for name, block in blocks_of(schedule.func.body).items() if reduce_vars(block)]
    for name in sums:
        copy = schedule.cache_write(name, f"{name}_c")
        _share_inputs(schedule, name)
        _straight(schedule, name, straight)
        if straight > 1 and f"{copy}_d2" in loops_of(schedule.func.body):
            schedule.unroll(f"{copy}_d2")


def gates_at_once(schedule: Schedule, name: str, loop: str) -> None:
    """The sums of a unit's gates where they are used, input after input."""
    schedule.compute_at(name, loop)
    _share_inputs(schedule, name)


def _share_inputs(schedule: Schedule, name: str) -> None:
    """Let the gates of a unit be the innermost loop."""
    loops = loops_of(schedule.func.body)
    if f"{name}_k" not in loops or f"{name}_g" not in loops:  # one input, or one gate
        decompose(schedule, name)
        return
    schedule.decompose_reduction(name, f"{name}_g")
    schedule.reorder(f"{name}_k", f"{name}_g")


def _gates_in_line(schedule: Schedule, name: str, loop: str, straight: int) -> None:
    """The same in straight code: of few gates more inputs."""
    gates_at_once(schedule, name, loop)
    _straight(schedule, name, straight)


def _straight(schedule: Schedule, name: str, straight: int) -> None:
    loops = loops_of(schedule.func.body)
    gates = loops[f"{name}_g"].stop.offset if f"{name}_g" in loops else 1
    for inner in {f"{name}_g", f"{name}_g_init"} & loops.keys():
        schedule.unroll(inner)
    if (inputs := loops.get(f"{name}_k")) is not None:
        _in_line(schedule, f"{name}_k", inputs.stop.offset, min(straight, 2 if gates > 2 else 4))


def _factors_in_code(schedule: Schedule, tables: Mapping[str, Array]) -> None:
    """The gates' multipliers and shifts: each is read at one place."""
    for name, table in tables.items():
        if name.startswith(FACTORS) and table.shape == (GATES,):
            schedule.inline_constant(name, table.tolist())


def _in_line(schedule: Schedule, loop: str, steps: int, straight: int) -> None:
    factor = largest_divisor(steps, straight)
    if factor > 1:
        _, inner = schedule.split(loop, factor)
        schedule.unroll(inner)
