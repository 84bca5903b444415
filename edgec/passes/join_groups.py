"""Groups of a GPU as one kernel: a group that only moves or changes elements joins its neighbours.

Each launch costs microseconds. A transpose, a sum of two tensors or an activation after a view
joins the kernel that computes its input, else the kernel that reads its output, if the value
between has no other reader and the cost model predicts a gain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from edgec.errors import ContractError, ScheduleError
from edgec.graph.ir import Function, Value
from edgec.graph.operator import Fusion
from edgec.graph.types import Array
from edgec.loop.cost import estimate
from edgec.loop.ir import Buffer, PrimFunc
from edgec.loop.joined import ElementMap, element_map, read_through, store_through
from edgec.loop.rewrite import buffers_of
from edgec.loop.schedule import Schedule
from edgec.loop.verify import verify_func
from edgec.passes.fuse_groups import Group, storage
from edgec.passes.lower_groups import LoweredGroup, Variant, plain_variant, scratch_buffers
from edgec.passes.open_groups import is_open
from edgec.targets.cuda.costs import GPUS
from edgec.targets.cuda.crew import launched_us
from edgec.targets.target import Target

Groups = tuple[LoweredGroup, ...]
#: Operators that may be a map of elements; the group's loops decide.
_MAPS = (Fusion.ELEMENTWISE, Fusion.BROADCAST, Fusion.INJECTIVE)


def join_groups(function: Function, groups: Groups, target: Target) -> Groups:
    """The groups of a function in order; a joined group stands where its last member stood."""
    joiner, done = _Joiner(function, groups, target), list[LoweredGroup]()
    for lowered in groups:
        pair = joiner.joined(done, lowered)
        while pair is not None:
            maker, lowered = pair
            done.remove(maker)
            pair = joiner.joined(done, lowered)
        done.append(lowered)
    return tuple(done)


@dataclass(frozen=True)
class _Map:
    """A group's function of single elements; its values and constants by parameter names."""

    elements: ElementMap
    values: Mapping[str, Value]
    constants: Mapping[str, Array]

    def beside(self, variant: Variant, passed: Value) -> _Map:
        """The same with the names of a variant where it has the same values, else with new ones."""
        known = {value: param.name for param, value in _arguments(variant)}
        taken, names = {*buffers_of(variant.function)}, dict[str, str]()
        for name in (buffer.name for buffer in self.elements.params):
            value, new = self.values.get(name), name
            if value in known and value is not passed:
                new = known[value]
            else:
                while new in taken:
                    new = f"{new}_joined"
                taken.add(new)
            names[name] = new
        return _Map(
            self.elements.renamed(names),
            {names[name]: value for name, value in self.values.items()},
            {names[name]: array for name, array in self.constants.items()},
        )

    def param(self, value: Value) -> Buffer:
        """The parameter of a value."""
        return next(b for b in self.elements.params if self.values.get(b.name) is value)

    def variant(self, variant: Variant, func: PrimFunc) -> Variant:
        """The variant with a function that has this map in it.

        Raises ContractError where nothing proves that its threads store elements of their own.
        """
        verify_func(func)
        values = {**self.values, **{param.name: value for param, value in _arguments(variant)}}
        constants = {**self.constants, **variant.constants}
        return replace(
            variant,
            schedule=Schedule(func),
            function=func,
            args=tuple(values.get(p.name) for p in func.params),
            constants={p.name: constants[p.name] for p in func.params if p.name in constants},
            scratch=scratch_buffers(func),
            instructions=round(estimate(func).instructions),
            in_place=(),
        )


def _arguments(variant: Variant) -> list[tuple[Buffer, Value]]:
    """The parameters that are inputs or outputs, with their values."""
    pairs = zip(variant.function.params, variant.args, strict=True)
    return [(param, value) for param, value in pairs if value is not None]


def _param(variant: Variant, value: Value) -> Buffer:
    return next(param for param, own in _arguments(variant) if own is value)


def _may_run_joined(lowered: LoweredGroup) -> bool:
    """Whether it is plain kernels of a GPU with one output."""
    group = lowered.group
    is_own = not (group.nodes[0].bodies or group.nodes[0].op.is_foreign or is_open(group))
    return is_own and not lowered.on_processor and len(group.outputs) == 1


def _map_of(lowered: LoweredGroup) -> _Map | None:
    if any(node.op.fusion not in _MAPS for node in lowered.group.nodes):
        return None
    if not _may_run_joined(lowered):
        return None
    plain = plain_variant(lowered.group)
    elements = element_map(plain.schedule.func)
    if elements is None:
        return None
    values = {param.name: value for param, value in _arguments(plain)}
    return _Map(elements, values, plain.constants)


class _Joiner:
    def __init__(self, function: Function, groups: Groups, target: Target) -> None:
        self.roots = storage(function)
        self.uses = Counter(self.root(v) for each in groups for v in each.group.activations)
        self.results = {self.root(value) for value in function.results}
        # States are updated in place, so their reads must stay in order.
        self.states = {s.before for s in function.states}
        self.states |= {self.root(s.after) for s in function.states}
        self.gpu, self.driver = GPUS[target.core.gpu_architecture], target.options.driver
        self.maps = {each.group.nodes: _map_of(each) for each in groups}

    def root(self, value: Value) -> Value:
        return self.roots.get(value, value)

    def joined(
        self, done: Sequence[LoweredGroup], reader: LoweredGroup
    ) -> tuple[LoweredGroup, LoweredGroup] | None:
        """The first group that the reader can join, and the joined group; None if there is none.

        Joining the first one leaves later groups, such as another branch, for further joins.
        """
        values = {self.root(value): value for value in reader.group.activations}
        for at, maker in enumerate(done):
            passed = values.get(maker.group.output)
            if passed is None or not self.may_join(done[at:], reader):
                continue
            found = tuple(self.variants(maker, reader, passed))
            if found and self.us(found[0]) < sum(self.us(g.variants[0]) for g in (maker, reader)):
                return maker, LoweredGroup(_both(maker.group, reader.group, passed), found)
        return None

    def may_join(self, done: Sequence[LoweredGroup], reader: LoweredGroup) -> bool:
        """Whether the first of these groups may run together with its only reader."""
        maker, made = done[0], done[0].group.output
        is_own = self.uses[made] == 1 and made not in self.results
        is_plain = _may_run_joined(maker) and _may_run_joined(reader)
        stays = any(each.on_processor for each in done)
        return is_own and is_plain and not stays and not self.has_state(maker, reader)

    def has_state(self, *groups: LoweredGroup) -> bool:
        """Whether a group reads or makes a state."""
        values = (v for g in groups for v in (*g.group.activations, *g.group.outputs))
        return any(self.root(value) in self.states for value in values)

    def us(self, variant: Variant) -> float:
        return launched_us(variant.function, self.gpu, self.driver)

    def variants(
        self, maker: LoweredGroup, reader: LoweredGroup, value: Value
    ) -> Iterator[Variant]:
        """Ways to run both at once, which share a value."""
        made, after = self.root(value), self.maps.get(reader.group.nodes)
        before = self.maps.get(maker.group.nodes)
        for variant in maker.variants:
            with suppress(ScheduleError, ContractError):
                own = _beside(after, variant, value)
                out = _param(variant, made)
                func = store_through(variant.function, out, own.elements, own.param(value))
                yield own.variant(variant, func)
        for variant in reader.variants:
            with suppress(ScheduleError, ContractError):
                own = _beside(before, variant, made)
                func = read_through(variant.function, _param(variant, value), own.elements)
                yield own.variant(variant, func)


def _beside(given: _Map | None, variant: Variant, passed: Value) -> _Map:
    if given is None:
        raise ScheduleError("it is not a map")
    return given.beside(variant, passed)


def _both(maker: Group, reader: Group, passed: Value) -> Group:
    inputs = dict.fromkeys(v for v in (*maker.inputs, *reader.inputs) if v is not passed)
    return Group(maker.nodes + reader.nodes, tuple(inputs), maker.halves | reader.halves)
