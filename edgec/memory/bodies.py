"""Nodes with bodies as one function that calls the bodies' groups, and the memory of the bodies.

    if (flag[0] != 0) {                     for (step = 0; step < 5; ++step) {
        m_matmul(x, weights, s0);               m_matmul(out, w, s0);
        m_tanh(s0, out);                        m_add(&xs[step * 6], s0, out);
    } else {                                }
        m_abs(x, out);
    }

Each body is lowered like a model, and its values have their own memory plan, which is checked like
every plan. A node's scratch is one buffer as large as the largest of its bodies' plans, as only one
body runs at a time. So lifetimes nest, and branches share bytes.

A loop's carried values are the body's states: a new value is computed in place of the old one where
`edgec.passes.copy_states` proves that nothing reads the old one any more; otherwise it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

import numpy as np

from edgec.graph.ir import Constant, Function, State, Value
from edgec.graph.types import Array, TensorType
from edgec.loop.access import flat_address, writes
from edgec.loop.cost import estimate
from edgec.loop.ir import (
    TRACE_PART,
    TRACE_ROW,
    TRACES,
    Buffer,
    BufferRef,
    Call,
    Const,
    Expr,
    For,
    IndexValue,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
)
from edgec.loop.rewrite import Rewriter, sequence, statements
from edgec.loop.schedule import Schedule
from edgec.loop.spot import Spot
from edgec.memory.layout import (
    align_bytes,
    merged_places,
    placement_problem,
    scratch_name,
    state_places,
)
from edgec.memory.problem import Plan
from edgec.memory.solve import plan_memory
from edgec.numerics.narrow_float import stored_in
from edgec.numerics.term import Term, TermLike, Var, as_term, product
from edgec.ops.control import Control
from edgec.passes.fuse_groups import Group, storage
from edgec.passes.lower_groups import (
    SCRATCH_ALIGN,
    LoweredGroup,
    RowPart,
    Scratch,
    Variant,
    scratch_parts,
)

#: Name of the place of everything that the bodies need.
BODIES = "bodies"
#: Placements that are tried for the plan of a body.
PLAN_NODES = 40_000


@dataclass(frozen=True)
class LoweredBody:
    """A body ready to run: its function, the groups of it, and a variant of each group."""

    function: Function
    groups: tuple[LoweredGroup, ...]
    variants: tuple[Variant, ...]


#: Lowers a body whose inputs and outputs lie in memory of its caller.
LowerBody = Callable[[Function], LoweredBody]


def lower_bodies(group: Group, lower: LowerBody) -> LoweredGroup:
    """The group of one node with bodies; its only variant runs them."""
    return LoweredGroup(group, (_Driver(group, lower).build(),))


class _Driver:
    """Writes the function of one node; implements `edgec.ops.control.Bodies`."""

    def __init__(self, group: Group, lower: LowerBody) -> None:
        (self.node,) = group.nodes
        self.lower = lower
        self.constants: dict[str, tuple[Buffer, Array]] = {}
        self.flags: dict[Buffer, int] = {}
        self.scratch: dict[Buffer, int] = {}  # offsets, flags not counted
        self.callees: dict[str, PrimFunc] = {}
        self.parts: list[RowPart] = []
        self.rows: list[Value] = []
        self.calls_inlined = 0
        self.sizes: set[Var] = set()
        activations = [v for v in group.inputs if not isinstance(v, Constant)]
        self.arena = {v: _flat(_numbered("x", n), v.type) for n, v in enumerate(activations)}
        for number, output in enumerate(group.outputs):
            self.arena[output] = _flat(_numbered("out", number), output.type)
        self.types = self.node.input_types
        self.inputs = [self.operand(value) for value in self.node.inputs]
        self.outputs = [self.operand(value) for value in group.outputs]

    def build(self) -> Variant:
        op = self.node.op
        assert isinstance(op, Control)
        body = _Numbers(len(self.parts), op.arrange(self.node.attrs, self))
        constants = [buffer for buffer, _ in self.constants.values()]
        params = (*self.arena.values(), *constants, *self.flags, *self.scratch)
        code = body.shifted(len(self.parts))
        loops = [stmt for stmt in statements(code) if isinstance(stmt, For)]
        self.sizes.update(var for loop in loops for var in loop.stop.variables())
        sizes = sorted(self.sizes - {loop.var for loop in loops}, key=lambda var: var.name)
        function = PrimFunc(f"run_{op.name}", params, (), code, tuple(sizes))
        args = {buffer: value for value, buffer in self.arena.items()}
        return Variant(
            schedule=Schedule(function),
            function=function,
            args=tuple(args.get(param) for param in params),
            constants={name: array for name, (_, array) in self.constants.items()},
            scratch=self.scratch_buffers(function),
            instructions=round(estimate(function, callees=self.callees).instructions),
            callees=self.callees,
            parts=tuple(self.parts),
            rows=tuple(self.rows),
        )

    def scratch_buffers(self, function: PrimFunc) -> tuple[Scratch, ...]:
        """One scratch buffer: the flags, then the bodies' scratch."""
        sizes = scratch_parts(function)
        align = align_bytes(buffer.dtype for buffer in self.scratch)
        flags_bytes = -(-SCRATCH_ALIGN * len(self.flags) // align) * align
        offsets = {buffer.name: offset for buffer, offset in self.flags.items()}
        offsets |= {buffer.name: flags_bytes + offset for buffer, offset in self.scratch.items()}
        end = max((offset + sizes[name] for name, offset in offsets.items()), default=0)
        return (Scratch(BODIES, end, offsets),) if end else ()

    # the methods of `Bodies` -------------------------------------------------------------------

    def flag(self, body: int) -> Spot:
        """A buffer for one element, which no body overwrites."""
        type_ = self.node.bodies[body].results[0].type
        buffer = replace(_flat(f"flag{len(self.flags)}", type_), scope="scratch")
        self.flags[buffer] = SCRATCH_ALIGN * len(self.flags)
        return Spot(buffer, 1)

    def copy(self, source: Spot, to: Spot) -> Stmt:
        """Element by element; nothing where it lies there already."""
        if source == to:
            return Seq(())
        i = Var("i", 0, to.elements)
        store = Store(to.buffer, to.element(i).indices, source.element(i))
        types = dict(zip(self.inputs, self.types, strict=True))
        extents = types[source].extents if source in types else None
        count = as_term(to.elements) if extents is None else reduce(product, extents, as_term(1))
        return For(i, as_term(0), count, "serial", store)

    def run(
        self,
        body: int,
        carried: Sequence[Spot],
        given: Sequence[Spot],
        results: Sequence[Spot],
        *,
        times: int = 1,
    ) -> Stmt:
        """Calls of the body's groups, in order."""
        lowered = self.lower(_with_states(self.node.bodies[body], len(carried)))
        function = lowered.function
        roots = storage(function)
        problem = placement_problem(function, lowered.groups, lowered.variants, io="caller")
        plan = plan_memory(problem, node_limit=PLAN_NODES)
        spots = dict(zip(function.inputs, given, strict=True))
        for state, spot in zip(function.states, carried, strict=True):
            spots[state.before] = spot
        for value, spot in zip(function.outputs, results, strict=True):
            spots[roots.get(value, value)] = spot
        names = {value.name: value for value in function.values()}
        for buffer in problem.buffers:
            if buffer.name in names:
                spots[names[buffer.name]] = self.value(names[buffer.name].type, plan, buffer.name)
        merged = merged_places(function, lowered.groups, lowered.variants, io="caller")
        for value, place in {**merged, **state_places(function)}.items():
            spots[value] = spots[place]
        spots |= {value: spots[root] for value, root in roots.items() if root in spots}
        calls = [
            call
            for position, (group, variant) in enumerate(
                zip(lowered.groups, lowered.variants, strict=True)
            )
            for call in self.step(group.group, variant, position, plan, spots, body, times)
        ]
        return sequence(*calls)

    # one group --------------------------------------------------------------------------------

    def step(
        self,
        group: Group,
        variant: Variant,
        position: int,
        plan: Plan,
        spots: Mapping[Value, Spot],
        body: int,
        times: int,
    ) -> list[Stmt]:
        """The call of a group, and the calls that report its end and its result."""
        given: dict[Buffer, Spot] = {}
        scratch = {name: p for p in variant.scratch for name in p.offsets}
        for param, value in zip(variant.function.params, variant.args, strict=True):
            if value is not None:
                given[param] = spots[value]
            elif param.scope == "constant":
                given[param] = self.constant(variant.constants[param.name])
            else:
                place = scratch[param.name]
                at = plan.offsets[scratch_name(position, place.name)] + place.offsets[param.name]
                given[param] = self.temporary(param.elements, param.dtype, at)
        path = f"{self.node.name}/{self.node.bodies[body].name}"
        self.sizes.update(variant.function.indices)
        if variant.parts:
            return [self.inline(variant, given, path, times)]
        outputs = {spots[value].buffer for value in group.outputs}
        callee, code = (
            self.slices(variant, given) if variant.callees else self.call(variant, given, outputs)
        )
        shown = [value for value in group.outputs if value.origin is not None]
        constants = tuple(given[p].buffer.name for p in given if p.scope == "constant")
        calls = times * (1 + len(shown))
        number = len(self.parts)
        part = RowPart(group, callee, constants, variant.scratch_bytes, calls)
        self.parts.append(part)
        stmts: list[Stmt] = [code, _part_end(number)]
        for value in shown:
            which = Const(len(self.rows), "int32")
            self.rows.append(replace(value, name=f"{path}/{value.name}"))
            stmts.append(
                Call(TRACE_ROW, (which, spots[value].ref("reads"), IndexValue(as_term(0))))
            )
        return stmts

    def call(
        self, variant: Variant, given: Mapping[Buffer, Spot], outputs: Collection[Buffer]
    ) -> tuple[str, Stmt]:
        """The name of a group's function, and its call."""
        callee = self.callee(variant.function)
        written = writes(variant.function.body)
        args = (
            spot.ref("reads" if p not in written else "writes" if spot.buffer in outputs else
                     "updates")
            for p, spot in given.items()
        )  # fmt: skip
        sizes = (IndexValue(as_term(var)) for var in variant.function.indices)
        return callee, Call(callee, (*args, *sizes))

    def slices(self, variant: Variant, given: Mapping[Buffer, Spot]) -> tuple[str, Stmt]:
        """The name of the function of one slice, and the loop over the slices of an open size."""
        renamed, code = self.inlined(variant, given, variant.function.body)
        (callee,) = renamed.values()
        return callee, code

    def inlined(
        self, variant: Variant, given: Mapping[Buffer, Spot], body: Stmt
    ) -> tuple[dict[str, str], Stmt]:
        """The names of a function's callees here, and its code where the call was."""
        renamed = {name: self.callee(function) for name, function in variant.callees.items()}
        self.calls_inlined += 1
        return renamed, _Inlined(given, renamed, f"_{self.calls_inlined}").stmt(body)

    def inline(self, variant: Variant, given: Mapping[Buffer, Spot], path: str, times: int) -> Stmt:
        """The code of a node with bodies inside a body, instead of a call."""
        constants = {p.name: given[p].buffer.name for p in given if p.scope == "constant"}
        inner = _Numbers(len(variant.parts), variant.function.body)
        body = inner.moved(len(self.parts), len(self.rows))
        renamed, code = self.inlined(variant, given, body)
        self.parts += (
            replace(
                part,
                callee=renamed[part.callee],
                constants=tuple(constants[name] for name in part.constants),
                hook_calls=times * part.hook_calls,
            )
            for part in variant.parts
        )
        self.rows += (replace(value, name=f"{path}/{value.name}") for value in variant.rows)
        return code

    # names ------------------------------------------------------------------------------------

    def operand(self, value: Value) -> Spot:
        """Place of an input or output of the node."""
        if isinstance(value, Constant):
            return self.constant(value.data)
        return Spot(self.arena[value], value.type.elements)

    def constant(self, array: Array) -> Spot:
        """A parameter for the array; equal arrays share it."""
        for buffer, known in self.constants.values():
            same = known.dtype == array.dtype and known.size == array.size
            if same and known.tobytes() == array.tobytes():
                return Spot(buffer, array.size)
        name = f"c{len(self.constants)}"
        buffer = Buffer(name, (array.size,), stored_in(array.dtype.name), "constant")
        self.constants[name] = buffer, array
        return Spot(buffer, array.size)

    def value(self, type_: TensorType, plan: Plan, name: str) -> Spot:
        """A parameter for a value of a body."""
        return self.temporary(type_.elements, stored_in(type_.dtype), plan.offsets[name])

    def temporary(self, elements: int, dtype: str, offset: int) -> Spot:
        """A parameter for scratch at this offset; the same one for the same bytes."""
        for buffer, at in self.scratch.items():
            if (buffer.elements, buffer.dtype, at) == (elements, dtype, offset):
                return Spot(buffer, elements)
        buffer = Buffer(f"s{len(self.scratch)}", (elements,), dtype, "scratch")
        self.scratch[buffer] = offset
        return Spot(buffer, elements)

    def callee(self, function: PrimFunc) -> str:
        """A name to call a function by; equal ones share it."""
        for name, known in self.callees.items():
            if known == function:
                return name
        name = f"{function.name}_{len(self.callees)}"
        self.callees[name] = function
        return name


def _with_states(body: Function, carried: int) -> Function:
    """The function with a loop's carried values as states, last in order."""
    if not carried:
        return body
    params, results = body.params[:carried], body.results[:carried]
    states = tuple(
        State(before, after, _zeros(before)) for before, after in zip(params, results, strict=True)
    )
    return Function(
        body.name,
        (*body.params[carried:], *params),
        body.nodes,
        (*body.results[carried:], *results),
        states,
    )


def _zeros(value: Value) -> Constant:
    """An initial value that nothing reads, and that takes no memory."""
    data = np.broadcast_to(np.zeros((), value.type.dtype), value.type.shape)
    return Constant(f"{value.name}.initial", value.type, data=data)


def _flat(name: str, type_: TensorType) -> Buffer:
    return Buffer(name, (type_.elements,), stored_in(type_.dtype), "arena")


def _numbered(name: str, number: int) -> str:
    return f"{name}{number + 1}" if number else name


def _part_end(number: int) -> Call:
    return Call(TRACE_PART, (Const(number, "int32"),))


class _Numbers(Rewriter):
    """Changes the numbers of parts and of values in calls that report them.

    In a finished function the values' numbers come after its parts'; while it is written, both
    count from 0.
    """

    def __init__(self, parts: int, body: Stmt) -> None:
        self.parts, self.body = parts, body
        self.part_shift = self.value_shift = 0

    def shifted(self, by: int) -> Stmt:
        """Return it with the values' numbers after the parts'."""
        self.value_shift = by
        return self.stmt(self.body)

    def moved(self, parts: int, values: int) -> Stmt:
        """Number a finished function for a place after this many parts and values."""
        self.part_shift, self.value_shift = parts, values - self.parts
        return self.stmt(self.body)

    def stmt(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Call) or stmt.callee not in TRACES:
            return super().stmt(stmt)
        number, *rest = stmt.args
        assert isinstance(number, Const)
        by = self.part_shift if stmt.callee == TRACE_PART else self.value_shift
        return Call(stmt.callee, (Const(int(number.value) + by, number.dtype), *rest))


class _Inlined(Rewriter):
    """A function's body with its parameters' spots in their place, and names of its own."""

    def __init__(
        self, spots: Mapping[Buffer, Spot], callees: Mapping[str, str], suffix: str
    ) -> None:
        self.spots, self.callees, self.suffix = spots, callees, suffix
        self.vars: dict[Var, TermLike] = {}

    def term(self, term: Term) -> Term:
        return term.substitute(self.vars)

    def element(self, buffer: Buffer, indices: tuple[Term, ...]) -> tuple[Buffer, tuple[Term]]:
        spot = self.spots[buffer]
        return spot.buffer, (self.term(flat_address(buffer, indices)) + spot.offset,)

    def load(self, load: Load) -> Expr:
        return Load(*self.element(load.buffer, load.indices))

    def store(self, store: Store) -> Stmt:
        return Store(*self.element(store.buffer, store.indices), self.expr(store.value))

    def argument(self, argument: BufferRef | Expr) -> BufferRef | Expr:
        if not isinstance(argument, BufferRef):
            return self.expr(argument)
        buffer, indices = self.element(argument.buffer, argument.indices)
        return replace(argument, buffer=buffer, indices=indices, box=(prod(argument.box),))

    def loop(self, loop: For) -> Stmt:
        var = Var(f"{loop.var.name}{self.suffix}", loop.var.start, loop.var.stop)
        self.vars[loop.var] = var
        return For(var, self.term(loop.start), self.term(loop.stop), loop.kind,
                   self.stmt(loop.body))  # fmt: skip

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Call):
            callee = self.callees.get(stmt.callee, stmt.callee)
            return Call(callee, tuple(self.argument(a) for a in stmt.args))
        return super().stmt(stmt)
