"""Limits of a traced run of a known program: a broken device must not fill the host's memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from edgec.link.commands import Stopped
from edgec.link.errors import WrongSize


class TraceLimits:
    """The bytes of each value of one run, and the number of its events."""

    def __init__(self, bytes_of: Mapping[int, int], events: int) -> None:
        """bytes_of: of each value's rows together, by trace id; other events have no bytes."""
        self._bytes_of = bytes_of
        self._most_events = events
        self._events = 0
        self._seen: Counter[int] = Counter()

    def take(self, stopped: Stopped) -> None:
        """Count an event before its bytes are read. Raises WrongSize if it is one too many."""
        self._events += 1
        self._seen[stopped.id] += stopped.data_bytes
        if self._events > self._most_events:
            raise WrongSize(
                f"the device reports more than the {self._most_events:,} trace events of a run"
            )
        known = self._bytes_of.get(stopped.id, 0)
        if self._seen[stopped.id] > known:
            raise WrongSize(
                f"the device reports {self._seen[stopped.id]:,} bytes of the trace id {stopped.id},"
                f" the project says {known:,}"
            )
