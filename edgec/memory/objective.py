"""The cost of a choice: one objective over everything that may run.

A choice is a variant of each group. `edgec.options.Prices` combines its instructions, flash and
arena bytes in one number; limits come before the price.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from edgec.loop.cost import estimate_code_bytes
from edgec.loop.ir import PrimFunc, remembered, shared
from edgec.loop.microkernel import Microkernel, get_microkernel, kernels_of
from edgec.options import Prices
from edgec.passes.lower_groups import LoweredGroup, Variant

#: The rank of a choice: bytes over the arena's limit, instructions over the time's, the price, then
#: the arena and the instructions. Smaller is better.
Rank = tuple[float, float, float, int, int]
#: Code that is emitted once, however many use it, and its bytes.
Part = tuple[object, int]
#: Two schedules store weights in equally many bits if the larger one takes at most 1.25 times the
#: bytes of the other: rows may be padded, and groups have scales.
ALIKE = 1.25


@dataclass(frozen=True)
class Fact:
    """The objective's facts about a variant, relative to others of its menu.

    weights_bytes: its constants if it stores weights in fewer bits, else the constants of the
    fastest variant that does not. fewest: instructions of the fastest variant with the same storage
    of weights.
    """

    weights_bytes: int
    fewest: float
    is_short: bool


@dataclass(frozen=True)
class Objective:
    """Prices within limits, for the menus of one function.

    limit_bytes: of the arena. slack: instructions allowed above the minimum. plain_bytes, plain:
    the arena and the fewest instructions without kernels that rescale on an FPU. weights_bytes: of
    all weights in the fastest variants. short: kernels that store weights in fewer bits than
    others. facts: keyed by the identity of a variant's constants, which its copies share.
    """

    prices: Prices
    limit_bytes: float
    slack: float
    plain_bytes: float
    plain: int
    weights_bytes: int
    short: frozenset[str]
    facts: dict[int, Fact] = field(default_factory=dict)

    def fact(self, variant: Variant) -> Fact:
        """The fact about a variant of a group or of a streaming segment."""
        return self.facts[id(variant.constants)]

    def rank(self, tally: Tally, ram_bytes: int) -> Rank:
        """The rank of a choice with this arena."""
        instructions = tally.instructions
        if tally.has_frames and not self.are_frames_free(tally, ram_bytes):
            instructions += self.prices.frames
        cost = self.prices.cost(instructions, tally.flash_bytes, ram_bytes)
        cost += self.prices.weights * tally.weights_bytes / max(self.weights_bytes, 1)
        over_bytes, over = ram_bytes - self.limit_bytes, instructions - tally.fewest - self.slack
        return max(0, over_bytes), max(0, over), cost, ram_bytes, tally.instructions

    def are_frames_free(self, tally: Tally, ram_bytes: int) -> bool:
        """Whether larger frames of interrupts are all the memory that half of the time costs."""
        return ram_bytes <= self.plain_bytes and 2 * tally.instructions <= self.plain


def make_objective(
    groups: Sequence[LoweredGroup], prices: Prices, limit_bytes: float, slowdown: float,
    plain_bytes: float = 0,
) -> Objective:  # fmt: skip
    """The objective for these menus; slowdown: the most instructions, relative to the fewest.

    plain_bytes: the smallest arena without kernels that rescale on an FPU.
    """
    fastest = [min(g.variants, key=lambda v: v.instructions) for g in groups]
    fewest = sum(variant.instructions for variant in fastest)
    slack = (slowdown - 1) * fewest + prices.frames * any(map(_has_frames, fastest))
    short = frozenset().union(*map(_short_kernels, groups))
    weights = sum(variant.constant_bytes for variant in fastest)
    plain = sum(min(v.instructions for v in without_frames(g).variants) for g in groups)
    if plain - fewest >= prices.frames:  # they save enough to be used
        plain_bytes = 0
    made = Objective(prices, limit_bytes, slack, plain_bytes, plain, weights, short)
    for lowered in groups:
        made.facts.update(_facts(lowered, short))
    return made


def _facts(lowered: LoweredGroup, short: frozenset[str]) -> Mapping[int, Fact]:
    """The facts of all variants of a menu."""
    variants = lowered.variants
    calling = [not short.isdisjoint(kernels_of(v.function)) for v in variants]
    few = max((v.constant_bytes for v, i in zip(variants, calling, strict=True) if i), default=-1)
    #: Loops may read weights of few bits as well as kernels do.
    is_short = [v.constant_bytes <= few for v in variants]
    pairs = list(zip(variants, is_short, strict=True))
    usual = min((v for v, kind in pairs if not kind), key=lambda v: v.instructions, default=None)

    def fewest(least: Variant, kind: bool) -> float:
        most = ALIKE * least.constant_bytes if kind else math.inf
        return min(v.instructions for v in variants if v.constant_bytes <= most)

    return {
        id(v.constants): Fact(
            v.constant_bytes if kind or usual is None else usual.constant_bytes,
            fewest(v, kind), kind,
        )
        for v, kind in pairs
    }  # fmt: skip


def _short_kernels(lowered: LoweredGroup) -> frozenset[str]:
    """Kernels that store weights in fewer bits than others of the menu, or than a byte."""
    called = {name for variant in lowered.variants for name in kernels_of(variant.function)}
    kernels = [kernel for kernel in map(get_microkernel, called) if kernel.stream is not None]
    most = max((kernel.weight_bits for kernel in kernels), default=8)
    return frozenset(kernel.name for kernel in kernels if kernel.weight_bits < max(most, 8))


class Tally:
    """The totals of the variants that run; shared code counts once.

    fewest: the instructions of the fastest variants with the same storage of weights.
    weights_bytes: of weights, and of the kernels that read weights of fewer bits. stored_bytes: of
    constants and kernels, whose sizes are known; other code sizes are estimates. kernels: their
    number.
    """

    def __init__(self, objective: Objective, variants: Iterable[Variant]) -> None:
        self.objective = objective
        self.instructions = self.flash_bytes = self.weights_bytes = 0
        self.stored_bytes = self.kernels = 0
        self.fewest = 0.0
        self._users: Counter[object] = Counter()
        for variant in variants:
            self.change(variant, 1)

    def change(self, variant: Variant, count: int) -> None:
        """One group more, or (-1) one less, runs in this variant."""
        fact = self.objective.fact(variant)
        self.instructions += count * variant.instructions
        self.fewest += count * fact.fewest
        self.flash_bytes += count * variant.constant_bytes
        self.stored_bytes += count * variant.constant_bytes
        self.weights_bytes += count * fact.weights_bytes
        for part, size in _parts(variant):
            before = self._users[part]
            self._users[part] += count
            emitted = (before + count > 0) - (before > 0)
            self.flash_bytes += emitted * size
            if isinstance(part, str):
                self.stored_bytes += emitted * size
                self.kernels += emitted
            if part in self.objective.short:
                self.weights_bytes += emitted * size

    def stream(self, instructions: int, fact: Fact) -> None:
        """Add a streaming segment; only this estimate of it is known yet."""
        self.instructions += instructions
        self.fewest += fact.fewest
        self.flash_bytes += fact.weights_bytes
        self.weights_bytes += fact.weights_bytes

    @property
    def has_frames(self) -> bool:
        """Whether kernels rescale integers on an FPU: frames of interrupts are larger then."""
        return any(n and isinstance(p, str) and _rescales_on_fpu(p) for p, n in self._users.items())


def flash_bytes(variants: Iterable[Variant]) -> int:
    """Estimate the bytes of constants and code: a function, and a kernel that it calls, counts
    once.
    """
    variants = list(variants)
    return sum(v.constant_bytes for v in variants) + code_bytes(variants)


def code_bytes(variants: Iterable[Variant]) -> int:
    """Estimate the code bytes of all of these together."""
    return sum(dict(part for variant in variants for part in _parts(variant)).values())


def _parts(variant: Variant) -> tuple[Part, ...]:
    """The code that a variant needs: its functions, and the kernels that they call."""
    if variant.callees:
        return _parts_of(variant.function, *variant.callees.values())
    return _own_parts(variant.function)


@remembered
def _own_parts(function: PrimFunc) -> tuple[Part, ...]:
    return _parts_of(function)


def _parts_of(*functions: PrimFunc) -> tuple[Part, ...]:
    known = {_key(shared(f)): f for f in functions}
    called = {f: sum(k.code_bytes for k in _kernels(f)) for f in known.values()}
    own = [(key, estimate_code_bytes(f) - called[f]) for key, f in known.items()]
    kernels = {k.name: k.code_bytes for f in known.values() for k in _kernels(f)}
    return (*own, *sorted(kernels.items()))


@remembered
def _key(function: PrimFunc) -> object:
    """A key that equal functions share and that is cheap to compare."""
    return object()


def _kernels(function: PrimFunc) -> list[Microkernel]:
    return [get_microkernel(name) for name in kernels_of(function)]


def _has_frames(variant: Variant) -> bool:
    return any(map(_rescales_on_fpu, kernels_of(variant.function)))


@cache
def _rescales_on_fpu(name: str) -> bool:
    """Whether a kernel of integers needs an FPU, which its layer does not."""
    needs = get_microkernel(name).needs
    return "fpu" in needs and needs != {"fpu"}


def without_frames(lowered: LoweredGroup) -> LoweredGroup:
    """The menu without kernels that rescale integers on an FPU, where it has others."""
    kept = tuple(v for v in lowered.variants if not _has_frames(v))
    is_same = not kept or len(kept) == len(lowered.variants)
    return lowered if is_same else LoweredGroup(lowered.group, kept)
