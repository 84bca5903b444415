"""`edgec watch`: build again whenever a file changes, and show what changed."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from time import sleep
from typing import Any

import click

from edgec.cli import build
from edgec.cli.config_file import FILE_NAME, defaults_for
from edgec.errors import EdgecError
from edgec.report.terminal import echo

#: Seconds between two looks at the files.
PAUSE_S = 0.5
#: Options of `edgec build` that name what a build reads.
READ = ("model", "main", "calibration")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="MODEL [OPTION]…")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Build MODEL as `edgec build` does, again whenever it changes, until Ctrl-C.

    Takes the options of `edgec build`. After the first build it prints only what changed.
    """
    parent = ctx.parent or ctx
    before: dict[str, Any] | None = None
    while True:
        given = _parsed(parent, words)
        stamps = _stamps(given)
        before = _build(given, before)
        echo(f"\nwatching {', '.join(map(str, stamps))}")
        while _stamps(given) == stamps:
            sleep(PAUSE_S)


def _parsed(parent: click.Context, words: tuple[str, ...]) -> click.Context:
    """What `edgec build` makes of the words, with what edgec.toml says by now."""
    defaults = defaults_for(parent, "build", build.command, list(words))
    found = build.command.make_context("build", list(words), parent, default_map=defaults)
    if found.params["as_json"]:
        raise click.UsageError("--json is for one build: use `edgec build --json`")
    return found


def _stamps(given: click.Context) -> dict[Path, tuple[int, int] | None]:
    """When each file that the build reads was changed, and its size; None of one that is gone."""
    model = Path(given.params["model"])
    named = [Path(given.params[name]) for name in READ if given.params[name] is not None]
    return {path: _stamp(path) for path in (*named, model.parent / FILE_NAME)}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _build(given: click.Context, before: dict[str, Any] | None) -> dict[str, Any] | None:
    """Build once; the report, or the one before where the build failed."""
    from edgec.report.diff import compare_reports
    from edgec.report.project import load_report
    from edgec.report.project_text import print_diff

    said = io.StringIO()
    try:
        with given, redirect_stdout(said):
            output = build.command.invoke(given)
    except (EdgecError, click.ClickException) as error:
        echo(f"error: {error}", err=True)
        return before
    report = load_report(output)
    if before is None:
        echo(said.getvalue().rstrip())
    else:
        print_diff(compare_reports(before, report))
    return report
