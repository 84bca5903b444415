"""`edgec watch`: build again whenever a file changes, and show what changed."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from time import sleep
from typing import Any

import click

from edgec.cli import build
from edgec.cli.arguments import json_option, print_json_line
from edgec.cli.config_file import FILE_NAME, defaults_for
from edgec.errors import EdgecError
from edgec.report.terminal import echo

#: Seconds between two looks at the files.
PAUSE_S = 0.5
#: Options of `edgec build` that name input files.
READ = ("model", "main", "calibration")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="MODEL [OPTION]…")
@json_option
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Build MODEL as `edgec build` does, again whenever it changes, until Ctrl-C.

    Takes the options of `edgec build`. After the first build it prints only what changed;
    with --json, one object on one line for each build.
    """
    parent, words = ctx.parent or ctx, (*words, *(["--json"] if as_json else []))
    before: dict[str, Any] | None = None
    given = _parsed(parent, words)  # a fault at the start ends it
    while True:
        stamps = _stamps(given)
        try:
            given = _parsed(parent, words)
            before = _build(given, before)
        except (EdgecError, click.ClickException, MemoryError, OSError) as error:
            _tell(error, as_json=as_json)
        if not as_json:
            echo(f"\nwatching {', '.join(map(str, stamps))}")
        while _stamps(given) == stamps:
            sleep(PAUSE_S)


def _tell(error: Exception, *, as_json: bool) -> None:
    """Print an error, also a temporarily full disk. Raises bugs."""
    from edgec.cli.main import as_edgec_error, show_error

    shown = error if isinstance(error, click.ClickException) else as_edgec_error(error)
    if shown is None:
        raise error
    show_error(shown, as_json=as_json)


def _parsed(parent: click.Context, words: tuple[str, ...]) -> click.Context:
    """The parsed options of `edgec build`, with the current edgec.toml."""
    defaults = defaults_for(parent, "build", build.command, list(words))
    return build.command.make_context("build", list(words), parent, default_map=defaults)


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


def _build(given: click.Context, before: dict[str, Any] | None) -> dict[str, Any]:
    """Build once, print the changes, and return the report. Raises a build's errors."""
    from edgec.report.diff import compare_reports
    from edgec.report.project import load_report
    from edgec.report.project_text import print_changes

    said, as_json = io.StringIO(), given.params["as_json"]
    with given, redirect_stdout(said):
        output = build.command.invoke(given)
    report = load_report(output)
    if as_json:
        changes = None if before is None else compare_reports(before, report)
        print_json_line({"report": json.loads(said.getvalue()), "changes": changes})
    elif before is None:
        echo(said.getvalue().rstrip())
    else:
        print_changes(compare_reports(before, report))
    return report
