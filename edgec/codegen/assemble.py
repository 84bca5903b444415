"""Put lowered groups and a memory plan together into the `Program` that codegen writes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec.codegen.program import (
    Area,
    Golden,
    IoMode,
    Part,
    Port,
    Program,
    Size,
    State,
    Step,
    Trace,
)
from edgec.graph import ir as graph_ir
from edgec.graph.extents import symbols_of
from edgec.graph.ir import Module, Node, Value
from edgec.graph.provenance import Origin
from edgec.graph.types import Array
from edgec.loop.ir import Call, PrimFunc, Stmt
from edgec.loop.microkernel import bytes_read_past
from edgec.loop.rewrite import Rewriter
from edgec.memory.layout import (
    ARENA,
    STATE,
    merged_places,
    raised_places,
    scratch_name,
    state_places,
)
from edgec.memory.problem import Plan, Problem
from edgec.passes.fuse_groups import Group, storage
from edgec.passes.lower_groups import SCRATCH_ALIGN, LoweredGroup, Variant, scratch_parts


@dataclass(frozen=True)
class Identity:
    """The names of a program: its C identifier, board and core."""

    model: str
    board: str
    target: str


def assemble(
    module: Module,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    problem: Problem,
    plan: Plan,
    identity: Identity,
    *,
    io: IoMode,
    golden: Golden | None,
) -> Program:
    """The program of one module, its variants chosen and its buffers placed."""
    function = module.main
    roots = storage(function)
    constants = Constants()
    sizes = {buffer.name: buffer.size_bytes for buffer in problem.buffers}
    offsets = dict(plan.offsets)
    area_of = {n: r for n, r in plan.region_of.items() if r not in (ARENA, STATE)}
    callees: dict[str, PrimFunc] = {}
    for position, variant in enumerate(chosen):
        _place_scratch(position, variant, sizes, offsets, area_of)
        callees |= {_callee_name(position, name): f for name, f in variant.callees.items()}
    shown: dict[Value, list[Value]] = {}
    for value in function.values():
        shown.setdefault(roots.get(value, value), []).append(value)
    steps = [
        replace(
            _step(shown, position, lowered.group, variant, roots, constants),
            on_processor=lowered.on_processor,
        )
        for position, (lowered, variant) in enumerate(zip(groups, chosen, strict=True))
    ]
    outside = {roots.get(v, v) for v in (*function.inputs, *function.outputs)}
    sizes.update({v.name: v.type.nbytes for v in outside})
    places = merged_places(function, groups, chosen, io=io)
    raised = raised_places(function, groups, chosen, io)
    sizes |= {place.name: place.type.nbytes for place in places.values()}
    for value, place in {**places, **state_places(function)}.items():
        sizes[value.name] = value.type.nbytes
        offsets[value.name] = offsets[place.name] + raised.get(value, 0)
        if place.name in area_of:
            area_of[value.name] = area_of[place.name]
    states = tuple(_state(state, constants) for state in function.states)
    return Program(
        model=identity.model,
        source_file=module.source,
        inputs=tuple(_port(v, roots) for v in function.inputs),
        outputs=tuple(_port(v, roots) for v in function.outputs),
        steps=tuple(steps),
        constants=constants.arrays,
        buffers=sizes,
        offsets=offsets,
        arena_bytes=_arena_bytes(plan.peak_bytes[ARENA], chosen, sizes, offsets, area_of),
        arena_lower_bound=plan.certificate.region(ARENA).lower_bound_bytes,
        states=states,
        state_bytes=plan.peak_bytes.get(STATE, 0),
        io=io,
        golden=golden if io != "rows" else None,
        board=identity.board,
        target=identity.target,
        callees=callees,
        areas=tuple(
            Area(region, peak)
            for region, peak in plan.peak_bytes.items()
            if region not in (ARENA, STATE) and peak
        ),
        area_of=area_of,
        sizes=tuple(
            Size(var.name, var.start, var.stop - 1)
            for var in symbols_of(value.type for value in function.params)
        ),
        counts=function.counts,
    )


def _arena_bytes(
    peak_bytes: int,
    chosen: Sequence[Variant],
    sizes: Mapping[str, int],
    offsets: Mapping[str, int],
    area_of: Mapping[str, str],
) -> int:
    """The bytes of the arena: kernels may read a little past the scratch that lies last."""
    ends = [
        offsets[name] + sizes[name] + past
        for position, variant in enumerate(chosen)
        for param, past in bytes_read_past(variant.function).items()
        if (name := _scratch_param(position, param)) in offsets and name not in area_of
    ]
    missing = max(ends, default=0) - peak_bytes
    return peak_bytes + max(-(-missing // SCRATCH_ALIGN) * SCRATCH_ALIGN, 0)


def _place_scratch(
    position: int,
    variant: Variant,
    sizes: dict[str, int],
    offsets: dict[str, int],
    area_of: dict[str, str],
) -> None:
    """Give every scratch parameter a name and a place."""
    bytes_of = scratch_parts(variant.function)
    for place in variant.scratch:
        base = scratch_name(position, place.name)
        for param, offset in place.offsets.items():
            name = _scratch_param(position, param)
            sizes[name], offsets[name] = bytes_of[param], offsets[base] + offset
            if base in area_of:
                area_of[name] = area_of[base]
        del sizes[base], offsets[base]
        area_of.pop(base, None)


def _scratch_param(position: int, param: str) -> str:
    return f"{scratch_name(position)}:{param}"


def _callee_name(position: int, name: str) -> str:
    return f"{position}_{name}"


class _Renamed(Rewriter):
    """A function's calls of its own callees by the names that they have in the program."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Call):
            return replace(stmt, callee=self.names.get(stmt.callee, stmt.callee))
        return super().stmt(stmt)


def renamed_calls(function: PrimFunc, names: Mapping[str, str]) -> PrimFunc:
    """The function with its calls of these by other names."""
    return replace(function, body=_Renamed(names).stmt(function.body)) if names else function


class Constants:
    """Constants of a program by name; equal arrays are kept once."""

    def __init__(self, known: Mapping[str, Array] | None = None) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        for name, array in (known or {}).items():
            self.add(name, array)

    def add(self, name: str, array: Array) -> str:
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._names:
            self._names[key] = name
            self.arrays[name] = array
        return self._names[key]


def _step(
    shown: Mapping[Value, Sequence[Value]],
    position: int,
    group: Group,
    variant: Variant,
    roots: Mapping[Value, Value],
    constants: Constants,
) -> Step:
    args = []
    for param, value in zip(variant.function.params, variant.args, strict=True):
        if value is not None:
            args.append(roots.get(value, value).name)
        elif param.scope == "constant":
            name = f"{position}_{group.name}_{param.name}"
            args.append(constants.add(name, variant.constants[param.name]))
        else:
            args.append(_scratch_param(position, param.name))
    names = {name: _callee_name(position, name) for name in variant.callees}
    operators = _operators(group)
    if variant.parts and not group.nodes[0].bodies:
        operators = f"{group.nodes[0].op.name} to {group.nodes[-1].op.name} by rows"
    given = {p.name: arg for p, arg in zip(variant.function.params, args, strict=True)}
    return Step(
        function=renamed_calls(variant.function, names),
        args=tuple(args),
        title=f'{operators} "{group.name}"',
        sources=group.sources,
        shapes=_shapes(group),
        macs=group.macs,
        parts=tuple(
            Part(
                title=f'{_operators(part.group)} "{part.group.name}"',
                sources=part.group.sources,
                shapes=_shapes(part.group),
                macs=part.group.macs,
                callee=_callee_name(position, part.callee),
                constants=tuple(given[name] for name in part.constants),
                scratch_bytes=part.scratch_bytes,
                hook_calls=part.hook_calls,
            )
            for part in variant.parts
        ),
        traces=tuple(
            trace
            for value in (*variant.rows, *group.outputs)
            for trace in _traces(value, shown.get(value, ()), by_rows=value in variant.rows)
        ),
    )


def _operators(group: Group) -> str:
    return "+".join(_operator_title(node) for node in group.nodes)


def _shapes(group: Group) -> str:
    inputs = ", ".join(_shape(value) for value in group.activations)
    return f"{inputs} -> {', '.join(map(_shape, group.outputs))}"


def _operator_title(node: Node) -> str:
    """The operator's name; where it computes in 64 bits, which is slow on small cores, that too."""
    wide = any(value.type.dtype == "int64" for value in node.outputs)
    return f"{node.op.name} in int64" if wide else node.op.name


def _shape(value: Value) -> str:
    return f"[{','.join(map(str, value.type.shape))}]"


def _traces(root: Value, views: Sequence[Value], *, by_rows: bool) -> list[Trace]:
    """Traces of a value's views that stand for source tensors; without views, of the value."""
    is_inside = not views
    return [
        Trace(
            value=value.name,
            buffer=root.name,
            source=value.origin.tensor,
            dtype=value.type.dtype,
            shape=value.type.shape,
            permutation=_to_source(value.origin),
            by_rows=by_rows,
            is_inside=is_inside,
        )
        for value in views or [root]
        if value.origin is not None
    ]


def _to_source(origin: Origin) -> tuple[int, ...]:
    """The transpose from a value to its source tensor's layout; empty if they agree."""
    return tuple(int(axis) for axis in np.argsort(origin.permutation or ()))


def _state(state: graph_ir.State, constants: Constants) -> State:
    """A state whose initial bytes are all equal needs no constant."""
    value, initial = state.before, np.ascontiguousarray(state.initial.data)
    raw = initial.reshape(-1).view(np.uint8)
    uniform = bool((raw == raw[:1]).all())
    return State(
        name=value.origin.tensor if value.origin else value.name,
        dtype=value.type.dtype,
        shape=value.type.shape,
        buffer=value.name,
        after=state.after.name,
        initial=None if uniform else constants.add(f"initial_{value.name}", initial),
        fill=int(raw[0]) if uniform and raw.size else 0,
    )


def _port(value: Value, roots: Mapping[Value, Value]) -> Port:
    quant = value.type.quant
    return Port(
        name=value.origin.tensor if value.origin else value.name,
        dtype=value.type.dtype,
        shape=value.type.shape,
        buffer=roots.get(value, value).name,
        scale=quant.scale if quant else (),
        zero_point=quant.zero_point if quant else (),
        extents=value.type.extents or (),
    )


def output_crc(outputs: Sequence[Array]) -> int:
    """CRC-32 (zlib's) of all outputs' bytes, as `<model>_selftest` computes it."""
    return zlib.crc32(b"".join(np.ascontiguousarray(a).tobytes() for a in outputs))
