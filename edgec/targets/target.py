"""A target: for each kind of function and core, how its loops are arranged.

A target names the forms that an operator should be lowered in, and gives the menu of schedules of
a lowered function; nothing else decides how code looks. Functions are told apart by their name,
which is that of the operator the group starts with. What a target does not know runs as plain
loops with its temporaries in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import edgec.targets.kernels  # noqa: F401  registers what rules name
from edgec.errors import ScheduleError
from edgec.loop.ir import PrimFunc
from edgec.loop.lowering import (
    COLUMN_PLANES,
    DEPTHWISE_WINDOWS,
    FLOORED,
    GATHERED,
    HIGH,
    MATRIX,
    PARTS,
    PLANE,
    PLANE_WINDOWS,
    PRODUCTS,
    ROWS,
    SHORTS,
    STEPS,
)
from edgec.loop.microkernel import kernels_of
from edgec.loop.primitives.halves import fits_halves
from edgec.loop.primitives.nibbles import fits_nibbles
from edgec.loop.primitives.shifts import find_shifts
from edgec.loop.primitives.steps import find_steps
from edgec.loop.rewrite import buffers_of
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.loop.window import Window
from edgec.options import Options
from edgec.targets.common.depthwise import plane_forms, schedule_planes
from edgec.targets.common.elements import schedule_add, schedule_mul, sum_forms
from edgec.targets.common.matrix import (
    CHANNELS_AT_ONCE,
    UNROLLED_INPUTS,
    gathered_forms,
    schedule_computed_matrix,
    schedule_gathered,
    schedule_matrix,
)
from edgec.targets.common.nests import find_param
from edgec.targets.common.per_element import (
    STRAIGHT_ROWS,
    has_short_windows,
    schedule_per_element,
    schedule_windows,
)
from edgec.targets.common.recurrent import (
    RECURRENT,
    schedule_recurrent,
    schedule_steps,
    step_forms,
)
from edgec.targets.common.rows import (
    UNROLLED_ELEMENTS,
    schedule_elements,
    schedule_rows,
    schedule_softmax,
)
from edgec.targets.core import Core
from edgec.targets.cortex_m.float_rows import (
    FLOAT_KERNELS,
    float_schedules,
    narrow_halves,
    narrow_steps,
)
from edgec.targets.dsp.depthwise import column_forms, column_schedules, window_schedules
from edgec.targets.dsp.int16 import schedule_short_windows, schedule_shorts, short_forms
from edgec.targets.dsp.matrix import product_forms, schedule_product
from edgec.targets.dsp.plane_windows import plane_window_forms, schedule_plane_windows
from edgec.targets.dsp.pools import schedule_on_dsp
from edgec.targets.dsp.svdf import schedule_push, schedule_time
from edgec.targets.helium.elements import schedule_on_vectors
from edgec.targets.helium.matrix import mve_forms, schedule_vectors

#: The form that every operator can be lowered in: its own nest, padding clipped from its ranges.
DIRECT = "direct"
#: Functions of one stored int8 value.
TABLES = ("lookup", "logistic", "tanh", "leaky_relu", "hard_swish")
#: So many multiply-accumulates are worth a step of its own for what follows them: a hundred bytes.
MANY_PRODUCTS = 10_000
#: So many float16 weights stay so, even where loops of float32 would be as fast: a kilobyte.
MANY_HALVES = 512


@dataclass(frozen=True)
class Target:
    """What schedules the loops for a core. `--optimize size` does without straight code."""

    core: Core
    options: Options
    #: Functions are single rows of images, as layers that stream run.
    in_rows: bool = False

    def forms(self, operators: tuple[str, ...], dtype: str = "int8") -> tuple[str, ...]:
        """Forms to lower a group of these operators in, the best first.

        dtype: of the first operator's input.
        """
        forms = (*plane_forms(operators), DIRECT)
        asm = not self.options.no_asm
        if dtype == "int8" and self.core.is_embedded and not self.core.has("dsp"):
            forms = (*gathered_forms(operators), *forms)
        if dtype == "int8" and self.core.has("dsp"):
            forms = (*product_forms(operators, asm), *column_forms(operators), *forms)
            forms = (*plane_window_forms(operators), *forms)
            if not self.core.has("mve"):
                forms = (*sum_forms(operators), *forms)
        if dtype == "int16" and self.core.has("dsp"):
            forms = (*short_forms(operators, asm), *forms)
        if self.core.has("mve"):
            forms = (*mve_forms(operators, dtype), *forms)
        steps = step_forms(operators, self.core.features) if dtype == "int8" else ()
        return (*steps, *forms)

    def is_whole(self, operators: tuple[str, ...], dtype: str, macs: int, following: str) -> bool:
        """Whether a group of these operators has products that it would lose with another one.

        dtype: of the first operator's input. macs: its products, which are worth a step more.
        following: the operator that comes next. The constants of a kernel of integers take more
        flash than those of loops of a core without vectors: there, before a dequantize, that is for
        time alone.
        """
        if dtype == "float32":
            is_limited = following == "clip" and len(operators) == 1  # kernels do that
            is_known = operators[0] in FLOAT_KERNELS and macs >= MANY_PRODUCTS
            return self._has_float_kernels and is_known and not is_limited
        if not self.core.has("dsp") or self.options.optimize == "size":
            return False
        is_much_faster = self.core.has("mve") or self.options.optimize == "time"
        if not is_much_faster and following not in TABLES:
            return False
        forms = {"int8": product_forms, "int16": short_forms}
        return dtype in forms and macs >= MANY_PRODUCTS and bool(forms[dtype](operators))

    @property
    def pairs_channels(self) -> bool:
        """Whether channels may stand in another order, for kernels that take them two by two.

        It brings weights of -128 to these kernels, which are fast, but take scratch and code.
        """
        return self._is_fast and self.core.has("dsp") and not self.core.has("mve")

    @property
    def _is_fast(self) -> bool:
        """Whether kernels may be taken that are the fastest, but take more scratch or code."""
        return self.options.optimize == "time"

    @property
    def _bits(self) -> tuple[int, ...]:
        """Bits that kernels may store weights in; with both, what is saved is weighed later.

        Rows of a layer must agree on them.
        """
        if self._is_fast:
            return (8,)
        return (8, 4) if self.options.optimize == "balanced" and not self.in_rows else (4,)

    @property
    def rescaling(self) -> str:
        """How accumulators are rescaled in plain loops where that is proven to be the same.

        Layers of one shape may need different lines, and then do not share their code: `size` does
        without, and so do cores whose plain loops have little to rescale, but for time.
        """
        optimize = self.options.optimize
        has_kernels = self.core.has("dsp") and optimize != "time"
        if not self.core.is_embedded or optimize == "size" or has_kernels:
            return ""
        return PARTS if self._is_narrow else HIGH

    @property
    def _is_narrow(self) -> bool:
        """Whether straight code is long: products of 64 bits have to be composed."""
        return self.core.is_embedded and not self.core.multiplies_wide

    @property
    def _has_fpu(self) -> bool:
        return self.core.is_embedded and self.core.has("fpu")

    @property
    def _has_float_kernels(self) -> bool:
        return self._has_fpu and self.options.optimize != "size"

    @property
    def trades_scratch(self) -> bool:
        """Whether fast schedules may need much more scratch or code than others as good."""
        return self.core.has("dsp") and not self.core.has("mve")

    def schedules(
        self,
        func: PrimFunc,
        form: str,
        tables: Mapping[str, Array],
        window: Window | None = None,
    ) -> list[Schedule]:
        """Schedules of a function that was lowered in this form, the fastest first.

        `tables` are its constants, by parameter; `window` is that of a convolution lowered as a
        product. Empty where the form turns out not to fit.
        """
        if form == MATRIX or form in ROWS:
            return schedule_vectors(
                func, form, tables, window, self.core.features,
                paired=self._is_fast, bits=self._bits,
            )  # fmt: skip
        if form in PRODUCTS:
            return self._products(func, form, tables, window)
        if form in STEPS:
            return schedule_steps(func, form, tables)
        if form == FLOORED:
            total = schedule_add(func, in_rows=self.in_rows)
            return [] if total is None else [total]
        if form == SHORTS:
            features = self.core.features
            return schedule_shorts(func, tables, window, features, tails=self._is_fast)
        if form == PLANE_WINDOWS:
            in_place = schedule_plane_windows(func, tables, window)
            return [] if in_place is None else [in_place]
        if form == COLUMN_PLANES:
            return column_schedules(func, tables, window, self.core.features)
        if form == DEPTHWISE_WINDOWS and find_param(func, "x").dtype == "int16":
            return schedule_short_windows(func, window)
        if form == DEPTHWISE_WINDOWS:
            by_two = self.options.optimize != "size"
            return window_schedules(func, tables, window, self.core.features, by_two=by_two)
        found = self._plain_schedules(func, form, tables, window)
        if form == DIRECT and self._has_fpu:
            found = self._float_schedules(func, found, tables.get("w"), window)
        elif "w" in tables:
            self._pack(found, tables["w"])
        for schedule in found if not self.rescaling else ():  # lines leave few shifts
            if "shift" in buffers_of(schedule.func) and (tables["shift"] < 0).all():
                schedule.complement("shift")
        if form == DIRECT and self.core.has("unaligned") and func.name == "svdf_push":
            on_kernel = schedule_push(func)
            return found if on_kernel is None else [on_kernel, *found]
        if form == DIRECT and self.core.has("dsp") and not kernels_of(found[0].func):
            on_kernel = self._on_dsp(func, tables)
            return found if on_kernel is None else [on_kernel, *found]
        return found

    def _float_schedules(
        self,
        func: PrimFunc,
        loops: list[Schedule],
        weights: Array | None,
        window: Window | None,
    ) -> list[Schedule]:
        """Plain loops of a core with an FPU, and kernels of floats in their place.

        Float16 weights stay so but for `time`: on kernels that costs next to nothing. Integers that
        count steps do for `size`; for `balanced` it is weighed later what they save and cost.
        """
        narrow: list[Schedule] = []
        if weights is not None:
            self._pack(loops, weights)
            is_small = self.options.optimize == "size"
            if is_small:
                narrow = narrow_steps(func, window, weights, is_small=True)
                narrow = narrow or narrow_halves(func, window, weights)
            elif not is_small and self.options.optimize != "time":
                narrow = narrow_halves(func, window, weights)
        if self.options.optimize == "size":
            return loops if self.in_rows else [*loops, *narrow]
        kernels = narrow or float_schedules(func, window)
        # Rows would be slower than what they are compared with, and values then not stream.
        if weights is not None and self.options.optimize == "balanced" and not self.in_rows:
            kernels += [] if narrow else narrow_steps(func, window, weights)
        # Estimates are for scalars; on vectors the kernels are several times as fast as loops.
        # Rows of one layer would else choose apart, and keep its weights in two orders.
        alone = self.core.has("mve") or self.in_rows
        if narrow and weights is not None:
            alone = alone or weights.size >= MANY_HALVES
        return kernels if kernels and alone else [*kernels, *loops]

    def _products(
        self, func: PrimFunc, form: str, tables: Mapping[str, Array], window: Window | None
    ) -> list[Schedule]:
        """On kernels of the DSP extension, with weights of all bits that they may have."""

        def scheduled(*, in_rows: bool = False, nibbles: bool = False) -> Schedule | None:
            return schedule_product(
                func, form, tables, window, self.core.features,
                paired=self.pairs_channels, in_rows=in_rows, nibbles=nibbles,
            )  # fmt: skip

        short = scheduled(nibbles=True) if 4 in self._bits else None
        if short is not None and 8 not in self._bits:
            return [short]
        found = [scheduled(in_rows=True)] if self.in_rows else []
        found += [scheduled(), short]
        return [product for product in found if product is not None]

    def _begin(self, func: PrimFunc, tables: Mapping[str, Array]) -> Schedule:
        """A schedule whose weights are told by steps and shifts where they can be.

        Float weights as int8 for `size` alone, since it is slower.
        """
        schedule, weights = Schedule(func), tables.get("w")
        if weights is None:
            return schedule
        steps = find_steps(weights) if self.options.optimize == "size" else None
        if steps is not None:
            schedule.pack_steps("w", steps[0], steps[1].tolist())
            weights = schedule.repacked["w"](weights)
        found = find_shifts(weights)
        if found is not None:
            shifts = found[1]
            schedule.pack_shifts("w", shifts.shape, shifts.reshape(-1).tolist())
            schedule.pack_nibbles("w_shift")
        return schedule

    def _pack(self, schedules: list[Schedule], weights: Array) -> None:
        """Store weights in as few bytes as hold them; floats for `size` alone, it is slower."""
        is_small = self.options.optimize == "size"
        for schedule in schedules:
            repack = schedule.repacked.get("w")
            if fits_nibbles(weights if repack is None else repack(weights)):
                schedule.pack_nibbles("w")
            elif is_small and fits_halves(weights) and "w_step" not in schedule.packed:
                with suppress(ScheduleError):  # a kernel reads whole numbers
                    schedule.pack_halves("w")

    def _on_dsp(self, func: PrimFunc, tables: Mapping[str, Array]) -> Schedule | None:
        if func.name == "svdf_time":
            return schedule_time(func, tables, "mve" if self.core.has("mve") else "dsp")
        if func.name == "softmax":
            return None if self.options.optimize == "size" else schedule_softmax(func)
        return schedule_on_dsp(func) or schedule_mul(func, "dsp")

    def _plain_schedules(
        self, func: PrimFunc, form: str, tables: Mapping[str, Array], window: Window | None
    ) -> list[Schedule]:
        schedule = self._begin(func, tables)
        is_small = self.options.optimize == "size"
        temporaries = {buffer.name for buffer in func.params if buffer.scope == "scratch"}
        if form == GATHERED:
            assert window is not None
            straight, most_channels = (2, 4) if self._is_narrow else (UNROLLED_INPUTS, 1)
            if is_small or not schedule_gathered(schedule, straight, window, most_channels):
                return []
        elif form == PLANE:
            if not {"plane", "acc"} <= temporaries:
                return []
            schedule_planes(schedule, straight=not is_small)
        elif self.core.has("mve") and schedule_on_vectors(schedule):
            return [schedule]
        elif not temporaries:
            schedule_elements(schedule, 1 if is_small else UNROLLED_ELEMENTS)
        elif func.name in RECURRENT:
            schedule_recurrent(schedule, 1 if is_small else UNROLLED_ELEMENTS, tables)
        elif "acc" not in temporaries:
            schedule_rows(schedule, 1 if is_small else UNROLLED_ELEMENTS)
        elif func.name == "matmul":
            schedule_computed_matrix(schedule, 1 if is_small else CHANNELS_AT_ONCE)
        elif func.name in ("conv2d", "dense"):
            schedule_matrix(schedule, 1 if is_small else UNROLLED_INPUTS, self._is_narrow)
        elif not is_small and has_short_windows(func):
            schedule_windows(schedule)
            # Slower, but its output follows its input through memory.
            by_rows = self._begin(func, tables)
            schedule_per_element(by_rows)
            return [schedule, by_rows]
        else:
            is_wide = self.trades_scratch and not is_small
            schedule_per_element(schedule, STRAIGHT_ROWS if is_wide else range(0))
        return [schedule]


def target_for(core: Core, options: Options) -> Target:
    """The target of a core. Kernels for vectors are assembly, and C in their place is slow."""
    if options.no_asm:
        core = replace(core, features=core.features - {"mve"})
    return Target(core, options)
