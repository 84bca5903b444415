"""`edgec cmake-dir`: where find_package(edgec) of CMake has to look."""

from __future__ import annotations

import click

from edgec.cli.arguments import json_option, print_json
from edgec.report.terminal import echo


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Print the folder of edgec's CMake package, for -Dedgec_DIR=."""
    from edgec.resources import resource_dir

    folder = resource_dir("cmake").as_posix()
    print_json({"cmake_dir": folder}) if as_json else echo(folder)
