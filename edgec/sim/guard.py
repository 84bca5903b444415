"""Which data memory a simulated call may touch, and the words for a touch elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Interval = tuple[int, int]  # [start, stop)
Gap = tuple[int, int, str]  # start, stop, "r" | "w" | "rw"


@dataclass(frozen=True)
class Span:
    """Bytes [address, address + size) that a call may read, and write if `write`."""

    name: str
    address: int
    size: int
    write: bool

    @property
    def end(self) -> int:
        return self.address + self.size


def forbidden_gaps(mapped: Sequence[Interval], spans: Sequence[Span]) -> list[Gap]:
    """Return the mapped intervals outside the spans, by the forbidden kind of access."""
    readable = _merged([(span.address, span.end) for span in spans])
    writable = _merged([(span.address, span.end) for span in spans if span.write])
    no_read = _without(_merged(list(mapped)), readable)
    no_write = _without(_merged(list(mapped)), writable)
    no_access = set(no_read) & set(no_write)
    gaps = [(start, stop, "rw") for start, stop in no_access]
    gaps += [(start, stop, "r") for start, stop in no_read if (start, stop) not in no_access]
    gaps += [(start, stop, "w") for start, stop in no_write if (start, stop) not in no_access]
    return sorted(gaps)


def describe_place(address: int, size: int, write: bool, spans: Sequence[Span]) -> str:
    """Say where an access lies relative to the nearest span it was not allowed in."""
    nearest: tuple[int, str] | None = None
    for span in spans:
        if address < span.end and span.address < address + size:
            if write and not span.write:
                return f"inside {span.name}, which is read-only"
            if address < span.address:
                distance, text = 0, f"{count_bytes(span.address - address)} before the start of"
            else:
                distance, text = 0, f"{count_bytes(address + size - span.end)} over the end of"
        elif address >= span.end:
            distance = address - span.end
            text = (
                f"{count_bytes(distance)} past the end of" if distance else "right after the end of"
            )
        else:
            distance = span.address - address
            text = f"{count_bytes(distance)} before the start of"
        if nearest is None or distance < nearest[0]:
            nearest = (distance, f"{text} {span.name}")
    return nearest[1] if nearest else "no memory is allowed"


def count_bytes(number: int) -> str:
    return f"{number} byte{'' if number == 1 else 's'}"


def _merged(intervals: list[Interval]) -> list[Interval]:
    """Sort, drop empty ones and join adjacent ones."""
    result: list[Interval] = []
    for start, stop in sorted(intervals):
        if start >= stop:
            continue
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], stop))
        else:
            result.append((start, stop))
    return result


def _without(whole: list[Interval], holes: list[Interval]) -> list[Interval]:
    """Return `whole` less `holes`; both are merged."""
    result = []
    for start, stop in whole:
        at = start
        for hole_start, hole_stop in holes:
            if hole_stop <= at or hole_start >= stop:
                continue
            if hole_start > at:
                result.append((at, hole_start))
            at = max(at, hole_stop)
        if at < stop:
            result.append((at, stop))
    return result
