"""Store weights in fewer bits where that pays.

A kernel by weights of four bits takes half the bytes for them, some instructions more, and code of
its own; so does one that reads floats as integers that count steps, a quarter or an eighth. It is
taken where it saves a KiB, and at least that part of all constants that it costs in instructions:
small layers of eight bits may have small weights by chance. Where that is not so of all layers that
it can do, those are left out that cost the most for a byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from edgec.graph.ir import Function
from edgec.loop.microkernel import get_microkernel, kernels_of
from edgec.memory.spare_kernels import live_bytes
from edgec.options import Io
from edgec.passes.lower_groups import LoweredGroup, Variant

#: Of constants, less the code of the kernel that reads them.
LEAST_SAVED_BYTES = 1024
#: What is saved is worth this part of it in bytes of values: kernels that compute some outputs
#: together need a few.
MOST_GROWTH = 1 / 1024


def with_short_weights(
    function: Function,
    groups: Sequence[LoweredGroup],
    chosen: Sequence[Variant],
    *,
    io: Io = "arena",
    most_growth: float = MOST_GROWTH,
) -> tuple[Variant, ...]:
    """Return the variants with some replaced by others whose kernels store weights in fewer bits.

    The most bytes that live at once grow by this part of what is saved, at most.
    """
    best = list(chosen)
    offered = {name for lowered in groups for name in _short(lowered)}
    before: int | None = None
    for name in sorted(offered):
        for trial in _trials(name, groups, best):
            if not _pays(best, trial):
                continue
            if before is None:
                before = live_bytes(function, groups, chosen, io)
            saved = _constant_bytes(chosen) - _constant_bytes(trial)
            if live_bytes(function, groups, trial, io) <= before + most_growth * saved:
                best = trial
                break
    return tuple(_by_fewer_kernels(function, groups, best, io))


def _by_fewer_kernels(
    function: Function, groups: Sequence[LoweredGroup], variants: list[Variant], io: Io
) -> list[Variant]:
    """Those that call one kernel on another that is called, where the code saved is worth it.

    The kernel by groups of four bits also reads weights that need none.
    """
    best = variants
    for name in sorted({name for variant in best for name in kernels_of(variant.function)}):
        called = {name for variant in best for name in kernels_of(variant.function)}
        trial = [
            _on_others(name, called, lowered, variant) if name in kernels_of(variant.function)
            else variant
            for lowered, variant in zip(groups, best, strict=True)
        ]  # fmt: skip
        if (
            any(name in kernels_of(variant.function) for variant in trial)
            or not _pays(best, trial)
            or live_bytes(function, groups, trial, io) > live_bytes(function, groups, best, io)
        ):
            continue
        best = trial
    return best


def _on_others(name: str, called: Set[str], lowered: LoweredGroup, variant: Variant) -> Variant:
    """The fastest variant on other kernels that are called, in no more bytes of constants."""
    others = [
        v
        for v in lowered.variants
        if kernels_of(v.function)
        and kernels_of(v.function) <= called - {name}
        and v.constant_bytes <= variant.constant_bytes
        and v.scratch_bytes <= variant.scratch_bytes
    ]
    return min(others, key=lambda v: v.instructions, default=variant)


def _trials(
    name: str, groups: Sequence[LoweredGroup], variants: Sequence[Variant]
) -> Iterator[list[Variant]]:
    """The variants with those that call this kernel where there are such, then in fewer layers."""
    trial = [_with_kernel(name, *pair) for pair in zip(groups, variants, strict=True)]
    costs = {
        i: (new.instructions - old.instructions) / (old.constant_bytes - new.constant_bytes)
        for i, (old, new) in enumerate(zip(variants, trial, strict=True))
        if new is not old
    }
    for worst in sorted(costs, key=lambda i: -costs[i]):
        yield list(trial)
        trial[worst] = variants[worst]


def _short(lowered: LoweredGroup) -> Set[str]:
    """Kernels that store weights in fewer bits than others of the menu, or than a byte."""
    called = {name for variant in lowered.variants for name in kernels_of(variant.function)}
    kernels = [kernel for kernel in map(get_microkernel, called) if kernel.stream is not None]
    most = max((kernel.weight_bits for kernel in kernels), default=8)
    return {kernel.name for kernel in kernels if kernel.weight_bits < max(most, 8)}


def _with_kernel(name: str, lowered: LoweredGroup, variant: Variant) -> Variant:
    """The fastest variant that calls this kernel, if its constants and scratch take no more."""
    others = [
        v
        for v in lowered.variants
        if name in kernels_of(v.function)
        and v.constant_bytes < variant.constant_bytes
        and v.scratch_bytes <= variant.scratch_bytes
    ]
    return min(others, key=lambda v: v.instructions, default=variant)


def _pays(before: Sequence[Variant], after: Sequence[Variant]) -> bool:
    slower = sum(v.instructions for v in after) - sum(v.instructions for v in before)
    saved = _constant_bytes(before) - _constant_bytes(after)
    saved -= _kernel_bytes(after) - _kernel_bytes(before)
    instructions = sum(v.instructions for v in before)
    return saved >= LEAST_SAVED_BYTES and saved * instructions >= slower * _constant_bytes(before)


def _constant_bytes(variants: Sequence[Variant]) -> int:
    return sum(variant.constant_bytes for variant in variants)


def _kernel_bytes(variants: Sequence[Variant]) -> int:
    called = {name for variant in variants for name in kernels_of(variant.function)}
    return sum(get_microkernel(name).code_bytes for name in called)
