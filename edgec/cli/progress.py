"""Progress bars on standard error for long work, and warnings about problems that it survived.

There are no bars if standard error is not a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgec.report.terminal import echo, visible

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from edgec.runners.pool import Pool

#: Smaller tensors are there in under half a second at 115,200 baud.
_LEAST_BYTES = 4096


class Working:
    """The current work, its progress and its time; any thread may call every method."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task, self._what = bar, task, ""

    def tell(self, what: str, done: int = 0, total: int = 0) -> None:
        """Show the current work, `done` of `total`; 0 of 0 if unknown. A new text is shown
        immediately.
        """
        amount = f"{done:,} of {total:,}" if total else ""
        self._bar.update(
            self._task, description=visible(what), completed=done, total=total or None,
            amount=amount, refresh=what != self._what,
        )  # fmt: skip
        self._what = what

    def move(self, what: str, done: int, total: int) -> None:
        """Show a transfer, in bytes; a short one does not change the display."""
        if total >= _LEAST_BYTES:
            self.tell(f"{what} (bytes)", done, total)


@contextmanager
def working(what: str, *, quiet: bool) -> Iterator[Working]:
    """Show the current work and its time on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[amount]}", markup=False),
        TimeElapsedColumn(),
    )
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True) as bar:
        yield Working(bar, bar.add_task(visible(what), total=None, amount=""))


@contextmanager
def count_bar(what: str, total: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """Show how many of `total` things are done, and for how long. Call the result once for each."""
    with working(what, quiet=quiet) as progress:
        done = 0

        def step() -> None:
            nonlocal done
            done += 1
            progress.tell(what, done, total)

        progress.tell(what, 0, total)
        yield step


def tell_lost(pool: Pool | None) -> None:
    """Name the devices of a pool that failed, whose work others did."""
    for name, said in pool.lost.items() if pool is not None else ():
        echo(f"left out: {name}: {said}", err=True)
