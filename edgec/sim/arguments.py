"""Pointers for a function on the simulated core, and the expected memory afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.sim.core import CallResult, CoreSimulator, Span


@dataclass(frozen=True)
class Argument:
    """A pointer: bytes to be read, or the number of written bytes; `expected`: the bytes
    afterwards.

    symbol, offset: where the image itself has memory for the bytes; the function takes no pointer
    to them then.
    """

    data: bytes
    is_written: bool = False
    expected: bytes | None = None
    symbol: str = ""
    offset: int = 0


def call_with(
    core: CoreSimulator, name: str, arguments: Sequence[Argument], budget: int
) -> tuple[CallResult, list[bytes]]:
    """Run a function with separate memory; returns the memory's content afterwards, by argument.

    The function may access only this memory and constants of the image. budget: instructions.
    Raises RunFailed.
    """
    spans = _spans(core, arguments)
    allow = [*spans, *core.read_only_spans()]
    pointers = (s.address for s, given in zip(spans, arguments, strict=True) if not given.symbol)
    done = core.call(name, *pointers, allow=allow, budget_instructions=budget)
    return done, [core.read(span.address, span.size) for span in spans]


def _spans(core: CoreSimulator, arguments: Sequence[Argument]) -> list[Span]:
    spans = []
    for number, given in enumerate(arguments):
        name, size = f"argument {number}", len(given.data)
        if given.symbol:
            span = Span(name, core.symbols[given.symbol] + given.offset, size, given.is_written)
        else:
            span = core.allocate(name, size, write=given.is_written)
        core.write(span.address, given.data)
        spans.append(span)
    return spans
