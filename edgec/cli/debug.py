"""`edgec debug`: a project's program under GDB, emulated or on its board."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.cli.arguments import json_option, print_json, print_json_line
from edgec.report.terminal import echo

if TYPE_CHECKING:
    from edgec.deploy.project import Built


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
@json_option
def command(
    project: Path, board: str | None, server: str | None, gdb: str | None, **given: Any
) -> None:
    """Debug the program of DIR, a folder that `edgec build` made."""
    from edgec.build.staging import work_folder
    from edgec.codegen.project import DEBUG_SCRIPT
    from edgec.deploy.project import open_project
    from edgec.runners.debug import RunningServer, free_port, gdb_command

    server_only, as_json, commands = (given[k] for k in ("server_only", "as_json", "commands"))
    if as_json and not server_only and not commands:
        raise click.UsageError(
            "--json needs --command or --server-only: a session at GDB's prompt has no JSON"
        )
    built = open_project(project, board)
    image = _image(built, given["elf"])
    port = given["gdb_port"] or free_port()
    chosen = _server(server, built.board, image.absolute(), port)
    script = built.project / DEBUG_SCRIPT
    line = [] if server_only else gdb_command(chosen, image, script, commands, gdb=gdb)
    facts = {"server": chosen.name, "elf": str(image), "script": str(script),
             "connect": list(chosen.first), "link": chosen.link or None}  # fmt: skip
    status = 0
    with (
        work_folder("debug") as folder,
        RunningServer(chosen, folder / "messages", port) as running,
    ):
        if chosen.link and not as_json:
            echo(f"the link: edgec run {project} --port {chosen.link}", err=True)
        if server_only:
            _say_connect(facts, as_json=as_json)
            running.wait()
        else:
            status = _report_gdb(line, facts) if as_json else _run_gdb(line)
    if status:
        click.get_current_context().exit(1)


def _image(built: Built, elf: Path | None) -> Path:
    """The program to debug. Raises BoardError for this computer, BuildFailed without a file."""
    from edgec.errors import BoardError, BuildFailed

    if built.board is None or built.board.is_host:
        raise BoardError(
            f"{built.project} was built for this computer",
            hint="debug your own program that calls it",
        )
    image = elf or built.artefact
    if image is None or not image.is_file():
        raise BuildFailed(f"{image} does not exist", hint="cmake --build --preset debug makes it")
    return image


def _say_connect(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json_line(facts)
        return
    first = " ".join(f"-ex {shlex.quote(text)}" for text in facts["connect"])
    echo(f"gdb: gdb-multiarch -x {facts['script']} {first} {facts['elf']}")


def _report_gdb(line: list[str], facts: dict[str, Any]) -> int:
    """Run GDB without a terminal, print one object with its lines, and return its status."""
    done = subprocess.run(
        line, check=False, text=True, errors="replace", stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    print_json({**facts, "output": done.stdout.splitlines(), "status": done.returncode})
    return done.returncode


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
