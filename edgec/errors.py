"""Every error that a user can cause: what, where, why, what next; no traceback."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: Maximum length of a line of a message: it may quote a file's text of any length.
MOST_SHOWN = 2000


def _short(text: str) -> str:
    return "\n".join(
        line if len(line) <= MOST_SHOWN else f"{line[:MOST_SHOWN]}… ({len(line):,} characters)"
        for line in text.split("\n")
    )


class EdgecError(Exception):
    """Base of all errors that a user can cause.

    `message` says what, where and why in one line; `details` are further lines, one fact each;
    `hint` says what to do next. `exit_status` is what the command line returns: 1 for wrong
    input or environment, 3 for a budget exceeded or a verification that differs.
    """

    exit_status = 1

    def __init__(self, message: str, *, details: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message)
        self.message = _short(message)
        self.details = tuple(map(_short, details))
        self.hint = hint

    def render(self) -> str:
        """Return the text that the command line prints on standard error."""
        return f"error: {self}"

    def __str__(self) -> str:
        """The whole: message, details and hint, a line each."""
        lines = [self.message, *(f"  {detail}" for detail in self.details)]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class ImportFailed(EdgecError):
    """A model file cannot be read or uses what no importer knows.

    inputs: names of the model's inputs whose values would decide what cannot be imported.
    """

    inputs: tuple[str, ...] = ()


class BadNode(ImportFailed):
    """A node contradicts the standard of its format."""


class TooLarge(ImportFailed):
    """A model is larger than the budget of a compile."""


class TypeMismatch(EdgecError):
    """An operator was given types that it has no meaning for."""


class ContractError(EdgecError):
    """A stage broke its contract: a bug in edgec, or an IR text written by hand."""


class ScheduleError(EdgecError):
    """A schedule primitive does not apply to this loop nest."""


class PlanError(EdgecError):
    """No legal memory plan exists, or a plan breaks its problem's rules."""


class BoardError(EdgecError):
    """A board or target description is unknown or wrong."""


class ToolMissing(EdgecError):
    """A program or an optional package that this command needs is not installed."""


class BuildFailed(EdgecError):
    """The C compiler or linker refused generated code, or the image does not fit."""


class DoesNotFit(BuildFailed):
    """An image is larger than the memory of its board. `over`: region -> bytes too many."""

    over: Mapping[str, int] = MappingProxyType({})


class KernelRefused(EdgecError):
    """A kernel of the user's does not do what it stands for, or nothing here can run it."""


class RunFailed(EdgecError):
    """A simulator or a board did not run the model to its end."""


class LinkError(EdgecError):
    """The serial link to a board or an emulator failed."""


class BudgetExceeded(EdgecError):
    """A build is larger than a limit the user set. `over` says what, and by how much."""

    exit_status = 3
    over: Mapping[str, int] = MappingProxyType({})
