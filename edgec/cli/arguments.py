"""Options that several commands share, and how their words become values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

MODEL = click.Path(path_type=Path)


def compile_options(command: F) -> F:
    """Options of every command that compiles a model."""
    for option in reversed(
        (
            click.option(
                "--optimize",
                type=click.Choice(["time", "ram", "size", "balanced"]),
                default="balanced",
                show_default=True,
                help="What to prefer where variants differ.",
            ),
            click.option(
                "--match",
                type=click.Choice(["tflm", "litert", "onnx"]),
                help="Whose rounding to follow instead of the format's own.",
            ),
            click.option(
                "--io",
                type=click.Choice(["arena", "caller"]),
                default="arena",
                show_default=True,
                help="Where inputs and outputs live.",
            ),
            click.option("--unfused", is_flag=True, help="One function for every operator."),
            click.option(
                "--compiler", type=click.Choice(["gcc", "clang"]), help="Instead of the default."
            ),
            click.option(
                "--c-optimize",
                type=click.Choice(["-O1", "-O2", "-O3", "-Os"]),
                default="-O2",
                show_default=True,
                help="Optimization level of the C compiler.",
            ),
            click.option(
                "--dump",
                type=click.Path(path_type=Path, file_okay=False),
                metavar="DIR",
                help="Write every stage as text into DIR.",
            ),
        )
    ):
        command = option(command)
    return command


def json_option(command: F) -> F:
    """`--json`: one object on standard output and nothing else there."""
    wrapped: F = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(
        command
    )
    return wrapped


def parse_size(text: str | None, option: str) -> int | None:
    """`64K`, `1M`, `4096` in bytes; None stays None."""
    if text is None:
        return None
    factor = {"K": 1024, "M": 1024 * 1024}.get(text[-1:].upper(), 1)
    digits = text[:-1] if factor > 1 else text
    if not digits.isdigit():
        raise click.BadParameter(f"{text!r} is no size: use bytes, or a K or M suffix",
                                 param_hint=option)  # fmt: skip
    return int(digits) * factor


def make_options(
    optimize: str,
    match: str | None,
    io: str,
    unfused: bool,
    compiler: str | None,
    c_optimize: str,
    **more: Any,
) -> Any:
    """`Options` from the words of `compile_options`."""
    from edgec.options import Options

    rounding = {"litert": "single"}.get(match or "", match)
    return Options(
        optimize=optimize,  # type: ignore[arg-type]  # click checked the choices
        match=rounding,  # type: ignore[arg-type]
        io=io,  # type: ignore[arg-type]
        unfused=unfused,
        compiler=compiler,  # type: ignore[arg-type]
        c_optimize=c_optimize,
        **more,
    )
