"""The parts of a network's segments, computed once for all orders of groups and all covers.

Row functions and the loops of a segment do not depend on what runs before or after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgec.errors import ScheduleError
from edgec.graph.ir import Value
from edgec.memory.spans import fastest_within
from edgec.options import Options
from edgec.passes.lower_groups import LoweredGroup
from edgec.passes.row_functions import RowGroup, RowSum, row_members
from edgec.passes.stream_groups import Member, stream_segment
from edgec.targets.target import Target

#: Groups of a segment, keyed by their results.
Key = tuple[Value, ...]


class Segments:
    """Members of segments, and segments of them; nothing is made twice."""

    def __init__(self, groups: Sequence[LoweredGroup], policy: Target, options: Options) -> None:
        is_whole = options.unfused or policy.core.has_gpu
        made = {} if is_whole else row_members([g.group for g in groups], policy)
        self._members = {groups[i].group.output: member for i, member in made.items()}
        self._built: dict[tuple[Key, int, bool], LoweredGroup | ScheduleError] = {}

    def members(self, groups: Sequence[LoweredGroup]) -> dict[int, RowGroup | RowSum]:
        """Return, by position, the groups in this order that can run row by row."""
        outputs = enumerate(g.group.output for g in groups)
        return {i: self._members[output] for i, output in outputs if output in self._members}

    def build(self, groups: Sequence[LoweredGroup], work_bytes: int, *, fed: bool) -> LoweredGroup:
        """The segment of these groups; each member's scratch is at most `work_bytes`.

        Raises ScheduleError where the order of the members' rows has no closed form.
        """
        key = tuple(g.group.output for g in groups), work_bytes, fed
        if key not in self._built:
            try:
                self._built[key] = stream_segment(self._chosen(key[0], work_bytes), fed=fed)
            except ScheduleError as error:
                self._built[key] = error
        found = self._built[key]
        if isinstance(found, ScheduleError):
            raise found
        return found

    def _chosen(self, outputs: Key, work_bytes: int) -> list[Member]:
        members = []
        for output in outputs:
            rows = self._members[output]
            chosen = {}
            if isinstance(rows, RowGroup):
                for kind in rows.kinds:
                    chosen[kind] = fastest_within(rows.lowered(kind).variants, work_bytes)
            members.append(Member(rows, chosen))
        return members
