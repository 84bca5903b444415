"""Decide what runs: one point of the front of memory against instructions.

| optimize | takes |
|---|---|
| time | the fewest instructions |
| balanced | the smallest need within BALANCED_SLOWDOWN of the fewest instructions |
| ram | the smallest need within RAM_SLOWDOWN |
| size | single groups in the variants that need the least |

A limit of the arena comes before that: then the fastest point within it. The plan of the whole run
can need more than its hungriest step; so the plans of a few points are made, and the best is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgec.errors import PlanError, ScheduleError
from edgec.graph.ir import Function
from edgec.memory.cover import Cover, pareto_front
from edgec.memory.layout import ARENA, placement_problem
from edgec.memory.pieces import Pieces
from edgec.memory.places import settle_places
from edgec.memory.reorder import best_order, orders
from edgec.memory.segments import Segments
from edgec.memory.solve import plan_memory
from edgec.options import Options
from edgec.passes.lower_groups import LoweredGroup, Variant
from edgec.targets.target import Target

#: Instructions of `balanced` and of `ram`, at most, as parts of those of `time`, by estimate. Those
#: of rows are some tenths of a percent too high beside those of single layers: measured, it is the
#: 3 % that are promised. `ram` leaves room up to its 12 %.
BALANCED_SLOWDOWN = 1.031
RAM_SLOWDOWN = 1.1
#: `balanced` streams where that saves this part of the arena and this many bytes; it takes code.
LEAST_SAVING = 1 / 3
LEAST_SAVED_BYTES = 4096
#: Points of the front whose plans are made.
MOST_PLANS = 3
#: Placements that are tried for such a plan.
TRIAL_NODES = 4_000


@dataclass(frozen=True)
class FrontPoint:
    """A point of the front. segments: first and last group of each that streams."""

    need_bytes: int
    instructions: int
    segments: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Choice:
    """The groups as they run, streaming segments as one each, and a variant of each.

    front: all points that there were; taken: the number of the one that was chosen, None if it
    was not chosen from these. is_complete: the front is of all segments; else of the shorter ones.
    """

    groups: tuple[LoweredGroup, ...]
    variants: tuple[Variant, ...]
    front: tuple[FrontPoint, ...]
    taken: int | None
    is_complete: bool = True


def choose(
    function: Function,
    groups: Sequence[LoweredGroup],
    policy: Target,
    options: Options,
    *,
    limit_bytes: int | None = None,
) -> Choice:
    """Choose order, variants and segments; `limit_bytes` is for the arena.

    Orders of the groups in which fewer bytes live at once are tried beside the given one.
    """
    found = _best(function, groups, policy, options, limit_bytes)
    if found is None:  # single groups always run, so the input is to be fed
        raise PlanError(
            "the input cannot be fed by rows: they do not follow each other in a closed form",
            hint="build with --io arena or --io caller",
        )
    return found[1]


def streamed_if_smaller(
    function: Function,
    groups: Sequence[LoweredGroup],
    policy: Target,
    options: Options,
    alone: Sequence[Variant],
) -> Choice:
    """`alone`, a variant of each group; or what streams, if that saves enough."""
    unchanged = Choice(tuple(groups), tuple(alone), (), None)
    if options.unfused:
        return unchanged
    before = peak_bytes(function, groups, alone, options)
    worth_bytes = before - max(LEAST_SAVED_BYTES, math.ceil(LEAST_SAVING * before))
    if worth_bytes < 0:
        return unchanged
    found = _best(function, groups, policy, options, None, worth_bytes)
    if found is None:
        return unchanged
    after, best = found
    streams = best.taken is not None and bool(best.front[best.taken].segments)
    return best if streams and after <= worth_bytes else unchanged


def _best(
    function: Function,
    groups: Sequence[LoweredGroup],
    policy: Target,
    options: Options,
    limit_bytes: int | None,
    worth_bytes: int | None = None,
) -> tuple[int, Choice] | None:
    """The peak of the plan, and the choice, for the best order; None if there is none.

    Covers that need more than `worth_bytes` are left out.
    """
    best: tuple[int, Choice] | None = None
    segments = Segments(groups, policy, options)
    for ordered in orders(function, groups):
        found = _choose(function, ordered, segments, options, limit_bytes, worth_bytes)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
        if options.optimize == "time":
            break
    if best is None:
        return None
    # What streams leaves other steps the hungriest, so another order may be good now.
    choice = best[1]
    order = best_order(function, choice.groups, choice.variants)
    if order == tuple(range(len(order))):
        return best
    running = tuple(choice.groups[i] for i in order)
    chosen = settle_places(function, running, [choice.variants[i] for i in order], io=options.io)
    peak = peak_bytes(function, running, chosen, options)
    return (peak, replace(choice, groups=running, variants=chosen)) if peak < best[0] else best


def peak_bytes(
    function: Function,
    groups: Sequence[LoweredGroup],
    variants: Sequence[Variant],
    options: Options,
) -> int:
    """What the arena of such a run takes."""
    problem = placement_problem(function, groups, variants, io=options.io)
    nodes = min(TRIAL_NODES, options.plan_nodes)
    return plan_memory(problem, node_limit=nodes).peak_bytes[ARENA]


def _choose(
    function: Function,
    groups: Sequence[LoweredGroup],
    segments: Segments,
    options: Options,
    limit_bytes: int | None,
    worth_bytes: int | None = None,
) -> tuple[int, Choice] | None:
    """The peak of the plan, and the choice, for the groups in this order, if there is one."""
    pieces = Pieces(function, groups, segments.members(groups), io=options.io)
    if options.io == "rows":
        _require_rows(function, pieces)
    front = pareto_front(pieces)
    points = tuple(
        FrontPoint(
            cover.need_bytes,
            cover.instructions,
            tuple((p.first, p.last) for p in cover.pieces if p.variant is None),
        )
        for cover in front
    )
    best: tuple[int, Choice] | None = None
    for cover in _candidates(pieces, front, options, limit_bytes):
        if best is not None and limit_bytes is None and cover.need_bytes >= best[0]:
            break
        if worth_bytes is not None and cover.need_bytes > worth_bytes:
            continue
        try:
            running, chosen = _built(pieces, cover, segments)
        except ScheduleError:
            continue  # rows that follow each other in no closed form
        chosen = settle_places(function, running, chosen, io=options.io)
        peak = peak_bytes(function, running, chosen, options)
        taken = front.index(cover) if cover in front else None
        if best is None or peak < best[0]:
            best = peak, Choice(running, chosen, points, taken, pieces.is_complete)
        if options.optimize == "time" or (limit_bytes is not None and peak <= limit_bytes):
            break
    return best


def _require_rows(function: Function, pieces: Pieces) -> None:
    """Raise PlanError unless the input can be fed by rows."""
    if len(function.inputs) != 1:
        raise PlanError(
            f"--io rows is for models with one input, this one has {len(function.inputs)}",
            hint="build with --io arena or --io caller",
        )
    if not pieces.starting or not pieces.starting[0]:
        first = pieces.groups[0].group.name if pieces.groups else "the model"
        raise PlanError(
            f"the input cannot be fed by rows: {first} does not take an image row by row",
            hint="build with --io arena or --io caller",
        )


def _candidates(
    pieces: Pieces, front: Sequence[Cover], options: Options, limit_bytes: int | None
) -> list[Cover]:
    """Covers worth planning, the most wanted first; the last one has no segments."""
    alone = [_singles(pieces, least=options.optimize == "size")]
    if options.optimize == "size":
        wanted = alone
    elif options.optimize == "time":
        wanted = [front[0], *alone]
    else:
        slowdown = BALANCED_SLOWDOWN if options.optimize == "balanced" else RAM_SLOWDOWN
        within = [c for c in front if c.instructions <= slowdown * front[0].instructions]
        paying = [c for c in within if _pays(c, within)]
        wanted = [*reversed(paying[-MOST_PLANS:]), *alone]
    if limit_bytes is None:
        return wanted
    fitting = [cover for cover in wanted if cover.need_bytes <= limit_bytes]
    fitting += [cover for cover in front if cover.need_bytes <= limit_bytes][:MOST_PLANS]
    return fitting or [front[-1], *alone]


def _pays(cover: Cover, others: Sequence[Cover]) -> bool:
    """Whether it saves at least the part of memory that it costs in instructions."""
    return all(
        cover.instructions * other.need_bytes + cover.need_bytes * other.instructions
        <= 2 * other.instructions * other.need_bytes
        for other in others
        if other.instructions < cover.instructions
    )


def _singles(pieces: Pieces, *, least: bool) -> Cover:
    """No segments: the variants that need the least, or the fastest."""
    path = []
    for starting in pieces.starting:
        own = [piece for piece in starting if piece.variant is not None] or starting
        path.append(
            min(own, key=lambda p: (p.need_bytes, 0) if least else (p.instructions, p.need_bytes))
        )
    need = max((piece.need_bytes for piece in path), default=0)
    return Cover(tuple(path), need, sum(piece.instructions for piece in path))


def _built(
    pieces: Pieces, cover: Cover, segments: Segments
) -> tuple[tuple[LoweredGroup, ...], tuple[Variant, ...]]:
    """The groups of a cover and their variants."""
    groups, variants = [], []
    for piece in cover.pieces:
        if piece.variant is not None:
            groups.append(pieces.groups[piece.first])
            variants.append(piece.variant)
        else:
            inside = pieces.groups[piece.first : piece.last + 1]
            fed = pieces.is_fed(piece.first)
            groups.append(segments.build(inside, piece.work_bytes, fed=fed))
            variants.append(groups[-1].variants[0])
    return tuple(groups), tuple(variants)
