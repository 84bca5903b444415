"""`edgec.toml` beside a model: options for commands, used when the command line omits them.

board = "stm32"              # of every command that has such an option
calibration = "samples/"     # paths are relative to the file
[build]                      # of one command
max-ram = "64K"
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from edgec.errors import EdgecError
from edgec.resources import parse_toml

FILE_NAME = "edgec.toml"
#: Options that exclude each other: if one is on the command line, the file's other one is ignored.
_TARGETS = ("board", "target")
#: Options that a file must not set, because they only make sense on a command line.
_NEVER = {"help", "as_json", "model"}
#: Options that run Python code: an unpacked archive may contain an `edgec.toml` that nobody read.
_PROGRAMS = {"custom-ops", "kernels"}


def defaults_for(
    parent: click.Context, name: str, command: click.Command, words: list[str]
) -> dict[str, Any]:
    """The settings of the file beside the model for the command `name`, by parameter.

    words: the command's part of the command line; an option there overrides the file's alternative
    option (`--board` and `--target`). Empty if the command names no model, or without a file.
    Raises EdgecError for a file with a fault.
    """
    given = _given(parent, command, words)
    model = given.get("model")
    if not isinstance(model, str):
        return {}
    path = Path(model).parent / FILE_NAME
    if not path.is_file():
        return {}
    found = read_config(path)
    values = {**found.get("", {}), **found.get(name, {})}
    known = {str(each.name): each for each in _options(command)}
    if not given.keys().isdisjoint(_TARGETS):
        values = {key: value for key, value in values.items() if key not in _TARGETS}
    if Path(model).is_dir():  # the input is compiled already: only the board can still be chosen
        known = {"board": known["board"]} if "board" in known else {}
    return {key: _placed(value, known[key], path) for key, value in values.items() if key in known}


def read_config(path: Path) -> dict[str, dict[str, Any]]:
    """The parameters that the file sets, by command; "" stands for all commands.

    Raises EdgecError for a file that is not TOML, and for a table, option or value that no command
    has; the command parses the values like a command line's.
    """
    try:
        data = parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise EdgecError(f"{path} cannot be read: {problem}", hint="see https://toml.io") from None
    commands = dict(_commands())
    tables = {"": {key: value for key, value in data.items() if not isinstance(value, dict)}}
    tables.update({key: value for key, value in data.items() if isinstance(value, dict)})
    return {name: _table(path, name, table, commands) for name, table in tables.items()}


def option_words() -> dict[str, str]:
    """The long name of each parameter's option, as the file spells it."""
    return {str(each.name): _word(each) for _, command in _commands() for each in _options(command)}


def _table(
    path: Path, name: str, table: Mapping[str, Any], commands: Mapping[str, click.Command]
) -> dict[str, Any]:
    if name and name not in commands:
        raise EdgecError(f"{path}: [{name}] is not a command", details=(_near(name, commands),))
    named = [commands[name]] if name else commands.values()
    known = {_word(option): str(option.name) for each in named for option in _options(each)}
    found = {}
    for key, value in table.items():
        if key not in known:
            said = f"`edgec {name}` has no option" if name else "no command has an option"
            raise EdgecError(f"{path}: {said} --{key}", details=(_near(key, known),))
        _require_setting(path, key, value)
        found[known[key]] = value
    return found


def _require_setting(path: Path, key: str, value: object) -> None:
    if key in _PROGRAMS:
        raise EdgecError(
            f"{path}: --{key} runs Python, which a file beside a model may not ask for",
            hint="give it on the command line",
        )
    if not isinstance(value, (str, int, float, bool, list)):
        raise EdgecError(f"{path}: {key} is neither text, number, true or false, nor a list")


def _near(word: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.4) or sorted(known)
    return f"near it: {', '.join(near)}"


def _commands() -> Iterator[tuple[str, click.Command]]:
    """The commands that take a model."""
    from edgec.cli.main import COMMANDS, cli

    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if command is not None and any(each.name == "model" for each in command.params):
            yield name, command


def _options(command: click.Command) -> Iterator[click.Option]:
    for each in command.params:
        if isinstance(each, click.Option) and each.name not in _NEVER:
            yield each


def _word(option: click.Option) -> str:
    """Name of an option in the file: its longest form without the dashes."""
    return max(option.opts, key=len).lstrip("-")


def _given(parent: click.Context, command: click.Command, words: list[str]) -> dict[str, Any]:
    """The command line's options, unchecked; empty if it is wrong (reported later)."""
    context = click.Context(command, parent, resilient_parsing=True)
    try:
        values, _, _ = command.make_parser(context).parse_args(args=list(words))
    except click.UsageError:
        return {}
    return {name: value for name, value in values.items() if value is not None}


def _placed(value: Any, option: click.Option, path: Path) -> Any:
    """A path in the file is relative to the file. Raises EdgecError for a list, true or false in a
    wrong place."""
    if isinstance(value, bool):
        if not option.is_flag:
            raise EdgecError(f"{path}: {_word(option)} takes a value, not true or false")
        return value
    if isinstance(value, list) and not option.multiple:
        raise EdgecError(f"{path}: {_word(option)} takes one value here, not a list")
    words = [str(each) for each in (value if isinstance(value, list) else [value])]
    if isinstance(option.type, click.Path):
        words = [str(path.parent / word) for word in words]
    return words if option.multiple else words[0]
