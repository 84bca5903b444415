"""`edgec flash`: a project's program into a board's flash, compared, by one of many tools."""

from __future__ import annotations

import shlex
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.cli.arguments import json_option, print_json
from edgec.cli.progress import working
from edgec.report.terminal import echo_lines

if TYPE_CHECKING:
    from edgec.runners.flash.runner import FlashTool, Job


@click.command()
@click.argument("project", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--port", metavar="P", help="Serial port, for tools that use one.")
@click.option("--runner", metavar="R", help="Which tool; default: the first of the board's that "
              "can be used.")  # fmt: skip
@click.option("--board", metavar="B", help="Board name, alias or TOML file; default: the board "
              "that the project was built for.")  # fmt: skip
@click.option("--baud", type=click.IntRange(min=1200), metavar="N", help="Speed of the port.")
@click.option("--probe", metavar="ID", help="Serial number of the probe, where there are several.")
@click.option("--traced", is_flag=True,
              help="Flash the variant that shows every value (build with --trace).")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only print the commands.")
@json_option
def command(project: Path, board: str | None, dry_run: bool, as_json: bool, **how: Any) -> None:
    """Write the program of DIR, a folder that `edgec build` made, into a board's flash."""
    from edgec.deploy.project import open_project
    from edgec.runners.flash.project import plan_flash

    built = open_project(project, board, traced=how["traced"])
    tool, job = plan_flash(built, **how)
    report = _report(built.manifest.model, tool.name, job)
    if dry_run:
        report["commands"] = _commands(tool, job)
        lines = report["commands"] or [f"{tool.name} is part of edgec: it runs no other program"]
    else:
        lines = _flash(tool, job, report, quiet=as_json)
    if as_json:
        print_json(report)
    else:
        echo_lines(lines)


def _report(model: str, tool: str, job: Job) -> dict[str, Any]:
    return {
        "model": model, "board": job.board.name, "runner": tool, "port": job.port,
        "elf": str(job.image.elf), "bytes": job.image.size_bytes, "verified": None,
        "seconds": None, "notes": [],
    }  # fmt: skip


def _commands(tool: FlashTool, job: Job) -> list[str]:
    """The command lines that a tool would run; none for the tools that are part of edgec."""
    from edgec.runners.flash.runner import ProgramTool

    if not isinstance(tool, ProgramTool):
        return []
    return [shlex.join(line) for line in tool.plan(job, Path("FOLDER")).commands]


def _flash(tool: FlashTool, job: Job, report: dict[str, Any], *, quiet: bool) -> list[str]:
    started = time.monotonic()
    what = f"flash {report['model']}"
    with working(what, quiet=quiet) as progress:
        done = tool.flash(job, partial(progress.move, what))
    report["seconds"] = round(time.monotonic() - started, 3)
    report["verified"], report["notes"] = done.verified, list(done.notes)
    return [
        f"{report['model']}: {job.image.size_bytes:,} bytes to {job.board.name} by {tool.name} in "
        f"{report['seconds']:.1f} s, {done.verified}",
        *done.notes,
    ]
