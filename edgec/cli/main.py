"""`edgec`: dispatches to one file per command and turns errors into exit statuses."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from edgec import __version__
from edgec.errors import EdgecError

#: Command name -> one line of help. The file `edgec/cli/<name>.py` is imported when it is used.
COMMANDS = {
    "build": "Compile a model and build firmware or a library for a board.",
    "run": "Run a model on the host, a simulated core, an emulated board or a real one.",
    "verify": "Compare what the target computes with the model's own framework.",
    "inspect": "Show a model's graph, its operators, shapes and sizes.",
    "ops": "List the operators that are supported, and how each format names them.",
    "boards": "List the boards, or show one.",
    "doctor": "Check which tools and packages are installed, and say how to mend what is not.",
    "bench": "Measure the sample models and compare them with the baselines.",
}


class _LazyGroup(click.Group):
    """Imports a command's file only when that command is used: `edgec --help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"edgec.cli.{name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="edgec")
def cli() -> None:
    """Compile neural networks to plain C99 for small machines."""


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line and exit: 0 good, 1 wrong input or environment, 2 usage, 3 budget or
    difference."""
    try:
        status = cli.main(args=arguments, prog_name="edgec", standalone_mode=False)
    except EdgecError as error:
        click.echo(error.render(), err=True)
        sys.exit(error.exit_status)
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    sys.exit(status if isinstance(status, int) else 0)
