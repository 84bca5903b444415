"""What `edgec tune` found, as variants of a group's menu.

1. Variants whose functions were measured cost what was measured, in proportion: the first that was
   measured keeps its estimate, so that what was not measured can be compared.
2. A winner's trace is replayed on the nest as its operators define it. It comes first: the file has
   only what took fewer instructions than all that the rules offered. `balanced` is offered those
   that take hardly more memory than the first of the rules'.

A trace is data that somebody gave us: it may use only primitives that keep the meaning of every
nest, whatever its constants are, and padding of floats where these allow it. What does not fit the
nest is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgec.errors import EdgecError
from edgec.loop.lowering import Lowering
from edgec.loop.printer import print_func
from edgec.loop.rescale_lines import by_line
from edgec.loop.schedule import SAFE, replay
from edgec.passes.lower_groups import LoweredGroup, Variant, lowering_of, variant_of
from edgec.targets.common.gathered import padding_adds_nothing
from edgec.targets.common.nests import find_param
from edgec.targets.target import Target
from edgec.tuned import Figures, TunedGroup, Winner, digest

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
    """What stands for the nest of a group in a file."""
    return digest(print_func(lowering_of(lowered.group)[0].build()))


def with_tuned(lowered: LoweredGroup, target: Target) -> LoweredGroup:
    """The group with what the options' file knows of its nest; `size` is not what it is for."""
    tuned = target.options.tuned
    if not tuned.groups or target.options.prices.is_small:
        return lowered
    found = tuned.of_nest(nest_digest(lowered))
    if found is None:
        return lowered
    variants = lowered.variants
    per_instruction = _scale(variants, found.figures)
    if per_instruction is None:
        return lowered
    made = (_made(lowered, winner, found, per_instruction) for winner in found.winners)
    # What weighs bytes takes what needs hardly more of them.
    takes_all = not target.options.prices.weighs_weights
    taken = [v for v in made if v is not None and (takes_all or is_frugal(v, variants[0]))]
    measured = (_measured(v, found.figures, per_instruction) for v in variants)
    return replace(lowered, variants=(*taken, *measured))


def _made(
    lowered: LoweredGroup, winner: Winner, found: TunedGroup, per_instruction: float
) -> Variant | None:
    """The variant of a winner; None where it is no better than the default, or does not fit."""
    figures = _better(found, winner)
    variant = None if figures is None else _variant(lowered, winner)
    if figures is None or variant is None:
        return None
    return replace(
        variant, instructions=round(per_instruction * figures.instructions), is_tuned=True
    )


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


def _better(found: TunedGroup, winner: Winner) -> Figures | None:
    """A winner's figures, if it takes fewer instructions than the default."""
    figures, default = found.figures.get(winner.made), found.figures.get(found.default)
    is_better = figures and default and figures.instructions < default.instructions
    return figures if is_better else None


def _scale(variants: tuple[Variant, ...], figures: Mapping[str, Figures | None]) -> float | None:
    """Estimated instructions for each that was measured, of the first variant that was."""
    for variant in variants:
        found = figures.get(digest(print_func(variant.function)))
        if found is not None and found.instructions:
            return variant.instructions / found.instructions
    return None


def _measured(
    variant: Variant, figures: Mapping[str, Figures | None], per_instruction: float
) -> Variant:
    found = figures.get(digest(print_func(variant.function)))
    if found is None:
        return variant
    return replace(variant, instructions=round(per_instruction * found.instructions))


def _variant(lowered: LoweredGroup, winner: Winner) -> Variant | None:
    """What a winner's trace makes; None where it does not fit, or is not safe."""
    if len(winner.trace) > MOST_CHARACTERS or not _is_safe(winner.trace):
        return None
    try:
        lowering, values = lowering_of(lowered.group)
        func, tables = by_line(
            lowering.build(), lowering.tables, lowering.accumulators, winner.rescaling
        )
        schedule = replay(func, winner.trace)
        if any(step.primitive in PADDING for step in schedule.trace) and not _may_pad(lowering):
            return None
        variant = variant_of(schedule, tables, values)
    except (EdgecError, AttributeError):  # a step with arguments that are not its own
        return None
    return variant if variant.code_bytes <= MOST_CODE_BYTES else None


def _may_pad(lowering: Lowering) -> bool:
    """Whether products of padding change no sum: alone of floats that depends on constants."""
    return padding_adds_nothing(find_param(lowering.build(), "x").dtype, lowering.tables)


def _is_safe(trace: str) -> bool:
    try:
        return bool(steps := json.loads(trace)) and all(_keeps_meaning(step) for step in steps)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False


def _keeps_meaning(step: list[Any]) -> bool:
    """Whether a step of a trace cannot change what a nest means."""
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
