"""The parts that a network can be cut into: single groups in one variant, and streaming segments.

A span is consecutive groups that run as one step; a cover is spans that together have all groups
once. The bytes that a span needs do not depend on the other spans: its inputs, outputs and scratch,
and the values that live across it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from edgec.errors import PlanError
from edgec.graph.ir import Function, Value
from edgec.loop.microkernel import get_microkernel
from edgec.memory.bound import apart_bytes, lower_bound_bytes, stacked_bytes
from edgec.memory.layout import (
    ALIGN_BYTES,
    ARENA,
    lifetimes,
    outside_values,
    scratch_align_bytes,
    scratch_distances,
    value_aligns,
    variant_distances,
)
from edgec.memory.problem import Buffer, Overlap, Problem, Region
from edgec.memory.row_flow import SOURCE, Flow, FlowMember, row_flow
from edgec.memory.solve import plan_memory
from edgec.options import Io
from edgec.passes.fuse_groups import storage
from edgec.passes.lower_groups import LoweredGroup, Variant
from edgec.passes.row_functions import RowGroup, RowSum

#: Instructions of a call of a row function, apart from its computation.
CALL_INSTRUCTIONS = 60
#: The price of a segment's code when covers are compared, as a fraction of all instructions:
#: streaming must save enough memory to be worth its code.
SEGMENT_SHARE = 0.01
#: Partial plans that the memory planner visits for one step alone.
EXACT_NODES = 1_500
#: Members of all segments that are considered in one network, counted once for each segment.
MOST_MEMBERS = 500_000


@dataclass
class Span:
    """Groups `first` to `last` as one step: a group in one `variant`, or a streaming segment.

    work_bytes: the most scratch of a member. instructions: an estimate. code: the price of its code
    in instructions.
    """

    first: int
    last: int
    instructions: int
    buffers: tuple[Buffer, ...]
    overlaps: tuple[Overlap, ...]
    variant: Variant | None = None
    work_bytes: int = 0
    code: int = 0
    exact_bytes: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if len({overlap.first for overlap in self.overlaps}) == 1:
            self.exact_bytes = stacked_bytes(self.buffers, self.overlaps)
        elif not self.overlaps:
            self.exact_bytes = apart_bytes(self.buffers)

    @cached_property
    def bound_bytes(self) -> int:
        """A lower bound of the bytes that the step needs."""
        return lower_bound_bytes(self.buffers, self.overlaps)

    @property
    def need_bytes(self) -> int:
        """The bytes that the step needs, or their lower bound before it is planned."""
        return self.bound_bytes if self.exact_bytes is None else self.exact_bytes

    def plan_alone(self) -> int:
        """The bytes that a memory plan of the step alone needs."""
        if self.exact_bytes is None:
            problem = Problem(self.buffers, self.overlaps, (Region(ARENA),))
            try:
                plan = plan_memory(problem, node_limit=EXACT_NODES)
                self.exact_bytes = plan.peak_bytes[ARENA]
            except PlanError:
                self.exact_bytes = self.bound_bytes
        return self.exact_bytes


class Spans:
    """All spans of a network, by their first group.

    is_complete: MOST_MEMBERS left no segment out. limit_bytes: no segments are made if every cover
    needs more than this, since scheduling their rows takes long.
    """

    def __init__(
        self,
        function: Function,
        groups: Sequence[LoweredGroup],
        members: Mapping[int, RowGroup | RowSum],
        *,
        io: Io = "arena",
        limit_bytes: float = math.inf,
    ) -> None:
        self.function = function
        self.groups = groups
        self.members = members
        self.roots = storage(function)
        self.aligns = value_aligns(function, self.roots)
        self.start, self.stop = lifetimes(function, groups, self.roots)
        self.io = io
        self.outside = outside_values(function, self.roots, io)
        self.kept = self.outside | {self.roots.get(v, v) for v in function.results}
        self.states = {v for state in function.states for v in (state.before, state.after)}
        self.viewed = set(self.roots.values()) | set(self.roots)
        self.position = {v: i for i, g in enumerate(groups) for v in g.group.outputs}
        self._live = self._live_at()
        self._buffers = {
            v: Buffer(v.name, v.type.nbytes, 0, 1, self.aligns[v], (ARENA,))
            for v in self.start if v not in self.outside
        }  # fmt: skip
        self._readers = Counter(v for member in members.values() for v in member.inputs)
        self._replaceable: dict[int, tuple[Value, ...]] = {}
        self.starting: list[list[Span]] = [self.singles(i) for i in range(len(groups))]
        fastest = [min(own, key=lambda p: (p.instructions, p.need_bytes)) for own in self.starting]
        #: Bytes of single groups at their fastest: a segment that needs more is useless.
        self.most_bytes = max((span.need_bytes for span in fastest), default=0)
        fewest = sum(min(p.instructions for p in own) for own in self.starting)
        self.segment_code = round(SEGMENT_SHARE * fewest)
        if io == "rows":
            self.starting[0] = []  # only a group that takes the input by rows can be first
        self._best: dict[tuple[int, int], Variant] = {}
        self._useful: dict[int, frozenset[int]] = {}
        self.is_complete = not self.may_stay_within(limit_bytes) or self._add_segments()

    def may_stay_within(self, limit_bytes: float) -> bool:
        """Whether some cover may fit in the limit, by bounds that need no scheduled segments."""
        if limit_bytes == math.inf:
            return True
        is_reached = [True] + [False] * len(self.groups)
        for first, own in enumerate(self.starting):
            if not is_reached[first]:
                continue
            is_reached[first + 1] |= any(span.need_bytes <= limit_bytes for span in own)
            for last, flow in self.segments(first):
                if flow is None:
                    continue
                if self.rows_bytes(first, last, flow) > limit_bytes:
                    break
                needed = sum(b.size_bytes for b in self.live(first, last))
                is_reached[last + 1] |= needed <= limit_bytes
        return is_reached[-1]

    def _add_segments(self) -> bool:
        """Add all segments, the short ones first; False if MOST_MEMBERS left some out."""
        growing = {first: self.scheduled(first) for first in range(len(self.groups))}
        looked_at = 0
        while growing:
            for first, longer in list(growing.items()):
                found = next(longer, None)
                if found is None:
                    del growing[first]
                    continue
                self.starting[first] += found
                looked_at += sum(span.last - first + 1 for span in found)
                if looked_at > MOST_MEMBERS:
                    return False
        return True

    def is_fed(self, first: int) -> bool:
        """Whether the segment that starts here takes the model's input by rows."""
        return self.io == "rows" and first == 0

    # the live buffers of a step
    # --------------------------------------------------------------------

    def live(self, first: int, last: int) -> list[Buffer]:
        """Values that other groups make and that live while groups `first` to `last` run."""
        return [
            self._buffers[v]
            for v in self._live[first]
            if not first <= self.position.get(v, -1) <= last
        ]

    def _live_at(self) -> list[list[Value]]:
        """The values in the arena at each step, in the order of `start`."""
        found: list[list[Value]] = [[] for _ in self.groups]
        for value in self.start:
            if value not in self.outside:
                for step in range(self.start[value], min(self.stop[value], len(found))):
                    found[step].append(value)
        return found

    def outputs(self, last: int) -> list[Buffer]:
        """The results of group `last` that lie in the arena."""
        return [
            self._buffers[value]
            for value in self.groups[last].group.outputs
            if value not in self.outside
        ]

    def dies(self, value: Value, last: int) -> bool:
        """Whether the last use of the value's bytes is at this step."""
        root = self.roots.get(value, value)
        return self.stop[root] <= last + 1 and root not in self.kept

    # single groups ----------------------------------------------------------------------------

    def singles(self, position: int) -> list[Span]:
        """A span for each variant of a group."""
        lowered = self.groups[position]
        name = lowered.group.output.name
        spans = []
        for variant in lowered.variants:
            scratch = [
                Buffer(
                    f"scratch.{place.name}",
                    place.size_bytes,
                    0,
                    1,
                    scratch_align_bytes(variant, place),
                    (ARENA,),
                )
                for place in variant.scratch
            ]
            buffers = (*self.live(position, position), *self.outputs(position), *scratch)
            overlaps: list[Overlap] = []
            if lowered.group.output not in self.outside:
                distances = variant_distances(variant, lowered.group.output, self.roots)
                distances |= {self.roots.get(v, v): 0 for v in variant.in_place}
                overlaps += [
                    Overlap(root.name, name, distance)
                    for root, distance in distances.items()
                    if self.dies(root, position)
                ]
            overlaps += [
                Overlap(root.name, f"scratch.{place}", distance)
                for (place, root), distance in scratch_distances(variant, self.roots).items()
                if self.dies(root, position)
            ]
            spans.append(
                Span(position, position, variant.instructions, buffers, tuple(overlaps), variant)
            )
        return spans

    # segments ---------------------------------------------------------------------------------

    def scheduled(self, first: int) -> Iterator[list[Span]]:
        """Segments that start at a group, by their length: two groups or more, or one that is fed.

        It ends with the first segment whose rows alone take more than `most_bytes`.
        """
        for last, flow in self.segments(first):
            if flow is not None and self.rows_bytes(first, last, flow) > self.most_bytes:
                return
            yield [] if flow is None else self.streams(first, last, flow)

    def segments(self, first: int) -> Iterator[tuple[int, Flow | None]]:
        """The last group of each segment that starts at `first`, and how its rows follow."""
        if first not in self.members or isinstance(self.members[first], RowSum):
            return
        source = self.members[first].inputs[0]
        if self.is_fed(first) and source not in self.function.inputs:
            return
        known = {source}
        flow_members: list[FlowMember] = []
        last_use = self.stop[source] if self.is_fed(first) else 0
        for last in range(first, len(self.groups)):
            if last not in self.members:
                return
            if last > first and known.isdisjoint(self.members[last].inputs):
                return
            flow_members.append(self.flow_member(first, last))
            output = self.groups[last].group.output
            if last > first or self.is_fed(first):
                is_whole = last_use <= last + 1 and output not in self.states
                yield last, self.flow(first, flow_members) if is_whole else None
            if isinstance(self.members[last], RowSum) or output in self.kept | self.viewed:
                return
            known.add(output)
            last_use = max(last_use, self.stop[output])

    def flow(self, first: int, members: Sequence[FlowMember]) -> Flow | None:
        """The order in which a segment's rows are computed; None if it cannot stream."""
        shape = self.members[first].inputs[0].type
        return row_flow(tuple(members), shape.shape[1], shape.nbytes // shape.shape[1])

    def rows_bytes(self, first: int, last: int, flow: Flow) -> int:
        """Bytes of the kept rows and of the values that live beside them; none of them overlap."""
        outputs = (self.groups[i].group.output.type for i in range(first, last))
        rows = sum(
            n * t.nbytes // t.shape[1] for n, t in zip(flow.rows, outputs, strict=False) if n
        )
        source = self.members[first].inputs[0]
        root = self.roots.get(source, source)
        return rows + sum(b.size_bytes for b in self.live(first, last) if b.name != root.name)

    def flow_member(self, first: int, position: int) -> FlowMember:
        """`row_flow`'s description of a member of a segment that starts with group `first`."""
        member = self.members[position]
        source = self.members[first].inputs[0]
        made = {v: p - first for v in member.inputs if (p := self.position.get(v, -1)) >= first}
        numbers = {**made, source: SOURCE}
        reads = tuple(numbers[v] for v in member.inputs if v in numbers)
        replaced = next((made[v] for v in self._replaced(position) if v in made), None)
        shape = self.groups[position].group.output.type
        window = member.window
        return FlowMember(
            window.reach, window.stride, window.top, member.rows,
            shape.nbytes // max(shape.shape[1], 1), reads, isinstance(member, RowSum), replaced,
        )  # fmt: skip

    def _replaced(self, position: int) -> tuple[Value, ...]:
        """Values of the segment whose rows a member's output rows may overwrite."""
        if position not in self._replaceable:
            member = self.members[position]
            found: tuple[Value, ...] = ()
            if isinstance(member, RowGroup):
                found = tuple(
                    v
                    for v in reversed(member.inputs)
                    if self._readers[v] == 1
                    and member.is_alike(v)
                    and member.may_replace(v, member.lowered(member.middle).variants[0])
                )
            self._replaceable[position] = found
        return self._replaceable[position]

    def streams(self, first: int, last: int, flow: Flow) -> list[Span]:
        """The segment with each limit of its members' scratch that makes it faster."""
        limits = {0}.union(*(self.useful_scratch(i) for i in range(first, last + 1)))
        spans: list[Span] = []
        for limit in sorted(limits):
            span = self.stream(first, last, flow, limit)
            if not spans or span.instructions < spans[-1].instructions:
                spans.append(span)
        return spans

    def useful_scratch(self, position: int) -> frozenset[int]:
        """Sizes of scratch at which a faster variant of a member's rows becomes possible."""
        if position not in self._useful:
            member = self.members[position]
            found: set[int] = set()
            if isinstance(member, RowGroup):
                variants = member.lowered(member.middle).variants
                fewest = math.inf
                for variant in sorted(variants, key=lambda v: (v.scratch_bytes, v.instructions)):
                    if variant.instructions < fewest:
                        fewest = variant.instructions
                        found.add(variant.scratch_bytes)
            self._useful[position] = frozenset(found)
        return self._useful[position]

    def fastest_row(self, position: int, member: RowGroup, work_bytes: int) -> Variant:
        """The fastest variant of a member's inner rows whose scratch is within `work_bytes`."""
        key = position, work_bytes
        if key not in self._best:
            variants = member.lowered(member.middle).variants
            self._best[key] = fastest_within(variants, work_bytes)
        return self._best[key]

    def least_instructions(self, span: Span) -> int:
        """Instructions of the members' inner rows; rows at the edges are not scheduled yet."""
        total = 0
        for i in range(span.first, span.last + 1):
            member = self.members[i]
            if isinstance(member, RowGroup):
                kind = member.middle
                row = self.fastest_row(i, member, span.work_bytes)
                total += (kind.stop - kind.start) * row.instructions
        return total

    def stream(self, first: int, last: int, flow: Flow, work_bytes: int) -> Span:
        """The segment in which each member has at most `work_bytes` of scratch."""
        source = self.members[first].inputs[0]
        root = self.roots.get(source, source)
        is_last = self.dies(source, last) and root not in self.outside
        buffers = [*self.live(first, last), *self.outputs(last)]
        overlaps: list[Overlap] = []
        instructions = work = 0
        work_ahead = -source.type.nbytes

        def add(name: str, size: int, distance: int | None) -> None:
            buffers.append(Buffer(name, size, 0, 1, ALIGN_BYTES, (ARENA,)))
            if is_last and distance is not None and distance < size:
                overlaps.append(Overlap(root.name, name, distance))

        if self.is_fed(first):
            row_bytes = source.type.nbytes // source.type.shape[1]
            add("rows.input", flow.source_rows * row_bytes, None)
        for i in range(first, last + 1):
            member, at = self.members[i], i - first
            value = self.groups[i].group.output.type
            instructions += CALL_INSTRUCTIONS * member.rows
            if isinstance(member, RowSum):
                accumulator = next(p for p in member.start.params if p.name == "out")
                add("sum", accumulator.elements * 4, None)
                instructions += min(v.instructions for v in self.groups[i].variants)
                continue
            best = self.fastest_row(i, member, work_bytes)
            instructions += best.instructions * member.rows
            if best.scratch_bytes:
                work = max(work, best.scratch_bytes)
                work_ahead = max(work_ahead, best.scratch_bytes + flow.scratch_distances[at])
            if i < last:
                row_bytes = value.nbytes // member.rows
                kept = flow.rows[at]
                if not kept:
                    continue  # its rows are replaced
                add(f"rows.{i}", kept * row_bytes, flow.distances[at])
                moved = get_microkernel("ec_move_rows_s8").instructions
                if kept > 1 and moved is not None:
                    instructions += round(moved(rows=kept, row=row_bytes)) * member.rows
        if work:
            add("work", work, work_ahead)
        out = self.groups[last].group.output
        if is_last and out not in self.outside and flow.distances[-1] < out.type.nbytes:
            overlaps.append(Overlap(root.name, out.name, flow.distances[-1]))
        return Span(
            first, last, instructions, tuple(buffers), tuple(overlaps), work_bytes=work_bytes,
            code=self.segment_code,
        )  # fmt: skip


def fastest_within(variants: Sequence[Variant], work_bytes: int) -> Variant:
    """The fastest variant within the limit of scratch, or the one with the least scratch."""
    within = [v for v in variants if v.scratch_bytes <= work_bytes]
    if not within:
        return min(variants, key=lambda v: (v.scratch_bytes, v.instructions))
    return min(within, key=lambda v: (v.instructions, v.scratch_bytes))
