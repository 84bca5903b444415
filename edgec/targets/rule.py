"""A target's rules, which turn the loops of a group into schedules, the best first.

    def is_dense(nest: Nest) -> bool: ...                  # ask what the nest is
    def on_kernel(nest: Nest) -> list[Schedule]: ...       # apply primitives, the kernel last
    RULES = (Rule("dense", is_dense, on_kernel, needs={"avx2"}, kernels=("ec_dense_s8_avx2",)),)

A rule matches the nest as the operators write it: its sums, dtypes and what follows them, never an
operator's name. `Target.menu` asks the rules of an instruction set in their order; each adds its
schedules to the menu of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from edgec.loop.ir import PrimFunc
from edgec.loop.rescale_lines import HIGH, PARTS, Accumulators, by_line
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.loop.window import Window
from edgec.options import Options
from edgec.targets.common.nests import find_param
from edgec.targets.common.sums import Kind, Sums
from edgec.targets.core import Core


@dataclass(frozen=True)
class Nest:
    """The loops of one group, and for whom they are scheduled.

    tables: the function's constants, by parameter. window: of sums over windows, if the operator
    has one. in_rows: the function makes one row of an image, as in streamed layers. sums: the
    group's kind of sums before first steps changed `func`. paired: as for `Target`. accumulators:
    the known intervals of rescaled sums. begun: the first steps, which made `func` and `tables`.
    scales: scales and zero points of quantized inputs and outputs, by parameter. halves: float32
    inputs whose numbers all fit in float16.
    """

    func: PrimFunc
    tables: Mapping[str, Array]
    window: Window | None
    core: Core
    options: Options
    in_rows: bool = False
    sums: Sums | None = None
    paired: bool = False
    accumulators: Accumulators | None = None
    begun: Schedule | None = None
    scales: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    halves: frozenset[str] = frozenset()
    has_much_to_do: bool = False
    spares_ram: bool = False

    @property
    def is_depthwise(self) -> bool:
        """Whether it sums windows of each channel."""
        return self.sums is not None and self.sums.kind is Kind.CHANNEL_WINDOWS

    def schedule(self) -> Schedule:
        """A schedule that goes on from the first steps, if there are any."""
        return Schedule(self.func) if self.begun is None else self.begun.copy()

    def after(self, schedule: Schedule, window: Window | None = None) -> Nest:
        """The nest after first steps; window: of its sums, if the steps changed it."""
        tables = {name: schedule.table(name, self.tables) for name in self.tables}
        return replace(
            self, func=schedule.func, tables=tables, window=window or self.window, begun=schedule
        )

    @cached_property
    def on_lines(self) -> Nest:
        """The nest whose sums are rescaled as plain loops of the core do."""
        func, tables = by_line(self.func, self.tables, self.accumulators, self.rescaling)
        return replace(self, func=func, tables=tables)

    @cached_property
    def temporaries(self) -> frozenset[str]:
        """The names of the buffers between inputs and outputs."""
        return frozenset(b.name for b in self.func.params if b.scope == "scratch")

    @cached_property
    def dtype(self) -> str:
        """The dtype of the first input; empty where there is none."""
        return next((b.dtype for b in self.func.params if b.name == "x"), "")

    @property
    def out_dtype(self) -> str:
        """The dtype of the first output."""
        return find_param(self.func, "out").dtype

    @property
    def is_small(self) -> bool:
        """Whether the fewest bytes count, not time."""
        return self.options.prices.is_small

    @property
    def is_fast(self) -> bool:
        """Whether the fastest schedule may take more scratch or code."""
        return self.options.prices.is_fast

    @property
    def spares_code(self) -> bool:
        """Whether straight code is long: products of 64 bits have to be composed."""
        return self.core.is_embedded and not self.core.multiplies_wide

    @property
    def rescaling(self) -> str:
        """The lines that rescale sums in plain loops, where they are proven to be equal.

        Layers of one shape may need different lines, and then do not share their code: `size` does
        without, and so do cores whose plain loops have little to rescale, but for time.
        """
        has_kernels = self.core.has("dsp") and not self.is_fast
        if not self.core.is_embedded or self.is_small or has_kernels:
            return ""
        return HIGH if self.core.multiplies_wide else PARTS

    @property
    def weight_bits(self) -> tuple[int, ...]:
        """Bits that kernels may store weights in; with both, the choice is made later.

        Rows of a layer must agree on them.
        """
        if self.is_fast:
            return (8,)
        is_weighed = self.options.prices.weighs_weights and not self.is_small and not self.in_rows
        return (8, 4) if is_weighed else (4,)


#: Whether a rule may be for a nest, and the schedules of it.
Match = Callable[[Nest], bool]
Apply = Callable[[Nest], list[Schedule]]
#: First steps that several rules share; ScheduleError if they do not apply to a nest.
Prepare = Callable[[Nest], Nest]


def by_lines(nest: Nest) -> Nest:
    """The first step of plain loops: sums rescaled by lines."""
    return nest.on_lines


def as_defined(nest: Nest) -> Nest:
    """No first step: sums rescaled as operators define it, as kernels do."""
    return nest


def never(nest: Nest, found: list[Schedule]) -> bool:
    """The rule's schedules are one choice among others."""
    return False


def always(nest: Nest, found: list[Schedule]) -> bool:
    """Whether the rule's schedules are better than all later rules'."""
    return True


@dataclass(frozen=True)
class Rule:
    """One way to run the nests that it matches.

    match: whether it may be for a nest, lowered plainly. apply: its schedules, the fastest first;
    none where the nest turns out not to fit. needs, lacks: features that the core must have, and
    must not have. kernels: patterns (as of file names) of the kernels that its schedules call.
    for_size: only where flash alone counts, or only elsewhere; None is for both. is_assembly: the
    kernels are slow without assembly, and `--no-asm` does without them. ends_menu: whether rules
    after it are left out, asked where it found schedules. prepare: first steps, of whose nest
    `apply` makes its schedules.
    """

    name: str
    match: Match
    apply: Apply
    needs: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()
    kernels: tuple[str, ...] = ()
    for_size: bool | None = None
    is_assembly: bool = False
    ends_menu: Callable[[Nest, list[Schedule]], bool] = never
    prepare: Prepare = field(default=by_lines, kw_only=True)

    def is_for(self, core: Core, options: Options) -> bool:
        """Whether a core has the needed features, and the options allow the rule."""
        return (
            self.needs <= core.features
            and self.lacks.isdisjoint(core.features)
            and self.for_size in (None, options.prices.is_small)
            and not (self.is_assembly and options.no_asm)
        )
