"""docs/command_line.md says of every command's options what `--help` says."""

from __future__ import annotations

import importlib
import re

import click
import pytest
from repo_files import REPO_ROOT

from edgec.cli.arguments import COMPILE_OPTIONS
from edgec.cli.main import COMMANDS

PAGE = (REPO_ROOT / "docs" / "command_line.md").read_text("utf-8")


def section(heading: str) -> str:
    """The text between a heading of the page and the next."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found is not None, f"docs/command_line.md has no section '{heading}'"
    return found[1]


def documented(text: str) -> dict[str, str]:
    """Names of the options in a section's table, each with the first cell of its row."""
    rows = {}
    for row in re.findall(r"^\| (`-.*?) \| ", text, re.M):
        for name in re.findall(r"(?<![\w|\\-])--?[a-z][a-z0-9-]*", row):
            rows[name] = row.replace("\\|", "|")
    return rows


def options_of(name: str) -> dict[str, click.Option]:
    """The options of a command, and of what is below it."""
    command = importlib.import_module(f"edgec.cli.{name.replace('-', '_')}").command
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return {
        word: option
        for each in (command, *below)
        for option in each.params
        if isinstance(option, click.Option)
        for word in option.opts
    }


def is_shared(option: click.Option) -> bool:
    return option.name in COMPILE_OPTIONS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described(name: str) -> None:
    own = {word for word, option in options_of(name).items() if not is_shared(option)}
    assert set(documented(section(f"edgec {name}"))) == own


def test_options_of_every_command_that_compiles() -> None:
    text = section("Options of every command that compiles")
    for name in ("build", "run", "verify"):
        shared = {word for word, option in options_of(name).items() if is_shared(option)}
        assert set(documented(text)) == shared


@pytest.mark.parametrize("name", COMMANDS)
def test_choices_are_those_of_the_command(name: str) -> None:
    rows = documented(section(f"edgec {name}") + section("Options of every command that compiles"))
    for word, option in options_of(name).items():
        if isinstance(option.type, click.Choice):
            assert "|".join(option.type.choices) in rows[word]


def test_every_section_is_a_command() -> None:
    assert sorted(re.findall(r"^## edgec ([\w-]+)$", PAGE, re.M)) == sorted(COMMANDS)
