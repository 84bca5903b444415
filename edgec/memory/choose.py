"""Choose the order of the groups, a variant of each, and the streaming segments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from edgec.errors import PlanError, ScheduleError
from edgec.graph.ir import Function
from edgec.memory.bound import lower_bound_bytes
from edgec.memory.cover import Cover, pareto_front
from edgec.memory.exchange import Costs, Variants, exchanged
from edgec.memory.layout import placement_problem
from edgec.memory.objective import Fact, Objective, Rank, Tally, make_objective, without_frames
from edgec.memory.reorder import best_order, orders
from edgec.memory.segments import Segments
from edgec.memory.spans import Spans
from edgec.options import Options
from edgec.passes.lower_groups import LoweredGroup, Variant
from edgec.targets.target import Target

#: Points of a front that are planned.
MOST_STARTS = 4
#: Scratch between values has to make the code this many times as fast, too.
MUCH_FASTER = 2.0
#: Streaming takes a kilobyte or so of code: it has to save this much of the arena.
LEAST_SAVED_BYTES = 4096

Groups = tuple[LoweredGroup, ...]


@dataclass(frozen=True)
class FrontPoint:
    """A point of the front. segments: first and last group of each that streams."""

    need_bytes: int
    instructions: int
    segments: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Choice:
    """The groups in order of execution, each streaming segment as one group, and a variant of each.

    front: all points; taken: the number of the chosen one, None if the choice is not a point.
    is_complete: the front covers all segments, not only the shorter ones.
    """

    groups: tuple[LoweredGroup, ...]
    variants: tuple[Variant, ...]
    front: tuple[FrontPoint, ...]
    taken: int | None
    is_complete: bool = True


@dataclass(frozen=True)
class _Found:
    """A choice that was planned."""

    rank: Rank
    costs: Costs
    variants: Variants
    front: tuple[FrontPoint, ...] = ()
    taken: int | None = None
    is_complete: bool = True


def choose(
    function: Function,
    groups: Sequence[LoweredGroup],
    target: Target,
    options: Options,
    *,
    limit_bytes: int | None = None,
) -> tuple[Rank, Choice]:
    """The cheapest choice found, and its rank.

    limit_bytes: of the arena. Also tries orders of the groups in which fewer bytes live at once.
    Raises PlanError where rows cannot be fed.
    """
    choosing = _Choosing(function, tuple(groups), target, options, limit_bytes)
    found = choosing.best()
    if found is None:  # single groups always run, so the input is to be fed
        raise PlanError(
            "the input cannot be fed by rows: no formula states when each row is needed",
            hint="build with --io arena or --io caller",
        )
    running = tuple(found.costs.groups)
    return found.rank, Choice(running, found.variants, found.front, found.taken, found.is_complete)


def choose_alone(
    function: Function, groups: Sequence[LoweredGroup], target: Target, options: Options
) -> Variants:
    """A variant of each group, in the order given, where nothing streams."""
    found = _Choosing(function, tuple(groups), target, options, None).alone(tuple(groups))
    assert found is not None
    return found.variants


class _Choosing:
    """The data that all choices for one function share."""

    def __init__(
        self, function: Function, groups: Groups, target: Target, options: Options,
        limit_bytes: int | None,
    ) -> None:  # fmt: skip
        self.function, self.groups, self.options = function, groups, options
        self.prices = prices = options.prices
        self.is_fed = options.io == "rows"
        #: Where fast schedules need little more than others, nothing is spent to save memory.
        spends = target.core.has_pairs or not prices.least_gain
        self.streams = self.is_fed or (spends and prices.ram > 0 and not options.unfused)
        self.is_limited = limit_bytes is not None and not options.unfused
        self.segments = Segments(groups, target, options)
        limit = self.arena_limit(limit_bytes)
        slowdown = prices.slowdown if spends else 1.0
        self.objective: Objective = make_objective(
            groups, prices, limit, slowdown, self.plain_bytes()
        )

    def arena_limit(self, limit_bytes: int | None) -> float:
        """The caller's limit of the arena, or the level's default limit."""
        if limit_bytes is not None:
            return limit_bytes
        return self.values_bytes() if self.prices.least_gain else math.inf

    def plain_bytes(self) -> float:
        """The least that single groups take without kernels that rescale on an FPU."""
        io = "arena" if self.is_fed else self.options.io
        if not self.prices.frames:
            return 0
        spans = Spans(self.function, tuple(map(without_frames, self.groups)), {}, io=io)
        return max((min(p.need_bytes for p in own) for own in spans.starting), default=0)

    def values_bytes(self) -> float:
        """The bytes of values without any scratch; no limit where that costs much time."""
        function, io, groups = self.function, self.options.io, self.groups
        plain = [min(g.variants, key=lambda v: v.scratch_bytes) for g in groups]
        values = lower_bound_bytes(placement_problem(function, groups, plain, io=io).buffers)
        spans = Spans(function, groups, {}, io="arena" if self.is_fed else io)
        values = max([values, *(min(p.need_bytes for p in own) for own in spans.starting)])
        within = sum(
            min(p.instructions for p in own if p.need_bytes <= values) for own in spans.starting
        )
        fewest = sum(min(v.instructions for v in g.variants) for g in groups)
        is_dear = within >= max(MUCH_FASTER * fewest, fewest + self.prices.least_gain)
        return math.inf if is_dear else values

    def best(self) -> _Found | None:
        """The best of all orders, with single groups and with segments that stream."""
        ordered = orders(self.function, self.groups)
        found = None if self.is_fed else _least(self.alone(order) for order in ordered)
        if self.streams or self.is_over(found):
            found = self.with_streams(ordered, found)
        return None if found is None else self.reordered(found)

    def is_over(self, alone: _Found | None) -> bool:
        """Whether single groups need more than the caller's limit."""
        return self.is_limited and alone is not None and alone.rank[0] > 0

    def most_streamed(self, alone: _Found | None) -> float:
        """The need of a cover at most, so that streaming saves enough beside single groups."""
        if alone is None or self.is_over(alone) or not self.prices.least_streamed:
            return math.inf
        peak = alone.costs.peak_bytes(alone.variants)
        return peak - max(LEAST_SAVED_BYTES, math.ceil(self.prices.least_streamed * peak))

    def with_streams(self, ordered: Sequence[Groups], alone: _Found | None) -> _Found | None:
        """The best of single groups and of segments in these orders; it has a front of segments."""
        most = self.most_streamed(alone)
        streams = [self.streamed(order, most, alone) for order in ordered] if most >= 0 else []
        found, known = _least([alone, *streams]), _least(streams)
        if found is None or known is None or found.front:
            return found
        return replace(found, front=known.front, is_complete=known.is_complete)

    def reordered(self, found: _Found) -> _Found:
        """Try another order: with streaming, other steps have the peak."""
        groups, variants = found.costs.groups, found.variants
        order = best_order(self.function, groups, variants)
        if order == tuple(range(len(order))):
            return found
        costs = self.costs(tuple(groups[i] for i in order))
        moved = self.exchanged(
            replace(found, costs=costs, variants=tuple(variants[i] for i in order))
        )
        return found if moved is None or found.rank <= moved.rank else moved

    def costs(self, groups: Groups) -> Costs:
        return Costs(self.function, groups, self.objective, self.options.io)

    def exchanged(self, start: _Found) -> _Found | None:
        """A choice after all moves that make it cheaper."""
        rank = start.costs.rank(start.variants)
        if rank is None:
            return None
        rank, variants = exchanged(start.costs, start.variants, rank)
        return replace(start, rank=rank, variants=variants)

    def alone(self, groups: Groups) -> _Found | None:
        """The best choice of single groups in this order."""
        costs, starts = self.costs(groups), list[Variants]()
        plain = tuple(map(without_frames, groups))
        is_same = all(a is b for a, b in zip(groups, plain, strict=True))
        for menus in (groups,) if is_same else (groups, plain):
            spans = Spans(self.function, menus, {}, io=self.options.io)
            covers = sorted(pareto_front(spans), key=partial(self.expected, groups))
            starts += [_singles(cover) for cover in covers[:MOST_STARTS]]
        if not self.prices.time:
            starts.append(tuple(min(g.variants, key=_flash) for g in groups))
        found: list[_Found] = []
        for variants in {tuple(map(id, variants)): variants for variants in starts}.values():
            rank = costs.rank(variants)
            found += [] if rank is None else [_Found(rank, costs, variants)]
        best = _least(found)
        return None if best is None else self.exchanged(best)

    def streamed(self, groups: Groups, most_bytes: float, alone: _Found | None) -> _Found | None:
        """The best choice with segments of these groups, among covers within this limit.

        The choice without segments, with the front, if all covers are certainly worse.
        """
        spans = Spans(
            self.function, groups, self.segments.members(groups), io=self.options.io,
            limit_bytes=most_bytes,
        )  # fmt: skip
        if self.is_fed:
            _require_rows(self.function, spans)
        front = pareto_front(spans)
        within = [cover for cover in front if cover.need_bytes <= most_bytes]
        covers = self.worth_building(spans, within, alone)
        best = _least(islice(self.planned(spans, covers, front), MOST_STARTS))
        if best is not None:
            return self.exchanged(best)
        if alone is None or len(covers) == len(within):
            return None
        points = tuple(map(_point, front))
        return replace(alone, front=points, is_complete=spans.is_complete)

    def planned(
        self, spans: Spans, covers: Iterable[Cover], front: Sequence[Cover]
    ) -> Iterator[_Found]:
        """These covers of a front, built and planned, where that can be."""
        points = tuple(map(_point, front))
        for cover in covers:
            try:
                running, variants = self.built(spans, cover)
            except ScheduleError:
                continue  # rows that follow each other in no closed form
            costs = self.costs(running)
            rank = costs.rank(variants)
            if rank is not None:
                taken = front.index(cover)
                yield _Found(rank, costs, variants, points, taken, spans.is_complete)

    def worth_building(
        self, spans: Spans, covers: list[Cover], alone: _Found | None
    ) -> list[Cover]:
        """The covers that may be better than single groups; the most promising comes first."""
        if alone is not None and alone.rank[:2] == (0, 0):
            covers = [cover for cover in covers if not self.is_too_slow(spans, cover)]
        return sorted(covers, key=partial(self.expected, spans.groups))

    def is_too_slow(self, spans: Spans, cover: Cover) -> bool:
        """Whether segments surely take more instructions beyond the fewest than may be spent."""
        over = -self.objective.slack
        for span in cover.spans:
            if span.variant is None:
                # Once it is built, the fewest are scaled as the estimate of its own was wrong.
                fewest = self.fact(spans.groups[span.first : span.last + 1]).fewest
                share = 1 - fewest / max(span.instructions, 1)
                most = 2 * span.instructions
                over += share * (spans.least_instructions(span) if share > 0 else most)
        return over > 0

    def expected(self, groups: Sequence[LoweredGroup], cover: Cover) -> Rank:
        """The expected rank of a cover, before its segments are built."""
        tally = Tally(self.objective, _singles(cover))
        for span in cover.spans:
            if span.variant is None:
                tally.stream(span.instructions, self.fact(groups[span.first : span.last + 1]))
        return self.objective.rank(tally, cover.need_bytes)

    def built(self, spans: Spans, cover: Cover) -> tuple[Groups, Variants]:
        groups, variants = list[LoweredGroup](), list[Variant]()
        for span in cover.spans:
            if span.variant is not None:
                groups.append(spans.groups[span.first])
                variants.append(span.variant)
                continue
            inside = spans.groups[span.first : span.last + 1]
            fed = spans.is_fed(span.first)
            groups.append(self.segments.build(inside, span.work_bytes, fed=fed))
            variants.append(groups[-1].variants[0])
            fact = self.fact(inside)
            # The estimates of row loops and of their layers differ slightly.
            fewest = fact.fewest * variants[-1].instructions / max(span.instructions, 1)
            self.objective.facts[id(variants[-1].constants)] = replace(fact, fewest=fewest)
        return tuple(groups), tuple(variants)

    def fact(self, members: Sequence[LoweredGroup]) -> Fact:
        """The fact about a segment of these groups."""
        facts = [[self.objective.fact(v) for v in g.variants] for g in members]
        weights = sum(min(fact.weights_bytes for fact in own) for own in facts)
        return Fact(weights, sum(min(v.instructions for v in g.variants) for g in members), False)


def _least(found: Iterable[_Found | None]) -> _Found | None:
    """The best of the choices that are not None; the first of equals."""
    return min((f for f in found if f is not None), key=lambda f: f.rank, default=None)


def _singles(cover: Cover) -> Variants:
    return tuple(span.variant for span in cover.spans if span.variant is not None)


def _flash(variant: Variant) -> int:
    return variant.code_bytes + variant.constant_bytes


def _point(cover: Cover) -> FrontPoint:
    streams = tuple((p.first, p.last) for p in cover.spans if p.variant is None)
    return FrontPoint(cover.need_bytes, cover.instructions, streams)


def _require_rows(function: Function, spans: Spans) -> None:
    """Raise PlanError unless the input can be fed by rows."""
    if len(function.inputs) != 1:
        raise PlanError(
            f"--io rows is for models with one input, this one has {len(function.inputs)}",
            hint="build with --io arena or --io caller",
        )
    if not spans.starting or not spans.starting[0]:
        first = spans.groups[0].group.name if spans.groups else "the model"
        raise PlanError(
            f"the input cannot be fed by rows: {first} does not take an image row by row",
            hint="build with --io arena or --io caller",
        )
