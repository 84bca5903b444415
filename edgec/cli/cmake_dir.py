"""`edgec cmake-dir`: where find_package(edgec) of CMake has to look."""

from __future__ import annotations

import click

from edgec.report.terminal import echo


@click.command()
def command() -> None:
    """Print the folder of edgec's CMake package, for -Dedgec_DIR=."""
    from edgec.resources import resource_dir

    echo(resource_dir("cmake").as_posix())
