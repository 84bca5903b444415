"""Which groups run on a GPU, and which on the processor beside it: the cheapest cut.

    source: the GPU                    on the processor, a group costs the edge from the source
       |  processor's time             on the GPU, it costs the edge to the sink
     group  -- copies, switches -- group
       |  GPU's time                   a value costs one copy where any reader is on the other side
    sink: the processor                neighbours on different sides cost half a start of the GPU

Costs are the models of `edgec.targets.cuda.costs`. The model's inputs and outputs are on the
processor's side. Groups that no GPU runs well stay there too: control flow, open sizes, the user's
C functions.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from edgec.errors import EdgecError
from edgec.graph.ir import Constant, Function, Value
from edgec.memory.cut import NEVER, SINK, SOURCE, cheapest_cut
from edgec.options import Offload
from edgec.passes.fuse_groups import Group, storage
from edgec.passes.lower_groups import LoweredGroup
from edgec.passes.open_groups import is_open
from edgec.targets.cuda.costs import GPUS, Gpu, copy_us, kernels_us, on_processor_us
from edgec.targets.target import Target

Edge = tuple[Hashable, Hashable, int]


def stays_on_processor(group: Group) -> bool:
    """Whether no GPU runs a group well, or at all."""
    return bool(group.nodes[0].bodies) or group.nodes[0].op.is_foreign or is_open(group)


def share_out(
    function: Function,
    on_gpu: Sequence[LoweredGroup | None],
    on_processor: Sequence[LoweredGroup],
    target: Target,
) -> tuple[LoweredGroup, ...]:
    """Each group's menu on the side that runs it, in order.

    on_gpu: None for a group that must stay on the processor. Raises EdgecError if the options name
    a layer that the model does not have, or that no GPU runs.
    """
    offload = target.options.offload
    gpu_costs = GPUS[target.core.gpu_architecture]
    side = (
        cheapest_cut(_Costs(function, on_gpu, on_processor, gpu_costs).edges())
        if offload == "auto"
        else _named(offload, on_gpu, on_processor)
    )
    return tuple(
        gpu if position in side and gpu is not None else replace(processor, on_processor=True)
        for position, (gpu, processor) in enumerate(zip(on_gpu, on_processor, strict=True))
    )


def _named(
    names: Offload, on_gpu: Sequence[LoweredGroup | None], on_processor: Sequence[LoweredGroup]
) -> frozenset[Hashable]:
    """The positions of the groups with these names."""
    known = [{each.group.name, *each.group.sources} for each in on_processor]
    found: set[Hashable] = set()
    for name in (names,) if isinstance(names, str) else names:
        positions = [position for position, own in enumerate(known) if name in own]
        if not positions:
            near = difflib.get_close_matches(
                name, sorted(set[str]().union(*known)), n=3, cutoff=0.3
            )
            raise EdgecError(
                f"no layer to offload is called '{name}'",
                hint=f"near it: {', '.join(near)}" if near else "see `edgec inspect`",
            )
        if any(on_gpu[position] is None for position in positions):
            raise EdgecError(
                f"'{name}' cannot be offloaded: control flow, open sizes and C of your own run on"
                " the processor",
                hint="remove its name, or use --offload auto",
            )
        found.update(positions)
    return frozenset(found)


class _Costs:
    """The graph whose cheapest cut shares groups out. Nodes are positions; costs nanoseconds."""

    def __init__(
        self, function: Function, on_gpu: Sequence[LoweredGroup | None],
        on_processor: Sequence[LoweredGroup], gpu: Gpu,
    ) -> None:  # fmt: skip
        self.on_gpu, self.on_processor, self.gpu = on_gpu, on_processor, gpu
        roots = storage(function)
        self.made: dict[Value, Hashable] = dict.fromkeys(function.inputs, SINK)
        self.readers: dict[Value, list[Hashable]] = {}
        for position, lowered in enumerate(on_processor):
            self.made |= dict.fromkeys(lowered.group.outputs, position)
            for value in lowered.group.activations:
                self.readers.setdefault(roots.get(value, value), []).append(position)
        for value in function.outputs:
            if not isinstance(value, Constant):
                self.readers.setdefault(roots.get(value, value), []).append(SINK)

    def edges(self) -> Iterator[Edge]:
        """All edges: the costs of groups, of copies, and of switching sides."""
        for position, (gpu, processor) in enumerate(
            zip(self.on_gpu, self.on_processor, strict=True)
        ):
            slow = min(variant.instructions for variant in processor.variants)
            yield SOURCE, position, _nanoseconds(on_processor_us(slow, self.gpu))
            yield position, SINK, self._on_gpu_ns(gpu)
        yield from self._switches()
        for value, readers in self.readers.items():
            if value in self.made:
                yield from self._copies(value, self.made[value], readers)

    def _on_gpu_ns(self, gpu: LoweredGroup | None) -> int:
        if gpu is None:
            return NEVER
        return _nanoseconds(min(kernels_us(v.function, self.gpu) for v in gpu.variants))

    def _switches(self) -> Iterator[Edge]:
        last = len(self.on_processor) - 1
        half = _nanoseconds(self.gpu.start_us / 2)
        for position in range(last):
            yield position, position + 1, half
            yield position + 1, position, half
        if last >= 0:
            yield 0, SINK, half
            yield last, SINK, half

    def _copies(self, value: Value, maker: Hashable, readers: Sequence[Hashable]) -> Iterator[Edge]:
        """One copy for all readers on the other side, whichever side that is."""
        cost = _nanoseconds(copy_us(value.type.nbytes, self.gpu))
        to_gpu, to_processor = (value.name, "to GPU"), (value.name, "to processor")
        yield to_gpu, maker, cost
        yield maker, to_processor, cost
        for reader in readers:
            yield reader, to_gpu, NEVER
            yield to_processor, reader, NEVER


def _nanoseconds(us: float) -> int:
    return max(round(us * 1000), 1)
