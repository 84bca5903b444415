"""Do without microkernels that hardly pay for their code.

A microkernel is a kilobyte or so, however often it is called. Where plain loops in its place would
cost next to nothing, as for one small layer at the end of a model, they take it.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgec.graph.ir import Function
from edgec.loop.microkernel import get_microkernel, kernels_of
from edgec.memory.bound import lower_bound_bytes
from edgec.memory.layout import placement_problem
from edgec.options import Io
from edgec.passes.lower_groups import LoweredGroup, Variant

#: A kernel must save this part of all instructions for each KiB that it takes.
LEAST_GAIN_PER_KIB = 0.001
#: Kernels that use the floating-point unit make the frames of interrupts larger, too: together they
#: must save so many instructions, a few milliseconds.
LEAST_INSTRUCTIONS = 300_000


def spare_kernels(
    function: Function,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    *,
    io: Io = "arena",
) -> tuple[Variant, ...]:
    """Return the variants with some that call a kernel replaced by others that do not.

    The most bytes that live at once never grow by it.
    """
    best = list(chosen)
    total = sum(variant.instructions for variant in chosen)
    names = {name for variant in chosen for name in kernels_of(variant.function)}
    for name in sorted(names, key=lambda n: -get_microkernel(n).code_bytes):
        without = [
            _without(name, lowered, variant) for lowered, variant in zip(groups, best, strict=True)
        ]
        trial = [variant for variant in without if variant is not None]
        if len(trial) < len(best):
            continue
        slower = sum(variant.instructions for variant in trial) - sum(
            variant.instructions for variant in best
        )
        gain = get_microkernel(name).code_bytes / 1024 * LEAST_GAIN_PER_KIB
        if slower >= gain * total:
            continue
        before, after = (_live_bytes(function, groups, v, io) for v in (best, trial))
        if after <= before:
            best = trial
    return tuple(best)


def spare_float_kernels(
    groups: Sequence[LoweredGroup], chosen: Sequence[Variant]
) -> tuple[Variant, ...]:
    """Return the variants without kernels that need an FPU, if these save little."""
    best = [_without_floats(lowered, v) for lowered, v in zip(groups, chosen, strict=True)]
    slower = sum(v.instructions for v in best) - sum(v.instructions for v in chosen)
    return tuple(best if slower < LEAST_INSTRUCTIONS else chosen)


def _needs_fpu(variant: Variant) -> bool:
    return any("fpu" in get_microkernel(name).needs for name in kernels_of(variant.function))


def _without_floats(lowered: LoweredGroup, variant: Variant) -> Variant:
    """The fastest variant that needs no FPU and no more scratch; else the variant itself."""
    if not _needs_fpu(variant):
        return variant
    others = [
        v
        for v in lowered.variants
        if not _needs_fpu(v) and v.scratch_bytes <= variant.scratch_bytes
    ]
    return min(others, key=lambda v: v.instructions, default=variant)


def _without(name: str, lowered: LoweredGroup, variant: Variant) -> Variant | None:
    """The fastest variant that does not call the kernel, nor any that `variant` does not call."""
    if name not in kernels_of(variant.function):
        return variant
    known = kernels_of(variant.function) - {name}
    others = [
        v
        for v in lowered.variants
        if kernels_of(v.function) <= known and v.scratch_bytes <= variant.scratch_bytes
    ]
    return min(others, key=lambda v: v.instructions, default=None)


def _live_bytes(
    function: Function,
    groups: Sequence[LoweredGroup],
    variants: Sequence[Variant],
    io: Io,
) -> int:
    problem = placement_problem(function, groups, variants, io=io)
    return lower_bound_bytes(problem.buffers, problem.overlaps)
