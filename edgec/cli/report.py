"""`edgec report`: a build's costs and their reasons, as text, JSON or one HTML page."""

from __future__ import annotations

import json
from pathlib import Path

import click

from edgec.cli.arguments import json_option
from edgec.cli.progress import working
from edgec.report.terminal import echo

FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--diff", "old", type=FOLDER, metavar="OLD", help="Compare with an earlier project.")
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False),
              metavar="OUT.html", help="Write one self-contained page.")  # fmt: skip
@click.option("--profile", is_flag=True,
              help="First run the project on a simulated core and keep what each layer cost; it "
              "must be built with --trace.")  # fmt: skip
@json_option
def command(
    folder: Path, old: Path | None, page: Path | None, profile: bool, as_json: bool
) -> None:
    """Report on DIR, a project folder that `edgec build` made."""
    from edgec.report.diff import compare_reports
    from edgec.report.project import load_report, profile_project

    if profile:
        with working(f"running {folder} on a simulated core", quiet=as_json):
            profile_project(folder)
    report = load_report(folder)
    diff = None if old is None else compare_reports(load_report(old), report)
    if page is not None:
        from edgec.build.staging import staged_file
        from edgec.report.html import render_page

        with staged_file(page, hint="choose another --html") as temporary:
            temporary.write_bytes(render_page(report, diff).encode("utf-8"))
    if as_json:
        echo(json.dumps(report if diff is None else {**report, "diff": diff}, indent=2))
        return
    from edgec.report.project_text import print_diff, print_report

    if diff is not None:
        print_diff(diff)
    elif page is None:
        print_report(report)
    if page is not None:
        echo(f"written to {page}")
