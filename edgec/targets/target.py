"""A target: a core, the user's options, and the rules that schedule loops for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import edgec.targets.kernels  # noqa: F401  registers the kernels that rules name
from edgec.errors import ScheduleError
from edgec.graph.ir import Node
from edgec.graph.traits import Storage
from edgec.loop.lowering import Lowering
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.ops.table import ByTable
from edgec.options import Options
from edgec.targets.aarch64 import rules as aarch64
from edgec.targets.common import float_rows, loops, low_rank
from edgec.targets.common.constant_channels import folded_channels
from edgec.targets.common.sums import find_sums
from edgec.targets.common.threads import on_threads
from edgec.targets.core import Core, processor_of
from edgec.targets.cortex_m import rules as cortex_m
from edgec.targets.cuda import rules as cuda
from edgec.targets.external import rules_of
from edgec.targets.riscv import rules as riscv
from edgec.targets.rule import Nest, Rule
from edgec.targets.x86 import rules as x86

#: By the family of machine code, or for GPUs of every processor.
RULES: dict[str, tuple[Rule, ...]] = {
    "thumb": cortex_m.RULES,
    "rv32": riscv.RULES,
    "xtensa": riscv.RULES,
    "x86_64": (low_rank.RULE, *x86.RULES, *float_rows.RULES, *loops.RULES, *loops.LOOPS),
    "aarch64": (low_rank.RULE, *aarch64.RULES, *float_rows.RULES, *loops.RULES, *loops.LOOPS),
    "cuda": cuda.RULES,
}

#: Number of multiply-accumulates that justify a separate step (a hundred bytes of code) for the
#: nodes after them.
MANY_PRODUCTS = 10_000


@dataclass(frozen=True)
class Offer:
    """A schedule, and the constants of the function that it begins with."""

    schedule: Schedule
    tables: Mapping[str, Array]


@dataclass(frozen=True)
class Target:
    """Schedules the loops for a core, by the options.

    in_rows: each call makes one row of an image, as in streamed layers. paired: channels are
    ordered so that kernels take them in pairs. Weights of -128 then have fast kernels, which may
    take more scratch and code than loops. only_loops: no kernels. only_ours: none of the user's
    kernels. beside: the processor of a core with a GPU, when parts of a model run on each.
    has_much_to_do: spend more stack and code to save time, because the model has many products.
    spares_ram: layers stream even where their rows take more code and time than balanced allows.
    """

    core: Core
    options: Options
    in_rows: bool = False
    paired: bool = False
    only_loops: bool = False
    only_ours: bool = False
    beside: Target | None = None
    has_much_to_do: bool = False
    spares_ram: bool = False

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of its instruction set that it may use, the best first."""
        known = RULES["cuda" if self.core.has_gpu else self.core.isa]
        known = loops.LOOPS if self.only_loops else known
        is_alone = self.only_loops or self.only_ours or self.in_rows
        theirs = () if is_alone else rules_of(self.options.kernels)
        return tuple(r for r in (*theirs, *known) if r.is_for(self.core, self.options))

    def menu(self, lowered: Lowering) -> Iterator[list[Offer]]:
        """A group's schedules, the fastest first; rules with the same first steps are grouped."""
        func = lowered.build()
        tables = folded_channels(func, lowered.tables)
        plain = Nest(
            func, tables, lowered.window, self.core, self.options, self.in_rows, find_sums(func),
            self.paired, lowered.accumulators, scales=lowered.scales,
            halves=lowered.halves, has_much_to_do=self.has_much_to_do, spares_ram=self.spares_ram,
        )  # fmt: skip
        rules = (rule for rule in self.rules if rule.match(plain))
        for prepare, those in groupby(rules, key=lambda rule: rule.prepare):
            try:
                nest = prepare(plain)
            except ScheduleError:
                continue
            given = nest.tables if nest.begun is None else tables
            yield [Offer(self._on_threads(each), given) for each in _schedules(those, nest)]

    def _on_threads(self, schedule: Schedule) -> Schedule:
        if self.options.threads == 1 or self.in_rows:
            return schedule
        return on_threads(schedule, self.options.threads)

    def is_whole(self, members: Sequence[Node], following: Node) -> bool:
        """Whether the nodes' products would lose their kernel if the next node joined them.

        On a core without vectors an integer kernel's constants take more flash than the loops', so
        before a dequantize this is done only for time.
        """
        first, *others = members
        macs = sum(member.macs for member in members)
        if self.options.prices.is_small or first.op.dot_products is None or macs < MANY_PRODUCTS:
            return False
        dtype = first.inputs[0].type.dtype
        if dtype == "float32":
            is_limited = following.op.is_limit and not others  # kernels do that
            return self.core.is_embedded and self.core.has("fpu") and not is_limited
        is_much_faster = self.core.has("mve") or self.paired
        if not self.core.has("dsp") or not (is_much_faster or isinstance(following.op, ByTable)):
            return False
        is_rescaled = [member.op.storage for member in others] == [Storage.REQUANTIZE]
        is_channel = first.op.dot_products.is_depthwise
        return is_rescaled and (dtype == "int16" or (dtype == "int8" and not is_channel))


def _schedules(rules: Iterable[Rule], nest: Nest) -> Iterator[Schedule]:
    """The schedules of all rules, up to one that ends the menu."""
    for rule in rules:
        found = rule.apply(nest)
        yield from found
        if found and rule.ends_menu(nest, found):
            return


def target_for(core: Core, options: Options) -> Target:
    """The target of a core. Kernels for vectors are assembly, and C in their place is slow."""
    if options.no_asm:
        core = replace(core, features=core.features - {"mve"})
    beside = None
    if core.has_gpu and options.shares_out:
        beside = target_for(processor_of(core), options)
    target = Target(core, options, beside=beside)
    return replace(target, paired=core.has_pairs and options.prices.is_fast)
