"""The candidates of one group: schedules of the rules, and of sketches with decisions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from edgec.build.bare_function import constant_offsets, constants_name, text_in_model
from edgec.errors import EdgecError
from edgec.external.check import array_of
from edgec.graph.ir import Value
from edgec.graph.types import Array
from edgec.loop.dtype import is_integer
from edgec.loop.ir import PrimFunc
from edgec.loop.lowering import Lowering
from edgec.loop.printer import print_func
from edgec.loop.rescale_lines import HIGH, PARTS, by_line
from edgec.loop.tuned import Winner
from edgec.passes.fuse_groups import Group
from edgec.passes.lower_groups import Variant, lower_group, lowering_of, variant_of
from edgec.passes.tuned_variants import function_digest
from edgec.sim.arguments import Argument
from edgec.targets.common.sums import find_sums
from edgec.targets.rule import Nest
from edgec.targets.target import Target
from edgec.tune.decisions import Decisions, Made
from edgec.tune.measure import NAME, Candidate
from edgec.tune.sketches import find_sketch

#: Of the random inputs of every candidate.
INPUT_SEED = 1
#: Scratch starts with these bytes: a function that reads it before writing differs from the
#: reference.
_STALE = b"\x5a"


@dataclass(frozen=True)
class Found:
    """A schedule that may be measured. made, choices: its decisions; empty for one of the rules'.

    winner: how it is written to a file, without figures.
    """

    variant: Variant
    digest: str
    made: Made
    choices: Mapping[str, tuple[int | str | bool, ...]]
    winner: Winner | None = None


class Candidates:
    """The candidates of a group for a target."""

    def __init__(self, group: Group, target: Target) -> None:
        self.group = group
        self.target = target
        self._nests: dict[str, Nest] = {}

    @cached_property
    def nest(self) -> str:
        """The digest of the nest as the operators define it."""
        return function_digest(self._nest("").func)

    @cached_property
    def defaults(self) -> tuple[Found, ...]:
        """The schedules of the rules, the fastest first."""
        variants = lower_group(self.group, self.target).variants
        return tuple(Found(v, function_digest(v.function), {}, {}) for v in variants)

    @property
    def has_space(self) -> bool:
        """Whether there are candidates other than the rules' schedules."""
        nest = self._nest("")
        return find_sketch(nest) is not None

    def draw(self, given: Made, rng: random.Random) -> Found | None:
        """The candidate of these decisions; missing ones are drawn. None if they do not fit."""
        ask = Decisions(given, rng)
        rescaling = ask.choose("rescaling", self._rescalings)
        nest = self._nest(rescaling)
        sketch = find_sketch(nest)
        if sketch is None:
            return None
        try:
            schedule = sketch.write(nest, ask)
            variant = variant_of(schedule, nest.tables, self._lowered[1])
        except EdgecError:
            return None
        made = function_digest(variant.function)
        winner = Winner(rescaling, schedule.trace_json(), made)
        return Found(variant, made, ask.made, ask.choices, winner)

    def candidate(self, found: Found, position: int) -> Candidate:
        """The candidate as a worker measures it, as a function of this number."""
        variant = found.variant
        names = {id(v): name for name, v in self._lowered[1].items()}
        constants, offsets = (
            constants_name(NAME.format(position)),
            constant_offsets(variant.function),
        )
        arguments = []
        for param, value in zip(variant.function.params, variant.args, strict=True):
            if param.scope == "constant":
                data, offset = variant.constants[param.name].tobytes(), offsets[param.name]
                arguments.append(Argument(data, symbol=constants, offset=offset))
            elif value is None:
                size = param.elements * np.dtype(param.dtype).itemsize
                arguments.append(Argument(_STALE * size, is_written=True))
            elif (name := names[id(value)]) in self.inputs:
                arguments.append(Argument(self.inputs[name].tobytes()))
            else:
                expected = self.reference[name].tobytes()
                arguments.append(Argument(_STALE * len(expected), True, expected))
        text = text_in_model(variant, NAME.format(position))
        return Candidate(text, tuple(arguments), variant.scratch_bytes)

    @cached_property
    def inputs(self) -> Mapping[str, Array]:
        """Random inputs by parameter name: the same for every candidate."""
        return random_inputs(self.plain, INPUT_SEED)

    @cached_property
    def reference(self) -> Mapping[str, Array]:
        """The operators' own results for the inputs, on NumPy's arrays."""
        lowering = self._lowered[0]
        return lowering.definition.evaluate({**self.inputs, **lowering.tables})

    @property
    def plain(self) -> PrimFunc:
        """The nest as the operators define it."""
        return self._nest("").func

    @property
    def tables(self) -> Mapping[str, Array]:
        """The constants of `plain`."""
        return self._lowered[0].tables

    @cached_property
    def _rescalings(self) -> list[str]:
        if not is_integer(self._nest("").dtype):
            return [""]
        lines = HIGH if self.target.core.multiplies_wide else PARTS
        is_other = print_func(self._nest(lines).func) != print_func(self._nest("").func)
        return ["", lines] if is_other else [""]

    @cached_property
    def _lowered(self) -> tuple[Lowering, Mapping[str, Value]]:
        return lowering_of(self.group)

    def _nest(self, rescaling: str) -> Nest:
        if rescaling not in self._nests:
            lowering, func = self._lowered[0], self._lowered[0].build()
            made, tables = by_line(func, lowering.tables, lowering.accumulators, rescaling)
            self._nests[rescaling] = Nest(
                made, tables, lowering.window, self.target.core, self.target.options,
                sums=find_sums(func),
            )  # fmt: skip
        return self._nests[rescaling]


def random_inputs(func: PrimFunc, seed: int) -> dict[str, Array]:
    """Random arrays for the inputs of a function, by parameter name."""
    rng = np.random.default_rng(seed)
    reads = [p for p in func.params if p.scope == "arena" and p.name.startswith("x")]
    return {p.name: array_of(p.shape, p.dtype, "random", rng) for p in reads}
