"""Turn a fault of the simulated core into an error that names function, place and reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgec.build.instruction import Instruction
from edgec.build.thumb import needs
from edgec.errors import RunFailed
from edgec.sim.guard import Span, count_bytes, describe_place
from edgec.sim.image import Image, Layout
from edgec.sim.thumb import is_wide
from edgec.targets.core import CORES

#: Features that instructions need, by the words of `edgec.build.thumb.needs`.
_FEATURES = {
    "thumb2": "32-bit Thumb-2 instructions, IT, CBZ",
    "dsp": "DSP instructions",
    "fpu": "FPU",
    "fpu_double": "double-precision FPU",
    "v7ar": "system control coprocessor",
    "v8m": "Armv8-M instructions",
    "mve": "vector extension (MVE)",
}
_SENTENCES = {
    "svc": "executes SVC, but there is no operating system",
    "breakpoint": "executes a breakpoint",
    "invalid_state": "is where the program branched to without the Thumb bit",
    "stack_overflow": "overflows its stack",
    "divide_by_zero": "divides by zero",
    "stopped": "stops and waits for an interrupt or an event, which never comes",
}


def explain_fault(
    fault: dict[str, Any],
    image: Image,
    core: str,
    layout: Layout,
    spans: Sequence[Span] | None,
    budget: int,
) -> RunFailed:
    """Return the error for a fault reported by the worker (`machine.Fault` as a dict)."""
    kind, pc = fault["kind"], fault["pc"]
    where = image.describe(pc)
    details = [f"instruction: {fault['instruction']}"] if fault["instruction"] else []
    if kind == "budget":
        return RunFailed(
            f"the call executed more than {budget} instructions",
            hint="it may never end; a larger budget can be given",
        )
    if kind == "access":
        return _explain_access(fault, image, layout, spans, where, details)
    if kind == "unaligned":
        what = (
            "an unaligned address"
            if not fault["address"]
            else (f"the unaligned base address 0x{fault['address']:08x}")
        )
        reason = (
            f"{core} has no unaligned access"
            if core == "cortex-m0"
            else "this instruction needs a multiple of four"
        )
        return RunFailed(f"{where} uses {what}: {reason}", details=tuple(details))
    if kind in ("undefined", "no_coprocessor"):
        first, second = (int.from_bytes(image.bytes_at(pc + at, 2), "little") for at in (0, 2))
        feature = missing_feature(first, second, core)
        reason = f"{core} has no {feature}" if feature else f"{core} does not know it"
        return RunFailed(
            f"{where} executes an instruction the core lacks: {reason}",
            details=tuple(details),
            hint="was the image built for another core?",
        )
    if kind == "inexact":
        return RunFailed(
            "a block of code was translated in two ways, so its count is not exact",
            hint="CoreSimulator(..., native=False) counts such code, more slowly",
        )
    if kind == "fetch":
        return RunFailed(f"the program branched to 0x{pc:08x}, where there is no code")
    if kind == "trace":
        return RunFailed(
            f"{where} traces {fault['size']} bytes at 0x{fault['address']:08x}, "
            "which are not all mapped"
        )
    return RunFailed(f"{where} {_SENTENCES.get(kind, f'faults: {kind}')}", details=tuple(details))


def _explain_access(
    fault: dict[str, Any],
    image: Image,
    layout: Layout,
    spans: Sequence[Span] | None,
    where: str,
    details: list[str],
) -> RunFailed:
    address, size, write = fault["address"], fault["size"], fault["write"]
    if spans is None:
        stack = Span("the stack", layout.stack_limit, layout.stack_top - layout.stack_limit, True)
        spans = [
            *(
                Span(f"the segment at 0x{s.address:08x}", s.address, s.size, s.writable)
                for s in image.segments
            ),
            stack,
        ]
    verb = "writes" if write else "reads"
    place = describe_place(address, size, write, spans)
    return RunFailed(
        f"{where} {verb} {count_bytes(size)} at 0x{address:08x}, {place}", details=tuple(details)
    )


def missing_feature(first: int, second: int, core: str) -> str | None:
    """Return the name of the feature that an instruction needs and `core` lacks, or None."""
    feature = needs(Instruction(0, first, second if is_wide(first) else -1))
    return None if not feature or CORES[core].has(feature) else _FEATURES[feature]
