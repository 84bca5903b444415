"""`edgec doctor`: which tools, packages and ports exist, and how to fix missing ones."""

from __future__ import annotations

from dataclasses import asdict

import click

from edgec.cli.arguments import json_option, print_json
from edgec.report.table import shorten, terminal_width
from edgec.report.terminal import echo


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Check tools, packages, ports and permissions, and say how to fix what is wrong."""
    from edgec.report.environment import examine

    findings = examine()
    if as_json:
        print_json({"findings": [{**asdict(f), "ok": f.ok} for f in findings]})
        return
    width = max(len(f.name) for f in findings)
    room = max(terminal_width() - 11 - width, 20)
    for finding in findings:
        mark = "ok     " if finding.ok else "wrong  " if finding.found else "missing"
        text = finding.found or f"needed for {finding.needed_for}"
        echo(f"{mark}  {finding.name:<{width}}  {shorten(text, room)}")
        if not finding.ok:
            problem = f"{finding.problem}: " if finding.problem else ""
            echo(f"{'':<9}{'':<{width}}  -> {problem}{finding.remedy}")
