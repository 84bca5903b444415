"""Do without microkernels that hardly pay for their code.

A microkernel is a kilobyte or so, however often it is called. Where plain loops in its place would
cost next to nothing, as for one small layer at the end of a model, they take it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from edgec.graph.ir import Function
from edgec.loop.microkernel import Microkernel, get_microkernel, kernels_of
from edgec.memory.bound import lower_bound_bytes
from edgec.memory.layout import placement_problem
from edgec.options import Io
from edgec.passes.lower_groups import LoweredGroup, Variant

#: A kernel must save this part of all instructions for each KiB that it takes.
LEAST_GAIN_PER_KIB = 0.001
#: Kernels that use the floating-point unit make the frames of interrupts larger, too: together they
#: must save this many instructions, a few milliseconds.
LEAST_INSTRUCTIONS = 300_000
#: Where size counts, kernels of floats may take so much more than loops, as a part of the constants
#: that they read.
MOST_CODE = 1 / 16


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
    before = live_bytes(function, groups, best, io)
    while True:
        called = {name for variant in best for name in kernels_of(variant.function)}
        trials: list[tuple[int, str, list[Variant]]] = []
        for name in sorted(called):
            without = [
                _without(name, called, lowered, variant)
                for lowered, variant in zip(groups, best, strict=True)
            ]
            trial = [variant for variant in without if variant is not None]
            slower = sum(v.instructions for v in trial) - sum(v.instructions for v in best)
            gain = get_microkernel(name).code_bytes / 1024 * LEAST_GAIN_PER_KIB
            if len(trial) == len(best) and slower < gain * total:
                trials.append((slower, name, trial))
        for _, _, trial in sorted(trials, key=lambda t: t[:2]):
            if live_bytes(function, groups, trial, io) <= before:
                best = trial
                break
        else:
            return tuple(best)


def spare_float_kernels(
    groups: Sequence[LoweredGroup], chosen: Sequence[Variant]
) -> tuple[Variant, ...]:
    """Return the variants without kernels that rescale integers on an FPU, if these save little."""
    best = [
        _without_kernels(_rescales_on_fpu, lowered, variant)
        for lowered, variant in zip(groups, chosen, strict=True)
    ]
    slower = sum(v.instructions for v in best) - sum(v.instructions for v in chosen)
    return tuple(best if slower < LEAST_INSTRUCTIONS else chosen)


def spare_bytes(
    function: Function,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    *,
    io: Io = "arena",
) -> tuple[Variant, ...]:
    """Return the variants without float kernels that take more bytes at once than loops need.

    Kernels compute some pixels together, so that their output follows their input less closely.
    The layers that gain most are the first to keep theirs.
    """
    plain = [
        _without_kernels(_is_of_floats, lowered, variant)
        for lowered, variant in zip(groups, chosen, strict=True)
    ]
    most = live_bytes(function, groups, plain, io)
    if live_bytes(function, groups, chosen, io) <= most:
        return tuple(chosen)
    gains = [v.instructions - c.instructions for v, c in zip(plain, chosen, strict=True)]
    best = list(plain)
    for position in sorted(range(len(best)), key=lambda p: -gains[p]):
        trial = [*best[:position], chosen[position], *best[position + 1 :]]
        if gains[position] > 0 and live_bytes(function, groups, trial, io) <= most:
            best = trial
    return tuple(best)


def take_small_kernels(
    groups: Sequence[LoweredGroup], chosen: Sequence[Variant]
) -> tuple[Variant, ...]:
    """Return the variants of `size`, or those that call a kernel of floats, which are faster.

    All groups that can call one do, or none: what it takes more than their loops, of code and of
    constants, has to be small beside the constants it reads. Left out are groups whose constants
    alone grow by more.
    """
    best = list(chosen)
    names = {name for g in groups for v in g.variants for name in kernels_of(v.function)}
    for name in sorted(names):
        kernel = get_microkernel(name)
        calls: dict[int, Variant] = {}
        for position, lowered in enumerate(groups):
            if kernels_of(best[position].function):
                continue  # on another one already
            found = [v for v in lowered.variants if kernels_of(v.function) == {name}]
            if found and _is_small_beside([found[0]], [best[position]], 0):
                calls[position] = found[0]
        loops = [best[position] for position in calls]
        if _is_of_floats(kernel) and _is_small_beside([*calls.values()], loops, kernel.code_bytes):
            best = [calls.get(position, variant) for position, variant in enumerate(best)]
    return tuple(best)


def _is_small_beside(calls: Sequence[Variant], loops: Sequence[Variant], kernel_bytes: int) -> bool:
    """Whether calls and their kernel take little more than loops, beside the calls' constants."""
    read = sum(variant.constant_bytes for variant in calls)
    more = read - sum(variant.constant_bytes for variant in loops)
    more += kernel_bytes + _own_code_bytes(calls) - _own_code_bytes(loops)
    return more <= MOST_CODE * read


def _own_code_bytes(variants: Iterable[Variant]) -> int:
    """Of their functions, each of which is emitted once, without kernels."""
    own = {v.function: v.code_bytes - _kernel_bytes(v) for v in variants}
    return sum(own.values())


def _kernel_bytes(variant: Variant) -> int:
    return sum(get_microkernel(name).code_bytes for name in kernels_of(variant.function))


def _rescales_on_fpu(kernel: Microkernel) -> bool:
    return "fpu" in kernel.needs and not _is_of_floats(kernel)


def _is_of_floats(kernel: Microkernel) -> bool:
    """Whether it needs nothing but an FPU: its layer is one of floats, with or without it."""
    return kernel.needs == {"fpu"}


def _without_kernels(
    unwanted: Callable[[Microkernel], bool], lowered: LoweredGroup, variant: Variant
) -> Variant:
    """The fastest variant without these kernels and with no more scratch; else the variant."""

    def has(variant: Variant) -> bool:
        return any(unwanted(get_microkernel(name)) for name in kernels_of(variant.function))

    if not has(variant):
        return variant
    others = [
        v for v in lowered.variants if not has(v) and v.scratch_bytes <= variant.scratch_bytes
    ]
    return min(others, key=lambda v: v.instructions, default=variant)


def _without(
    name: str, called: Set[str], lowered: LoweredGroup, variant: Variant
) -> Variant | None:
    """The fastest variant without this kernel, or others than those that are `called` anyway."""
    if name not in kernels_of(variant.function):
        return variant
    others = [v for v in lowered.variants if kernels_of(v.function) <= called - {name}]
    return min(others, key=lambda v: v.instructions, default=None)


def live_bytes(
    function: Function,
    groups: Sequence[LoweredGroup],
    variants: Sequence[Variant],
    io: Io,
) -> int:
    """The most bytes of values and scratch that exist at once."""
    problem = placement_problem(function, groups, variants, io=io)
    return lower_bound_bytes(problem.buffers, problem.overlaps)
