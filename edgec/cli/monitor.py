"""`edgec monitor`: shows the output of a serial port."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.cli.arguments import FloatRange, json_option, print_json_line
from edgec.report.terminal import echo, echo_lines, visible

if TYPE_CHECKING:
    from edgec.deploy.project import Built
    from edgec.link.fault import Locate
    from edgec.link.transport import Transport


@click.command()
@click.argument("project", type=click.Path(path_type=Path), metavar="[DIR]", required=False)
@click.option("--port", metavar="P", help="The port; default: the board's port.")
@click.option("--board", metavar="B", help="Board name, alias or TOML file: for port and speed.")
@click.option("--baud", type=click.IntRange(min=50), metavar="N", help="Speed; default: the "
              "board's, else 115200.")  # fmt: skip
@click.option("--hello", is_flag=True, help="First ask the program who it is.")
@click.option("--plot", "is_plotted", is_flag=True,
              help="Draw numbers of lines such as `rms=0.5` or `1, 2` as curves.")  # fmt: skip
@click.option("--seconds", type=FloatRange(min=0), metavar="S",
              help="End after S seconds; default: at Ctrl-C.")  # fmt: skip
@json_option
def command(
    hello: bool, is_plotted: bool, seconds: float | None, as_json: bool, **line: Any
) -> None:
    """Show what arrives: text as it is, frames of the link by name. With DIR, a project, the
    addresses of a fault are named. With --json, one object on one line for each line."""
    from edgec.link.monitor import Monitor

    if as_json and is_plotted:
        raise click.UsageError("--json and --plot exclude each other: the objects have the numbers")
    transport, rate, locate = _opened(**line)
    monitor = Monitor(locate)
    try:
        if not as_json:
            echo(f"{transport.name} at {rate} baud", err=True)
        plain = _say_json() if as_json else echo
        with plotted() if is_plotted else nullcontext(plain) as say:
            if hello:
                say(_hello(transport))
            end = math.inf if seconds is None else time.monotonic() + seconds
            while (now := time.monotonic()) < end:
                data = transport.read(min(0.5, end - now))
                for text in monitor.feed(data) if data else monitor.flush():
                    say(text)
    finally:
        transport.close()


def _opened(
    project: Path | None, port: str | None, board: str | None, baud: int | None
) -> tuple[Transport, int, Locate | None]:
    """The port, its speed, and the function that names a project's addresses."""
    from edgec.boards.board import load_board
    from edgec.deploy.project import open_project
    from edgec.link.ports import find_port
    from edgec.link.transport import SerialTransport

    built = open_project(project, board) if project is not None else None
    named = load_board(board) if board is not None else None
    chosen = built.board if built is not None else named
    link = chosen.link if chosen is not None else None
    rate = baud or (link.baud if link is not None else 115200)
    return SerialTransport(port or find_port(chosen), rate), rate, _locate(built)


def _locate(built: Built | None) -> Locate | None:
    """The function that names addresses of a project's program, if it is for a board."""
    from edgec.build.elf import read_elf

    if built is None or built.board is None or built.board.is_host:
        return None
    assert built.artefact is not None  # `open_project` has looked
    return read_elf(built.artefact).describe_address


def _say_json() -> Callable[[str], None]:
    """A callback for each line: prints its time, its text and its numbers."""
    from edgec.report.plot_lines import numbers_in

    start = time.monotonic()

    def say(line: str) -> None:
        seconds = round(time.monotonic() - start, 3)
        print_json_line({"seconds": seconds, "text": line, "numbers": numbers_in(line)})

    return say


@contextmanager
def plotted() -> Iterator[Callable[[str], None]]:
    """Yield a callback for each line: its numbers are drawn, other lines are shown above.

    On a terminal the curves move; elsewhere they are printed once, at the end.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from edgec.report.plot_lines import Plot

    console = Console()
    plot = Plot(console.width)
    hidden = not console.is_terminal
    with nullcontext() if hidden else Live(console=console, auto_refresh=False) as live:

        def say(line: str) -> None:
            if not plot.take(line):
                echo(line) if live is None else live.console.print(Text(visible(line)))
            elif live is not None:
                live.update(Text("\n".join(plot.lines())), refresh=True)

        try:
            yield say
        finally:
            if live is None:
                echo_lines(plot.lines())


def _hello(transport: Transport) -> str:
    """Ask the program for its identity; return it as one line."""
    from edgec.errors import LinkError
    from edgec.link.client import LinkClient

    try:
        identity = LinkClient(transport).hello(2.0)
    except LinkError as error:
        return f"[no answer to hello: {error.message}]"
    return (
        f"[model '{identity.model}' on {identity.board}, build {identity.model_hash:08x}, "
        f"edgec {identity.edgec_version}, {identity.clock_hz / 1e6:g} MHz]"
    )
