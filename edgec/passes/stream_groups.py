"""A segment of consecutive groups as one step that runs row by row.

The driver is a PrimFunc that calls each member's row functions. It starts as one loop after the
other over whole values,

    for q in 0..H { the input's row q arrives }
    for r0 in 0..H0 { v0[r0] = conv(rows of x) }
    for r1 in 0..H1 { out[r1] = depthwise(rows of v0) }

and `slide` and `fold_storage` make it stream: every row is computed as soon as its last input row
exists, and values inside the segment keep only the rows that are still needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edgec.errors import ScheduleError
from edgec.graph.ir import Value
from edgec.graph.types import Array
from edgec.loop.cost import estimate
from edgec.loop.ir import (
    TRACE_PART,
    TRACE_ROW,
    Buffer,
    BufferRef,
    Call,
    Const,
    Expr,
    For,
    If,
    IndexValue,
    PrimFunc,
    Seq,
    Stmt,
)
from edgec.loop.move_rows import COPY, kernel_for
from edgec.loop.primitives.lookup import find_loop, with_changes
from edgec.loop.rewrite import ReplaceBuffer, sequence
from edgec.loop.schedule import Schedule
from edgec.numerics.term import Term, TermLike, Var, as_term, maximum
from edgec.passes.fuse_groups import Group
from edgec.passes.lower_groups import (
    LoweredGroup,
    RowPart,
    Scratch,
    Variant,
    scratch_parts,
    scratch_places,
)
from edgec.passes.row_functions import RowGroup, RowKind, RowSum, replaced_input

#: Name of the loop over the input's rows, and of its placeholder until others slide there.
ARRIVAL = "arrival"
#: Name of the parameter for one row of an input that is fed.
FED_ROW = "row"
#: The place of all members' own scratch: only one of them runs at a time.
WORK = "work"


@dataclass(frozen=True)
class Member:
    """A group of a segment, with a variant for each kind of its rows; sums have no variants."""

    rows: RowGroup | RowSum
    variants: Mapping[RowKind, Variant] = field(default_factory=dict)

    @property
    def output(self) -> Value:
        return self.rows.group.output


def stream_segment(members: Sequence[Member], *, fed: bool = False) -> LoweredGroup:
    """Make the segment one group with one variant.

    With `fed`, the input does not exist as a whole: the function takes one row of it at a time,
    and its number as an index, and keeps the rows that it needs.

    The first member's first input arrives by rows; other outer inputs are complete, and only the
    last member's output is visible outside. Raises ScheduleError if the order of the members' rows
    has no closed form.
    """
    return _Segment(members, fed).build()


class _Segment:
    def __init__(self, members: Sequence[Member], fed: bool) -> None:
        self.members = members
        self.fed = fed
        self.made = {member.output: i for i, member in enumerate(members)}
        self.source = members[0].rows.inputs[0]
        self.result = members[-1].output
        self.shown = [m.output for m in members[:-1] if m.output.origin is not None]
        self.buffers: dict[Value, Buffer] = {}
        self.constants: dict[str, tuple[Buffer, Array]] = {}
        self.scratch: dict[str, Buffer] = {}
        self.scratch_at: dict[str, int] = {}
        self.callees: dict[str, PrimFunc] = {}
        self.sums: list[Buffer] = []

    def build(self) -> LoweredGroup:
        func = self.plain()
        schedule = Schedule(func)
        for number, member in enumerate(self.members):
            self.slide(schedule, number, member)
        reaches: dict[str, int] = {}
        for member in self.members:
            for value in member.rows.inputs:
                buffer = self.buffers[value]
                if buffer.scope == "scratch":
                    reach = max(member.rows.window.reach, reaches.get(buffer.name, 1))
                    reaches[buffer.name] = reach
        for name, reach in reaches.items():
            schedule.fold_storage(name, contiguous=reach > 1)
        function = _one_arrival(schedule.func) if self.fed else _without_arrival(schedule.func)
        function = self.with_shared_scratch(function)
        runs = self.source.type.shape[1] if self.fed else 1
        group = self.group()
        variant = Variant(
            schedule=schedule,
            function=function,
            args=tuple(self.value_of(p) for p in function.params),
            constants={name: array for name, (_, array) in self.constants.items()},
            scratch=self.scratch_buffers(function),
            instructions=round(runs * estimate(function, callees=self.callees).instructions),
            callees=self.callees,
            parts=tuple(self.part(n, member) for n, member in enumerate(self.members)),
            rows=tuple(self.shown),
        )
        return LoweredGroup(group, (variant,))

    def group(self) -> Group:
        nodes = tuple(node for m in self.members for node in m.rows.group.nodes)
        own = {value for node in nodes for value in node.outputs}
        inputs = dict.fromkeys(v for m in self.members for v in m.rows.group.inputs)
        return Group(nodes, tuple(v for v in inputs if v not in own))

    def value_of(self, param: Buffer) -> Value | None:
        if param.scope != "arena":
            return None
        if param == self.buffers[self.result]:
            return self.result
        if param.name == FED_ROW:
            return self.source
        return next(v for v, b in self.buffers.items() if b.name == param.name)

    def share(self) -> None:
        """Let rows overwrite the rows that they are computed from, where that is possible."""
        readers = Counter(v for m in self.members for v in m.rows.inputs)
        inside = {m.output for m in self.members[:-1]}
        for member in reversed(self.members):
            if not isinstance(member.rows, RowGroup):
                continue
            variant = member.variants[member.rows.middle]
            value = replaced_input(member.rows, variant, inside, readers)
            if value is not None:
                self.buffers[value] = self.buffers[member.output]

    # the plain nests --------------------------------------------------------------------------

    def plain(self) -> PrimFunc:
        """The driver before it streams: a loop for each member, over whole values."""
        outside = self.group().activations
        for number, value in enumerate(outside):
            scope = "scratch" if self.fed and value is self.source else "arena"
            self.buffers[value] = _rows_of(value, "x" if number == 0 else f"x{number + 1}", scope)
        for number, member in enumerate(self.members):
            last = number + 1 == len(self.members)
            name, scope = ("out", "arena") if last else (f"v{number}", "scratch")
            self.buffers[member.output] = _rows_of(member.output, name, scope)
        self.share()
        x = self.buffers[self.source]
        q = Var(ARRIVAL, 0, x.shape[0])
        arrives = Call(ARRIVAL, (_row(x, as_term(q), 1, "writes"),))
        if self.fed:
            row = Buffer(FED_ROW, (1, x.shape[1]), x.dtype, "arena")
            size = Const(x.shape[1], "int32")
            into = _row(x, as_term(q), 1, "writes")
            arrives = Call(kernel_for(x.dtype, COPY), (_row(row, 0, 1, "reads"), into, size))
        nests: list[Stmt] = [For(q, as_term(0), as_term(x.shape[0]), "serial", arrives)]
        for number, member in enumerate(self.members):
            r = Var(f"r{number}", 0, member.rows.rows)
            body = self.row(number, member, r)
            nests.append(For(r, as_term(0), as_term(member.rows.rows), "serial", body))
        total = self.members[-1].rows
        if isinstance(total, RowSum):
            nests = [self.sum_call(total, total.start), *nests, self.sum_call(total, total.finish)]
            nests.append(_part_end(len(self.members) - 1))
        buffers = dict.fromkeys(self.buffers.values())
        out = self.buffers[self.result]
        arena = [b for b in buffers if b.scope == "arena" and b != out] + [out]
        if self.fed:
            arena = [row, *arena]
        rolling = [b for b in buffers if b.scope == "scratch"]
        rolling += self.sums
        constants = [buffer for buffer, _ in self.constants.values()]
        params = (*arena, *constants, *rolling, *self.scratch.values())
        return PrimFunc("stream", params, (), Seq(tuple(nests)))

    def row(self, number: int, member: Member, r: Var) -> Stmt:
        """Compute one row by the function of its kind; then call the trace hooks."""
        if isinstance(member.rows, RowSum):
            return Seq((self.sum_call(member.rows, member.rows.add, r), _part_end(number)))
        stmt: Stmt | None = None
        for kind in reversed(member.rows.kinds):
            call = self.call(number, member.rows, member.variants[kind], kind, r)
            stmt = call if stmt is None else If(as_term(r), as_term(kind.stop), call, stmt)
        assert stmt is not None
        if member.output not in self.shown:
            return Seq((stmt, _part_end(number)))
        made = _row(self.buffers[member.output], as_term(r), 1, "reads")
        which = Const(len(self.members) + self.shown.index(member.output), "int32")
        shown = Call(TRACE_ROW, (which, made, IndexValue(as_term(r))))
        return Seq((stmt, _part_end(number), shown))

    def call(self, number: int, rows: RowGroup, variant: Variant, kind: RowKind, r: Var) -> Call:
        edge = _edge(rows, kind)
        first = maximum(as_term(r) * rows.window.stride - rows.window.top, 0)
        output = rows.group.output
        by_name = {value.name: value for value in (*rows.inputs, output)}
        args: list[BufferRef | Expr] = []
        places, _ = scratch_places(variant.function)
        for param, value in zip(variant.function.params, variant.args, strict=True):
            name = f"{param.name}_{number}{edge}"
            if value is not None:
                buffer = self.buffers[by_name[value.name]]
                if value.name == output.name:
                    args.append(_row(buffer, as_term(r), 1, "writes"))
                else:
                    args.append(_row(buffer, first, rows.slab_rows(kind), "reads"))
            elif param.scope == "constant":
                array = variant.constants[param.name]
                args.append(_whole(self.constant(name, param, array)))
            else:
                flat = Buffer(name, (param.elements,), param.dtype, "scratch")
                own = self.scratch.setdefault(name, flat)
                self.scratch_at[name] = places[param.name]
                args.append(_whole(own, "updates"))
        callee = _callee(number, rows, variant, kind)
        self.callees[callee] = variant.function
        return Call(callee, tuple(args))

    def sum_call(self, rows: RowSum, func: PrimFunc, r: Var | None = None) -> Call:
        """A call that starts, adds to or finishes the sum at the end of the segment."""
        total = next(p for p in rows.start.params if p.name == "out")
        if not self.sums:
            self.sums.append(replace(total, name="total", scope="scratch"))
        args = []
        for param in func.params:
            if param.name == "x":
                assert r is not None
                args.append(_row(self.buffers[rows.inputs[0]], as_term(r), 1, "reads"))
            elif param.name == "out" and func is rows.finish:
                out = self.buffers[self.result]
                args.append(_row(out, 0, out.shape[0], "writes"))
            else:
                use = "updates" if param.name == "out" else "reads"
                args.append(_whole(self.sums[0], use))
        self.callees[func.name] = func
        return Call(func.name, tuple(args))

    def part(self, number: int, member: Member) -> RowPart:
        """A profile's facts about a member."""
        rows = member.rows
        if isinstance(rows, RowSum):
            return RowPart(rows.group, rows.add.name, (), 0, rows.rows + 1)
        constants: dict[str, None] = {}
        for kind in rows.kinds:
            for array in member.variants[kind].constants.values():
                buffer, _ = next(c for c in self.constants.values() if _same(c[1], array))
                constants[buffer.name] = None
        middle = member.variants[rows.middle]
        scratch = max(scratch_places(v.function)[1] for v in member.variants.values())
        callee = _callee(number, rows, middle, rows.middle)
        hook_calls = rows.rows * (2 if member.output in self.shown else 1)
        return RowPart(rows.group, callee, tuple(constants), scratch, hook_calls)

    def constant(self, name: str, param: Buffer, array: Array) -> Buffer:
        """The parameter for an array; kinds of rows that read equal arrays share one."""
        for buffer, known in self.constants.values():
            if _same(known, array):
                return buffer
        self.constants[name] = replace(param, name=name), array
        return self.constants[name][0]

    # streaming --------------------------------------------------------------------------------

    def slide(self, schedule: Schedule, number: int, member: Member) -> None:
        """Move a member's rows into the loop that makes its last input."""
        makers = sorted((self.made[v] for v in member.rows.inputs if v in self.made), reverse=True)
        loops = [f"r{maker}" for maker in makers]
        if self.source in member.rows.inputs or not loops:
            loops.append(ARRIVAL)
        for position, loop in enumerate(loops):
            try:
                return schedule.slide(f"r{number}", loop)
            except ScheduleError:
                if position + 1 == len(loops):
                    raise

    def with_shared_scratch(self, function: PrimFunc) -> PrimFunc:
        """Use one parameter for the scratch of several members that begins at one offset.

        Each parameter costs a word of the stack.
        """
        alike: dict[tuple[int, str], list[Buffer]] = {}
        for buffer in self.scratch.values():
            alike.setdefault((self.scratch_at[buffer.name], buffer.dtype), []).append(buffer)
        largest = {key: max(own, key=lambda b: b.elements) for key, own in alike.items()}
        changed = {buffer: largest[key] for key, own in alike.items() for buffer in own}
        self.scratch = {buffer.name: buffer for buffer in largest.values()}
        self.scratch_at = {buffer.name: at for (at, _), buffer in largest.items()}
        params = dict.fromkeys(changed.get(param, param) for param in function.params)
        body = ReplaceBuffer(changed).stmt(function.body)
        return replace(function, params=tuple(params), body=body)

    def scratch_buffers(self, function: PrimFunc) -> tuple[Scratch, ...]:
        """One buffer for each rolling value, and one for the scratch of all members."""
        sizes = scratch_parts(function)
        found = [
            Scratch(name, sizes[name], {name: 0}) for name in sizes if name not in self.scratch
        ]
        work = max((self.scratch_at[n] + sizes[n] for n in self.scratch), default=0)
        if work:
            found.append(Scratch(WORK, work, dict(self.scratch_at)))
        return tuple(found)


def _part_end(number: int) -> Call:
    return Call(TRACE_PART, (Const(number, "int32"),))


def _edge(rows: RowGroup, kind: RowKind) -> str:
    """The suffix of a function's name for this kind of rows."""
    return "" if kind is rows.middle else f"_{rows.kinds.index(kind)}"


def _callee(number: int, rows: RowGroup, variant: Variant, kind: RowKind) -> str:
    return f"{variant.function.name}_row_{number}{_edge(rows, kind)}"


def _same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _rows_of(value: Value, name: str, scope: str) -> Buffer:
    _, height, *rest = value.type.shape
    return Buffer(name, (height, int(np.prod(rest))), value.type.dtype, scope)  # type: ignore[arg-type]


def _row(buffer: Buffer, first: TermLike, rows: int, use: str) -> BufferRef:
    at = (as_term(first), as_term(0))
    return BufferRef(buffer, at, use, (rows, buffer.shape[1]))  # type: ignore[arg-type]


def _whole(buffer: Buffer, use: str = "reads") -> BufferRef:
    start: tuple[Term, ...] = tuple(as_term(0) for _ in buffer.shape)
    return BufferRef(buffer, start, use, buffer.shape)  # type: ignore[arg-type]


def _one_arrival(func: PrimFunc) -> PrimFunc:
    """The driver for one row of the input; the row's number is an index."""
    loop, _ = find_loop(func, ARRIVAL)
    stmts: list[Stmt] = []
    is_after = False
    for stmt in func.body.stmts if isinstance(func.body, Seq) else (func.body,):
        if stmt is loop:
            stmts.append(loop.body)
            is_after = True
        elif is_after:  # at the last row
            stmts.append(If(loop.stop - 1, as_term(loop.var) + 1, stmt))
        else:
            stmts.append(If(as_term(loop.var), as_term(1), stmt))
    return replace(func, body=sequence(*stmts), indices=(loop.var,))


def _without_arrival(func: PrimFunc) -> PrimFunc:
    """The driver for a whole input."""
    loop, _ = find_loop(func, ARRIVAL)
    assert isinstance(loop.body, Seq)
    rest = tuple(s for s in loop.body.stmts if not (isinstance(s, Call) and s.callee == ARRIVAL))
    body = rest[0] if len(rest) == 1 else Seq(rest)
    return with_changes(func, [(loop, replace(loop, body=body))])
