"""Stage 5: each fusion group becomes a menu of scheduled loop nests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from edgec.errors import EdgecError
from edgec.graph.ir import Constant, Value
from edgec.graph.types import Array
from edgec.loop.cost import estimate, estimate_code_bytes
from edgec.loop.define import Tensor
from edgec.loop.foreign import find_source
from edgec.loop.ir import Buffer, Call, PrimFunc
from edgec.loop.lowering import Lowering, OpenAxes
from edgec.loop.overlap import overlap_distance, overlap_distances, written_buffers
from edgec.loop.rescale_lines import Accumulators
from edgec.loop.rewrite import statements
from edgec.loop.schedule import Schedule
from edgec.loop.simplify import simplify
from edgec.ops.op import op_of
from edgec.passes.channel_intervals import intervals_of
from edgec.passes.fuse_groups import Group
from edgec.targets.cuda.costs import GPUS, Gpu, kernels_us
from edgec.targets.target import Target

#: Several scratch parameters of a function lie one after the other, each aligned to this.
SCRATCH_ALIGN = 4


@dataclass(frozen=True)
class Scratch:
    """Bytes that a step needs besides inputs and outputs, and which parameters lie where in them.

    offsets: by parameter name, in bytes; parameters that are never used at once may overlap.
    """

    name: str
    size_bytes: int
    offsets: Mapping[str, int]


@dataclass(frozen=True)
class RowPart:
    """One layer of a group that runs row by row.

    callee: the function that computes most of its rows. constants: the group function's parameters
    with its constants. scratch_bytes: for computing its rows. hook_calls: how often the function
    reports or shows a row.
    """

    group: Group
    callee: str
    constants: tuple[str, ...]
    scratch_bytes: int
    hook_calls: int


@dataclass(frozen=True)
class Variant:
    """One way to run a group.

    args: for each parameter of `function`, the graph value it stands for, or None for a constant
    (then `constants` has its array by parameter name) or scratch. scratch: the buffers that it
    needs besides. in_place: inputs that the output may replace where they are, or
    above them by a multiple of row_bytes; raised_bytes: by so much it lies above. callees: the
    functions that `function` calls, by the names it calls them. parts: the layers of a group that
    runs row by row, and rows: values inside it that exist row by row only, both in the order in
    which the function numbers them, parts first, when it reports them. is_tuned: `edgec tune`
    found it.
    """

    schedule: Schedule
    function: PrimFunc
    args: tuple[Value | None, ...]
    constants: Mapping[str, Array]
    scratch: tuple[Scratch, ...]
    instructions: int
    in_place: tuple[Value, ...] = ()
    row_bytes: int = 0
    raised_bytes: int = 0
    callees: Mapping[str, PrimFunc] = field(default_factory=dict)
    parts: tuple[RowPart, ...] = ()
    rows: tuple[Value, ...] = ()
    is_tuned: bool = False

    @cached_property
    def is_theirs(self) -> bool:
        """Whether it calls a function of the user's (`edgec.targets.external`)."""
        return bool(self.their_functions)

    @cached_property
    def their_functions(self) -> tuple[str, ...]:
        """The functions of the user's that it calls, by name."""
        calls = (s for s in statements(self.function.body) if isinstance(s, Call))
        names = dict.fromkeys(call.callee for call in calls)
        return tuple(name for name in names if find_source(name) is not None)

    @cached_property
    def scratch_bytes(self) -> int:
        return sum(buffer.size_bytes for buffer in self.scratch)

    @cached_property
    def code_bytes(self) -> int:
        """About how many bytes its code takes, with the functions that it calls or shares."""
        called = sum(estimate_code_bytes(function) for function in self.callees.values())
        return estimate_code_bytes(self.function) + called

    @cached_property
    def constant_bytes(self) -> int:
        return sum(array.nbytes for array in self.constants.values())

    @cached_property
    def overlaps(self) -> tuple[tuple[Value, int], ...]:
        """Inputs whose bytes the output may take over, and by how many bytes it starts below.

        Proven from the function's accesses, see `edgec.loop.overlap`. An input that is absent
        must not share any byte.
        """
        distances = overlap_distances(self.function)
        pairs = zip(self.function.params, self.args, strict=True)
        return tuple(
            (value, distances[param])
            for param, value in pairs
            if value is not None and param in distances
        )

    @cached_property
    def scratch_overlaps(self) -> tuple[tuple[str, Value, int], ...]:
        """(buffer, input, bytes): scratch that starts `bytes` below the input may overlap it.

        In functions that call others, rolling rows follow their input through memory. The scratch
        of a single function may overlap its input, but not start below it: that would save few
        bytes and make the search longer.
        """
        found = []
        params = {param.name: param for param in self.function.params}
        for buffer in self.scratch:
            for param, value in zip(self.function.params, self.args, strict=True):
                if value is None or param not in self._read_only:
                    continue
                distances = [
                    (overlap_distance(self.function, param, params[name]), offset)
                    for name, offset in buffer.offsets.items()
                ]
                known = [
                    distance + offset for distance, offset in distances if distance is not None
                ]
                if len(known) == len(distances) and (self.callees or max(known) <= 0):
                    found.append((buffer.name, value, max(known)))
        return tuple(found)

    @property
    def _read_only(self) -> tuple[Buffer, ...]:
        written = written_buffers(self.function)
        return tuple(p for p in self.function.params if p.scope == "arena" and p not in written)


@dataclass(frozen=True)
class LoweredGroup:
    """A group and its menu, best first. on_processor: beside a GPU, which runs others. nest: the
    loops as the group's operators define them, if they were made."""

    group: Group
    variants: tuple[Variant, ...]
    on_processor: bool = False
    nest: PrimFunc | None = None


def lower_group(group: Group, policy: Target, *, until_free: bool = False) -> LoweredGroup:
    """Write the group's loops and let the target schedule them.

    With `until_free`, variants after one with a variant without scratch are left out: they are
    slower, and matter only for where the output may lie.
    """
    if group.nodes[0].op.is_foreign:
        return LoweredGroup(group, (plain_variant(group),))
    lowering, values = lowering_of(group)
    variants: list[Variant] = []
    for offers in policy.menu(lowering):
        variants += (variant_of(offer.schedule, offer.tables, values) for offer in offers)
        if until_free and any(not variant.scratch for variant in variants):
            break
    gpu = GPUS[policy.core.gpu_architecture] if policy.core.has_gpu else None
    found = _in_order(variants) if gpu is None else _fastest(variants, gpu)
    return LoweredGroup(group, found, nest=lowering.build())


def _fastest(variants: Sequence[Variant], gpu: Gpu) -> tuple[Variant, ...]:
    """Kernels of a library's where they are faster than ours on a GPU, else ours."""

    def us(variant: Variant) -> float:
        return kernels_us(variant.function, gpu)

    theirs = [v for v in variants if v.is_theirs]
    ours = tuple(v for v in variants if not v.is_theirs)
    fastest = min(theirs, key=us, default=None)
    is_faster = fastest is not None and us(fastest) < min(map(us, ours))
    return (fastest,) if fastest is not None and is_faster else ours


def _in_order(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants; the user's functions come first where they are faster, else last."""
    theirs = sorted((v for v in variants if v.is_theirs), key=lambda v: v.instructions)
    ours = [v for v in variants if not v.is_theirs]
    least = min((v.instructions for v in ours), default=0)
    fast = [v for v in theirs if v.instructions < least]
    return (*fast, *ours, *(v for v in theirs if v not in fast))


def variant_of(
    schedule: Schedule, tables: Mapping[str, Array], values: Mapping[str, Value]
) -> Variant:
    """The variant of a schedule of a lowered group; values: by its parameters' names.

    tables: the constants before the schedule's changes.
    """
    function = simplify(schedule.func)
    constants: dict[str, Array] = {}
    for param in function.params:
        if param.scope == "constant":
            array = schedule.table(param.name, tables)
            constants[param.name] = np.asarray(array, order="C")  # a scalar stays one
    return Variant(
        schedule=schedule,
        function=function,
        args=tuple(values[p.name] if p.scope == "arena" else None for p in function.params),
        constants=constants,
        scratch=scratch_buffers(function),
        instructions=round(estimate(function).instructions),
        in_place=tuple(values[name] for name in schedule.in_place),
        row_bytes=schedule.row_bytes,
    )


def scratch_buffers(function: PrimFunc) -> tuple[Scratch, ...]:
    """All scratch parameters one after the other."""
    offsets, end = scratch_places(function)
    return (Scratch("", end, offsets),) if end else ()


def scratch_places(function: PrimFunc) -> tuple[dict[str, int], int]:
    """Offsets of scratch parameters, laid out in sequence and aligned to dtypes, and the end."""
    offsets: dict[str, int] = {}
    end = 0
    dtypes = {p.name: p.dtype for p in function.params}
    for name, size in scratch_parts(function).items():
        align = np.dtype(dtypes[name]).itemsize
        offsets[name] = -(-end // align) * align
        end = offsets[name] + size
    return offsets, end


def scratch_parts(function: PrimFunc) -> dict[str, int]:
    """Bytes of each scratch parameter, in order, rounded up so that the next one is aligned."""
    return {
        p.name: -(-p.elements * np.dtype(p.dtype).itemsize // SCRATCH_ALIGN) * SCRATCH_ALIGN
        for p in function.params
        if p.scope == "scratch"
    }


def lowering_of(
    group: Group, open_axes: OpenAxes | None = None
) -> tuple[Lowering, dict[str, Value]]:
    """The group's loops as its operators define them, and the values of its parameters.

    open_axes: of values by name; then the tables of all sizes begin with the same entries.
    """
    lowering = Lowering(_identifier(group.nodes[0].op.name), open_axes)
    given, made = _named("x", group.activations), _named("out", group.outputs)
    tensors = {v: lowering.input(n, v.type.shape, v.type.dtype) for n, v in given.items()}
    outputs = [lowering.output(n, v.type.shape, v.type.dtype) for n, v in made.items()]
    lowering.scales = _scales(given | made)
    lowering.halves = frozenset(n for n in given if given[n] in group.halves)
    for node in group.nodes:
        is_last = node is group.nodes[-1]
        lowering.target = outputs[0] if is_last else None
        lowering.targets = tuple(outputs) if is_last else ()
        inputs: list[Tensor | Constant] = [
            v if isinstance(v, Constant) else tensors[v] for v in node.inputs
        ]
        try:
            tensors[node.outputs[0]] = op_of(node).lower(node, lowering, inputs)
        except EdgecError as error:
            raise type(error)(
                f"{node.op.name} node {node.name!r}: {error.message}",
                details=error.details,
                hint=error.hint,
            ) from None
    first = group.nodes[0]
    lowering.accumulators = Accumulators(
        tensors[first.outputs[0]].name,
        lambda: intervals_of(group.inputs, (first,)).get(first.outputs[0]),
    )
    return lowering, given | made


def _scales(values: Mapping[str, Value]) -> dict[str, tuple[float, int]]:
    """The scale and zero point of values that have one of each."""
    return {
        name: (value.type.quant.scale[0], value.type.quant.zero_point[0])
        for name, value in values.items()
        if value.type.quant is not None and len(value.type.quant.scale) == 1
    }


def _named(name: str, values: Sequence[Value]) -> dict[str, Value]:
    """Values by the names of parameters: x, x2, x3 …"""
    return {name + (str(at) if at > 1 else ""): value for at, value in enumerate(values, 1)}


def plain_variant(group: Group, open_axes: OpenAxes | None = None) -> Variant:
    """The group's loops as its operators define them, as a variant."""
    lowering, values = lowering_of(group, open_axes)
    return variant_of(Schedule(lowering.build()), lowering.tables, values)


def plain_nest(group: Group) -> PrimFunc:
    """The group's loops as its operators define them, before any schedule."""
    return lowering_of(group)[0].build()


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)
