"""Shared by all flashing tools: a job, a plan of command lines, and how a result is reported.

A tool is a `FlashTool`. Most are programs: these only say which command lines they would run
(`ProgramTool.plan`), so that a test can compare them without the program, `--dry-run` can show
them, and one place runs them, reports failures and compares the flash read back.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgec.boards.board import Board
from edgec.build.staging import work_folder
from edgec.errors import BoardError, EdgecError, ToolMissing
from edgec.resources import plain_file
from edgec.runners.flash.image import FlashImage
from edgec.runners.tool_process import run_tool

_TIMEOUT_S = 600.0
_SHOWN_LINES = 8


class FlashFailed(EdgecError):
    """A tool did not write the program, or the flash holds something else afterwards."""


@dataclass(frozen=True)
class Job:
    """The files and the target of a flash job. options: the board's settings for the tool; probe:
    the serial number of a debug probe or USB device, if several are connected; key: of the link, if
    the program has one.
    """

    board: Board
    image: FlashImage
    options: Mapping[str, str] = field(default_factory=dict)
    port: str | None = None
    baud: int | None = None
    probe: str | None = None
    key: bytes | None = field(default=None, repr=False)

    def option(self, tool: str, key: str, default: str | None = None) -> str:
        value = self.options.get(key, default)
        if value is None:
            raise BoardError(
                f"{self.board.name}: the runner '{tool}' needs the key '{key}'",
                hint="add it to the [[runner]] of the board's file; docs/flashing.md has the keys",
            )
        return value

    def serial_port(self, tool: str) -> str:
        """Return the port. Raises FlashFailed without one."""
        if self.port is None:
            raise FlashFailed(
                f"the runner '{tool}' needs a serial port", hint="give --port; `edgec doctor` lists"
            )
        return self.port


@dataclass(frozen=True)
class Plan:
    """Command lines to run, in order, the program first.

    files: written before. read_back: maps addresses to the files to which the last command writes
    the flash's content (empty if the tool itself compares).
    """

    commands: tuple[tuple[str, ...], ...]
    files: Mapping[Path, bytes] = field(default_factory=dict)
    read_back: Mapping[int, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Flashed:
    verified: str
    notes: tuple[str, ...] = ()


Progress = Callable[[int, int], None]
"""Called with bytes done and all bytes, by tools that report them."""


class FlashTool:
    """One way to flash. `keys` are the settings it reads from a board's file."""

    name = ""
    keys: frozenset[str] = frozenset()
    uses_port = False

    def check_options(self, options: Mapping[str, str], where: str) -> None:
        """Raise BoardError for a setting that this tool does not read."""
        unknown = sorted(set(options) - self.keys)
        if unknown:
            raise BoardError(
                f"{where}: the runner '{self.name}' has no key '{unknown[0]}'",
                details=(f"its keys: {', '.join(sorted(self.keys)) or 'none'}",),
            )

    def missing(self) -> ToolMissing | None:
        return None

    def flash(self, job: Job, progress: Progress | None = None) -> Flashed:
        """Write the image. Raises FlashFailed, ToolMissing, BoardError or LinkError."""
        raise NotImplementedError


class ProgramTool(FlashTool):
    """A tool that is a program of its own.

    `programs` are its names, the first that is installed is used; `get` says how to get it;
    `explanations` pairs a pattern in its output with a remedy.
    """

    programs: tuple[str, ...] = ()
    get = ""
    verifies = ""
    explanations: tuple[tuple[str, str], ...] = ()

    def find(self) -> str | None:
        """Return the path of the program, or None; also one that pip put beside Python."""
        beside = str(Path(sys.executable).parent)
        for name in self.programs:
            path = shutil.which(name) or shutil.which(name, path=beside)
            if path:
                return path
        return None

    def missing(self) -> ToolMissing | None:
        if self.find() is not None:
            return None
        return ToolMissing(f"{self.programs[0]} is not installed", hint=self.get)

    def plan(self, job: Job, folder: Path) -> Plan:
        """Return the command lines; files they need go to `folder`. Pure: nothing is run."""
        raise NotImplementedError

    def flash(self, job: Job, progress: Progress | None = None) -> Flashed:
        """Run the plan."""
        problem = self.missing()
        if problem is not None:
            raise problem
        with work_folder("flash") as folder:
            plan = self.plan(job, folder)
            for path, data in plan.files.items():
                path.write_bytes(data)
            for command in plan.commands:
                self._run(command)
            for segment in job.image.segments if plan.read_back else ():
                found = self._read(plan.read_back[segment.address], len(segment.data))
                compare(segment.address, segment.data, found)
        return Flashed("read back and compared" if plan.read_back else self.verifies)

    def _read(self, path: Path, count: int) -> bytes:
        """The content of the flash, as the tool reports it."""
        try:
            with plain_file(path).open("rb") as stream:
                return stream.read(count)
        except OSError as problem:
            raise FlashFailed(
                f"{self.name} reported no error, but the bytes that it read back are missing: "
                f"{problem.strerror}"
            ) from problem

    def _run(self, command: tuple[str, ...]) -> None:
        path = self.find()
        assert path is not None  # `flash` has looked
        try:
            status, output = run_tool([path, *command[1:]], _TIMEOUT_S)
        except subprocess.TimeoutExpired as expired:
            raise FlashFailed(
                f"{self.name} did not end in {_TIMEOUT_S:.0f} s", hint="is the board connected?"
            ) from expired
        except OSError as problem:
            raise FlashFailed(f"cannot start {path}: {problem.strerror}") from problem
        if status != 0 or self.failed(output):
            lines = [line.strip() for line in re.split(r"[\r\n]+", output) if line.strip()]
            hint = next((h for p, h in self.explanations if re.search(p, output, re.I)), "")
            raise FlashFailed(
                f"{self.name} failed with status {status}",
                details=tuple(lines[-_SHOWN_LINES:]),
                hint=hint or f"`edgec flash --runner {self.name} --dry-run` shows its command line",
            )

    def failed(self, output: str) -> bool:
        """Whether output reports a failure that the exit status hides."""
        return False


def compare(address: int, wanted: bytes, found: bytes) -> None:
    """Raise FlashFailed, naming the first byte, unless `found` begins with `wanted`."""
    if len(found) < len(wanted):
        raise FlashFailed(f"only {len(found)} of {len(wanted)} bytes were read back")
    if found[: len(wanted)] == wanted:
        return
    at = next(i for i, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b)
    raise FlashFailed(
        f"the flash differs from the program at 0x{address + at:08x}: "
        f"0x{found[at]:02x} instead of 0x{wanted[at]:02x}",
        hint="flash again; if the difference stays, the flash is write-protected or worn out",
    )


def settings(board: Board, name: str) -> dict[str, str]:
    """Return the board's settings for a tool; none if the board does not name it."""
    return next((r.options for r in board.runners if r.name == name), {})
