"""Options that several commands share, and how their words become values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from edgec.errors import EdgecError

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


def read_inputs(words: Sequence[str], ports: Sequence[Any]) -> list[Any]:
    """Arrays for the model's inputs from `x.npy`, `x.npz` or `name=x.npy` words."""
    import numpy as np

    given: dict[str, Any] = {}
    for word in words:
        name, _, path_text = word.rpartition("=")
        path = Path(path_text)
        try:
            loaded = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise EdgecError(
                f"cannot read {path} as a NumPy file: {error}",
                hint="give an .npy file, or an .npz with one array per input",
            ) from None
        if isinstance(loaded, np.ndarray):
            given[name or ports[len(given) % len(ports)].name] = loaded
        else:
            arrays = {key: loaded[key] for key in loaded.files}
            if len(ports) == 1 and len(arrays) == 1 and ports[0].name not in arrays:
                arrays = {ports[0].name: next(iter(arrays.values()))}
            given.update(arrays)
    unknown = [name for name in given if name not in {port.name for port in ports}]
    missing = [port.name for port in ports if port.name not in given]
    if missing or (unknown and len(unknown) == len(given)):
        raise EdgecError(
            f"no input is given for {', '.join(missing)}",
            details=tuple(f"{p.name}: {p.dtype}{list(p.shape)}" for p in ports),
            hint="name an input with NAME=FILE",
        )
    return [fit_input(given[port.name], port) for port in ports]


def fit_input(array: Any, port: Any) -> Any:
    """The array in the port's shape; EdgecError for another dtype or number of elements."""
    shape, count = tuple(port.shape), 1
    for extent in shape:
        count *= extent
    if array.size != count or array.dtype.name != port.dtype:
        raise EdgecError(
            f"input {port.name}: {port.dtype}{list(shape)} is needed,"
            f" {array.dtype.name}{list(array.shape)} was given",
        )
    return array.reshape(shape)
