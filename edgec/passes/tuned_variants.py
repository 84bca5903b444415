"""The winners of `edgec tune`, as variants of a group's menu.

1. Measured variants cost their measurement, in proportion: the first measured one keeps its
   estimate, so that variants without a measurement stay comparable.
2. A winner's trace is replayed on the nest as its operators define it. It comes first: the file has
   only traces with fewer instructions than all variants of the rules. `balanced` considers traces
   that take hardly more memory than the rules' first variant. It takes a trace shipped with edgec
   only if that needs no more bytes of any kind, since the user did not ask for it.

A trace is untrusted data: it may use only primitives that keep the meaning of every nest with any
constants, and padding of floats if the constants allow it. A trace that does not fit the nest is
ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import Any

from edgec.errors import EdgecError
from edgec.loop.in_place import in_place_inputs
from edgec.loop.ir import PrimFunc, remembered
from edgec.loop.lowering import Lowering
from edgec.loop.printer import print_func
from edgec.loop.rescale_lines import by_line
from edgec.loop.schedule import SAFE, replay
from edgec.loop.tuned import Figures, TunedGroup, Winner, digest
from edgec.passes.fuse_groups import Group
from edgec.passes.lower_groups import LoweredGroup, Variant, lowering_of, plain_nest, variant_of
from edgec.targets.common.gathered import padding_adds_nothing
from edgec.targets.common.nests import find_param
from edgec.targets.target import Target

#: How loops may run.
KINDS = frozenset({"serial", "unrolled"})
#: Primitives that let sums go over padding.
PADDING = frozenset({"pad_copy", "pad_reads"})
#: How the names of kernels begin that copy inputs, and read no constants.
COPYING = "ec_gather_"
#: Bytes that count as hardly more memory: this part of the largest input or output, or this count.
ROOM, LEAST_ROOM = 1 / 16, 64
#: Where a block's result may lie that is computed inside a loop.
SCOPES = (None, "register", "scratch")
#: Characters of a trace, bytes of the code that it makes, and any number in it, at most.
MOST_CHARACTERS, MOST_CODE_BYTES, MOST_NUMBER = 50_000, 100_000, 1 << 16


def nest_digest(lowered: LoweredGroup) -> str:
    """The key of a group's nest in a file."""
    return function_digest(lowered.nest or plain_nest(lowered.group))


@remembered
def function_digest(func: PrimFunc) -> str:
    """The key of a function in a file."""
    return digest(print_func(func))


def with_tuned(lowered: LoweredGroup, target: Target) -> LoweredGroup:
    """The group with the tuned traces of its nest, unless small size is the objective."""
    tuned, prices = target.options.tuned, target.options.prices
    if not (tuned.groups or tuned.shipped) or prices.is_small:
        return lowered
    nest = nest_digest(lowered)
    found, ours = tuned.of_nest(nest), tuned.shipped_of(nest)
    if found is not None:
        # Objectives with a price on bytes take only traces that need hardly more of them.
        is_any, first = not prices.weighs_weights, lowered.variants[0]
        return _offered(lowered, found, lambda made, _: is_any or is_frugal(made, first))
    return lowered if ours is None else _with_shipped(lowered, ours, is_fast=prices.is_fast)


def _with_shipped(lowered: LoweredGroup, ours: TunedGroup, *, is_fast: bool) -> LoweredGroup:
    """`time` takes any winner. Other levels keep the menu's costs, since the user did not ask for
    the file; the winners that need no more bytes of any kind come first.
    """
    first = lowered.variants[0]
    base = _figures(first, ours)
    if base is None:
        return lowered
    if is_fast:
        return _offered(lowered, ours, lambda made, _: True)
    lean = _offered(lowered, ours, lambda made, n: is_leaner(n, base) and is_lean(made, first))
    added = lean.variants[: -len(lowered.variants)]
    return replace(lowered, variants=(*added, *lowered.variants))


def _offered(
    lowered: LoweredGroup, found: TunedGroup, takes: Callable[[Variant, Figures], bool]
) -> LoweredGroup:
    """The menu, with measured costs, and with those winners that it takes."""
    per_instruction = _scale(lowered.variants, found)
    if per_instruction is None:
        return lowered
    taken = []
    for winner in found.winners:
        figures = _better(lowered, found, winner)
        variant = None if figures is None else replayed(lowered.group, winner)
        if figures is not None and variant is not None and takes(variant, figures):
            count = round(per_instruction * figures.instructions)
            taken.append(replace(variant, instructions=count, is_tuned=True))
    measured = (_measured(v, found, per_instruction) for v in lowered.variants)
    return replace(lowered, variants=(*taken, *measured))


def is_frugal(variant: Variant, other: Variant) -> bool:
    """Whether it takes hardly more memory than another variant: scratch, and its output may take
    over the bytes of the same inputs nearly as soon.
    """
    bytes_of = {v.name: v.type.nbytes for v in variant.args if v is not None}
    room = max(LEAST_ROOM, int(ROOM * max(bytes_of.values(), default=0)))
    if variant.scratch_bytes > other.scratch_bytes + room:
        return False
    own = {value.name: distance for value, distance in variant.overlaps}
    return all(
        value.name in own and own[value.name] <= distance + room
        for value, distance in other.overlaps
    )


def is_leaner(figures: Figures, other: Figures) -> bool:
    """Whether measured code, stack and scratch are not more than another's."""
    if figures.stack_bytes is None or other.stack_bytes is None:
        return False
    return (
        figures.code_bytes <= other.code_bytes
        and figures.stack_bytes <= other.stack_bytes
        and figures.scratch_bytes <= other.scratch_bytes
    )


def is_lean(variant: Variant, other: Variant) -> bool:
    """Whether constants, and where the output may lie, ask for no more memory than another's.

    Nothing is lean beside a kernel: other layers share it.
    """
    if other.callees or any(s.primitive == "tensorize" for s in other.schedule.trace):
        return False
    if variant.constant_bytes > other.constant_bytes:
        return False
    own = {value.name: distance for value, distance in variant.overlaps}
    return all(own.get(value.name, distance + 1) <= distance for value, distance in other.overlaps)


def _better(lowered: LoweredGroup, found: TunedGroup, winner: Winner) -> Figures | None:
    """A winner's figures, if it takes fewer instructions than all of the rules' that have some."""
    figures = found.figures.get(winner.made)
    others = [_figures(variant, found) for variant in lowered.variants]
    least = min((each.instructions for each in others if each), default=0)
    return figures if figures and figures.instructions < least else None


def _figures(variant: Variant, found: TunedGroup) -> Figures | None:
    return found.figures.get(function_digest(variant.function))


def _scale(variants: tuple[Variant, ...], found: TunedGroup) -> float | None:
    """Estimated instructions for each that was measured, of the first variant that was."""
    for variant in variants:
        figures = _figures(variant, found)
        if figures is not None and figures.instructions:
            return variant.instructions / figures.instructions
    return None


def _measured(variant: Variant, found: TunedGroup, per_instruction: float) -> Variant:
    figures = _figures(variant, found)
    if figures is None:
        return variant
    return replace(variant, instructions=round(per_instruction * figures.instructions))


def replayed(group: Group, winner: Winner) -> Variant | None:
    """The variant that a trace makes of a group; None if it does not fit or is not safe."""
    if len(winner.trace) > MOST_CHARACTERS or not _is_safe(winner.trace):
        return None
    try:
        lowering, values = lowering_of(group)
        func, tables = by_line(
            lowering.build(), lowering.tables, lowering.accumulators, winner.rescaling
        )
        schedule = replay(func, winner.trace)
        schedule.in_place = _in_place(func, winner.trace)
        if any(step.primitive in PADDING for step in schedule.trace) and not _may_pad(lowering):
            return None
        variant = variant_of(schedule, tables, values)
    except (EdgecError, AttributeError):  # a step with arguments that are not its own
        return None
    return variant if variant.code_bytes <= MOST_CODE_BYTES else None


def _in_place(func: PrimFunc, trace: str) -> tuple[str, ...]:
    """The inputs whose places the output may take: seen before kernels copy them."""
    steps = json.loads(trace)
    plain = [*takewhile(lambda step: step[0] != "tensorize", steps)]
    if any(name != "tensorize" for name, *_ in steps[len(plain) :]):
        return ()
    return in_place_inputs(replay(func, json.dumps(plain)).func)


def _may_pad(lowering: Lowering) -> bool:
    """Whether products of padding change no sum: alone of floats that depends on constants."""
    return padding_adds_nothing(find_param(lowering.build(), "x").dtype, lowering.tables)


def _is_safe(trace: str) -> bool:
    try:
        return bool(steps := json.loads(trace)) and all(_keeps_meaning(step) for step in steps)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False


def _keeps_meaning(step: list[Any]) -> bool:
    """Whether a step of a trace cannot change the meaning of a nest."""
    name, args, *_ = step
    if args.get("scope") not in SCOPES or not _is_plain(step):
        return False
    if name == "set_kind":
        return args["kind"] in KINDS
    if name == "tensorize":
        return str(args["kernel"]).startswith(COPYING)
    return name in SAFE


def _is_plain(value: Any) -> bool:
    """Whether it is of texts and whole numbers: half a step would leave elements out."""
    if isinstance(value, (list, dict)):
        return all(map(_is_plain, value.values() if isinstance(value, dict) else value))
    is_number = type(value) is int and abs(value) <= MOST_NUMBER
    return is_number or value is None or isinstance(value, str)
