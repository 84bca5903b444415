"""Counts the work of one compile, so that no model takes hours or all memory.

`edgec.graph.limits` refuses files whose sizes alone are too large. The rest is counted here while
the reference runs: calls of NumPy (large arrays count as several) and the bytes of kept results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from edgec.errors import TooLarge

HINT = (
    "the file may be damaged, or its input shape is not meant for a small machine; --compile-budget"
    " raises the limits"
)
#: Elements that NumPy computes in the time of one call.
ELEMENTS_PER_CALL = 1 << 16


@dataclass
class Work:
    """The work done and its limit: calls of about 25 us, and bytes that are kept.

    at: the node that is computed now.
    """

    most_calls: int
    most_bytes: int
    calls: int = 0
    kept_bytes: int = 0
    at: str = ""

    def spend(self, calls: int, kept_bytes: int = 0) -> None:
        """Count calls and bytes. Raises TooLarge."""
        self.calls += calls
        self.kept_bytes += kept_bytes
        if self.calls > self.most_calls:
            self._refuse(self.most_calls, "computations one after the other")
        if self.kept_bytes > self.most_bytes:
            self._refuse(self.most_bytes, "bytes")

    def _refuse(self, most: int, what: str) -> None:
        raise TooLarge(
            f"the model is too large: up to {self.at!r} the reference takes more than {most:,}"
            f" {what}",
            hint=HINT,
        )


_NOW: ContextVar[Work | None] = ContextVar("work", default=None)


@contextmanager
def limited_work(calls: int, kept_bytes: int) -> Iterator[None]:
    """Limit the work inside; an outer limit takes precedence."""
    if _NOW.get() is not None:
        yield
        return
    token = _NOW.set(Work(calls, kept_bytes))
    try:
        yield
    finally:
        _NOW.reset(token)


def current_work() -> Work | None:
    """The counter in use; None where nothing limits work."""
    return _NOW.get()


def now_at(name: str) -> None:
    """Set the node that is computed from now on."""
    work = _NOW.get()
    if work is not None:
        work.at = name


def keep(kept_bytes: int) -> None:
    """Count bytes that are about to be kept. Raises TooLarge."""
    work = _NOW.get()
    if work is not None:
        work.spend(0, kept_bytes)
