"""`edgec monitor`: what a serial port says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from edgec.report.terminal import echo, echo_lines, visible


@click.command()
@click.argument("project", type=click.Path(path_type=Path), metavar="[DIR]", required=False)
@click.option("--port", metavar="P", help="The port; default: the one that leads to the board.")
@click.option("--board", metavar="B", help="Board name, alias or TOML file: for port and speed.")
@click.option("--baud", type=click.IntRange(min=50), metavar="N", help="Speed; default: the "
              "board's, else 115200.")  # fmt: skip
@click.option("--hello", is_flag=True, help="First ask the program who it is.")
@click.option("--plot", "is_plotted", is_flag=True,
              help="Draw numbers of lines such as `rms=0.5` or `1, 2` as curves.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0), metavar="S",
              help="End after S seconds; default: at Ctrl-C.")  # fmt: skip
def command(
    project: Path | None,
    port: str | None,
    board: str | None,
    baud: int | None,
    hello: bool,
    is_plotted: bool,
    seconds: float | None,
) -> None:
    """Show what arrives: text as it is, frames of the link by name. With DIR, a project, the
    addresses of a fault are named."""
    from edgec.boards.board import load_board
    from edgec.link.monitor import Monitor
    from edgec.link.ports import find_port
    from edgec.link.transport import SerialTransport

    locate = None
    chosen = load_board(board) if board is not None else None
    if project is not None:
        from edgec.build.elf import read_elf
        from edgec.deploy.project import open_project

        built = open_project(project, board)
        chosen = built.board
        assert built.artefact is not None  # `open_project` has looked
        if chosen is not None and not chosen.is_host:
            locate = read_elf(built.artefact).describe_address
    link = chosen.link if chosen is not None else None
    rate = baud or (link.baud if link is not None else 115200)
    transport = SerialTransport(port or find_port(chosen), rate)
    monitor = Monitor(locate)
    try:
        echo(f"{transport.name} at {rate} baud", err=True)
        if hello:
            _say_hello(transport)
        end = None if seconds is None else time.monotonic() + seconds
        with plotted() if is_plotted else nullcontext(echo) as say:
            while end is None or time.monotonic() < end:
                left = 0.5 if end is None else max(0.0, min(0.5, end - time.monotonic()))
                data = transport.read(left)
                for line in monitor.feed(data) if data else monitor.flush():
                    say(line)
    finally:
        transport.close()


@contextmanager
def plotted() -> Iterator[Callable[[str], None]]:
    """Give what is called with each line: its numbers are drawn, other lines are shown above.

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


def _say_hello(transport: object) -> None:
    from edgec.errors import LinkError
    from edgec.link.client import LinkClient

    try:
        identity = LinkClient(transport).hello(2.0)  # type: ignore[arg-type]  # a Transport
    except LinkError as error:
        echo(f"[no answer to hello: {error.message}]")
    else:
        echo(
            f"[model '{identity.model}' on {identity.board}, build {identity.model_hash:08x}, "
            f"edgec {identity.edgec_version}, {identity.clock_hz / 1e6:g} MHz]"
        )
