"""`edgec debug`: a project's program under GDB, emulated or on its board."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import click

from edgec.report.terminal import echo


@click.command()
@click.argument("project", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--board", metavar="B", help="Board name, alias or TOML file; default: the board "
              "that the project was built for.")  # fmt: skip
@click.option("--server", type=click.Choice(["qemu", "openocd"]),
              help="Default: qemu where it can be the board, else openocd.")  # fmt: skip
@click.option("--elf", type=click.Path(path_type=Path), metavar="FILE",
              help="Another build of the program, such as build-debug's.")  # fmt: skip
@click.option("--command", "-c", "commands", multiple=True, metavar="TEXT",
              help="Let GDB do this and end, once for each command.")  # fmt: skip
@click.option("--gdb", metavar="PATH", help="The GDB to use.")
@click.option("--gdb-port", type=click.IntRange(1, 65535), metavar="N",
              help="TCP port of the server; default: a free one.")  # fmt: skip
@click.option("--server-only", is_flag=True, help="Start no GDB: for an editor that has its own.")
def command(
    project: Path, board: str | None, server: str | None, gdb: str | None, **given: Any
) -> None:
    """Debug the program of DIR, a folder that `edgec build` made."""
    from edgec.build.staging import work_folder
    from edgec.codegen.project import DEBUG_SCRIPT
    from edgec.deploy.project import open_project
    from edgec.errors import BoardError, BuildFailed
    from edgec.runners.debug import RunningServer, free_port, gdb_command

    server_only = given["server_only"]
    built = open_project(project, board)
    if built.board is None or built.board.is_host:
        raise BoardError(
            f"{project} was built for this computer", hint="debug your own program that calls it"
        )
    image = given["elf"] or built.artefact
    if image is None or not image.is_file():
        raise BuildFailed(f"{image} does not exist", hint="cmake --build --preset debug makes it")
    port = given["gdb_port"] or free_port()
    chosen = _server(server, built.board, image.absolute(), port)
    script = built.project / DEBUG_SCRIPT
    line = [] if server_only else gdb_command(chosen, image, script, given["commands"], gdb=gdb)
    status = 0
    with (
        work_folder("debug") as folder,
        RunningServer(chosen, folder / "messages", port) as running,
    ):
        if chosen.link:
            echo(f"the link: edgec run {project} --port {chosen.link}", err=True)
        if server_only:
            first = " ".join(f"-ex {shlex.quote(text)}" for text in chosen.first)
            echo(f"gdb: gdb-multiarch -x {script} {first} {image}")
            running.wait()
        else:
            status = _run_gdb(line)
    if status:
        click.get_current_context().exit(1)


def _server(name: str | None, board: Any, elf: Path, port: int) -> Any:
    from edgec.runners.debug import free_port, openocd_server, qemu_server
    from edgec.runners.flash.runner import settings

    if name == "qemu" or (name is None and board.qemu is not None):
        return qemu_server(board, elf, port, free_port())
    return openocd_server(board, settings(board, "openocd"), port)


def _run_gdb(line: list[str]) -> int:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = _take_interrupts if os.name == "posix" else None
        return subprocess.run(line, check=False, preexec_fn=child).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def _take_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
