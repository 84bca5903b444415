"""`edgec`: dispatches to one file per command and turns errors into exit statuses."""

from __future__ import annotations

import errno
import gc
import importlib
import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from edgec import __version__
from edgec.errors import EdgecError
from edgec.report.terminal import echo

#: Command name -> one line of help. The file `edgec/cli/<name>.py`, with _ for -, is imported when
#: it is used.
COMMANDS = {
    "build": "Compile a model and build firmware or a library for a board.",
    "new": "Make a folder for firmware of your own around a model.",
    "watch": "Build again whenever a model changes, and show what changed.",
    "export": "Make a package of a model for CMake, Zephyr, Arduino, Rust and others.",
    "cmake-dir": "Print where find_package(edgec) of CMake has to look.",
    "config": "Show the options that edgec.toml beside a model sets.",
    "run": "Run a model on the host, a simulated core, an emulated board or a real one.",
    "verify": "Compare what the target computes with the model's own framework.",
    "flash": "Write a project's program into a board's flash, and compare.",
    "quantize": "Turn a float model into an integer one, with samples of its input.",
    "tune": "Search for faster schedules of a model, measured on a simulated core.",
    "inspect": "Show a model's graph, its operators, shapes and sizes.",
    "ops": "List the operators that are supported, and how each format names them.",
    "boards": "List the boards, or show one.",
    "debug": "Debug a project's program with GDB, emulated or on its board.",
    "monitor": "Show what a serial port receives.",
    "doctor": "Check which tools and packages are installed, and say how to install missing ones.",
    "report": "Show what a build costs and why, or compare two, as text, JSON or HTML.",
    "explore": "Build a model for many boards and options, and compare them.",
    "bench": "Measure the sample models and compare them with the baselines.",
}


#: Failures of the computer, not of edgec: such an OSError is shown without a traceback.
ENVIRONMENT_ERRORS = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EIO", "EMFILE", "ENFILE",
                 "EFBIG", "ENAMETOOLONG", "ENOMEM", "ETXTBSY")
    if hasattr(errno, name)
)  # fmt: skip


class _LazyGroup(click.Group):
    """Imports a command's file only when that command is used: `edgec --help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"edgec.cli.{name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; options that it is not given come from the model's edgec.toml."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            from edgec.cli.config_file import defaults_for

            ctx.default_map = {name: defaults_for(ctx, name, command, rest)}
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="edgec")
def cli() -> None:
    """Compile neural networks to plain C99 for small machines."""


#: Loop nests are many small objects that live long and have no cycles: Python's default frequency
#: of garbage collection takes a tenth of a build.
GC_THRESHOLDS = (100_000, 20, 100)


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line and exit: 0 good, 1 wrong input or environment, 2 usage, 3 budget or
    difference. A signal to stop ends it like Ctrl-C: cleaned up, `stopped`, status 128 and the
    signal's number."""
    words = sys.argv[1:] if arguments is None else arguments
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        with _signals_stop():
            status = cli.main(args=words, prog_name="edgec", standalone_mode=False, obj=words)
    except (click.exceptions.Abort, KeyboardInterrupt) as stop:
        echo("stopped", err=True)
        sys.exit(128 + _signal_of(stop))
    except click.ClickException as error:
        show_error(error, as_json="--json" in words)
        sys.exit(error.exit_code)
    except (EdgecError, MemoryError, ModuleNotFoundError, OSError) as error:
        reported = as_edgec_error(error)
        if reported is None:
            raise
        show_error(reported, as_json="--json" in words)
        sys.exit(reported.exit_status)
    sys.exit(status if isinstance(status, int) else 0)


def _signal_of(stop: BaseException) -> int:
    cause = stop.__cause__ or stop  # click turns interrupts into an Abort
    return cause.number if isinstance(cause, Stopped) else signal.SIGINT


def as_edgec_error(error: BaseException) -> EdgecError | None:
    """The error to report; None for a bug."""
    if isinstance(error, EdgecError):
        return error
    if isinstance(error, MemoryError):
        wanted = str(error).rstrip(".") or "a model or an input is too large"
        return EdgecError(f"this computer has too little memory: {wanted}")
    if isinstance(error, ModuleNotFoundError):
        return _missing_package((error.name or "edgec").partition(".")[0])
    return _environment_error(error) if isinstance(error, OSError) else None


def _environment_error(error: OSError) -> EdgecError | None:
    if error.errno not in ENVIRONMENT_ERRORS:
        return None
    where = f"{error.filename}: " if error.filename else ""
    return EdgecError(f"{where}{error.strerror}")


def _missing_package(package: str) -> EdgecError | None:
    missing, hint = (
        f"the Python package {package} is not installed",
        "`edgec doctor` lists what is installed",
    )
    return None if package == "edgec" else EdgecError(missing, hint=hint)


def show_error(error: EdgecError | click.ClickException, *, as_json: bool) -> None:
    """Show an error on standard error: as text, or as one JSON object on one line."""
    if isinstance(error, click.ClickException):
        if not as_json:
            error.show()
            return
        parts: tuple[object, ...] = (error.format_message(), (), "", error.exit_code)
    elif as_json:
        parts = (error.message, error.details, error.hint, error.exit_status)
    else:
        echo(error.render(), err=True)
        return
    named = dict(zip(("message", "details", "hint", "status"), parts, strict=True))
    echo(json.dumps({"error": named}), err=True)


class Stopped(KeyboardInterrupt):
    """A signal other than Ctrl-C that asks the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def _signals_stop() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does, so that temporary folders are removed."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    before = {}
    in_main_thread = threading.current_thread() is threading.main_thread()
    try:
        for name in ("SIGTERM", "SIGHUP") if in_main_thread else ():
            if hasattr(signal, name):
                number = getattr(signal, name)
                # A program started with `nohup` keeps ignoring its signal.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    before[number] = signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
