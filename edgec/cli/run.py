"""`edgec run`: one inference on the host, a simulated core, an emulated board or a real one."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click

from edgec.cli.arguments import MODEL, compile_options, json_option, make_options


@click.command()
@click.argument("model", type=MODEL)
@click.option("--board", metavar="B", help="Board name, alias or TOML file; for a project folder "
              "the board that it was built for.")  # fmt: skip
@click.option("--engine", type=click.Choice(["host", "core", "qemu", "serial"]),
              help="Default: qemu where the board can be emulated, else core.")  # fmt: skip
@click.option("--port", metavar="P", help="Serial port of a real board (engine serial).")
@click.option("--input", "inputs", multiple=True, metavar="[NAME=]X.npy", help="Input data.")
@click.option("--seed", type=int, default=1, show_default=True,
              help="Seed of the generated input, where no --input is given.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), metavar="Y.npz",
              help="Write the outputs here.")  # fmt: skip
@click.option("--profile", is_flag=True, help="A row for every emitted group.")
@compile_options
@json_option
def command(
    model: Path,
    board: str | None,
    engine: str | None,
    port: str | None,
    inputs: tuple[str, ...],
    seed: int,
    output: Path | None,
    profile: bool,
    dump: Path | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Run MODEL, a model file or a project folder that `edgec build` made."""
    from edgec.report.project import keep_profile
    from edgec.report.run import print_run, run_report

    with tempfile.TemporaryDirectory(prefix="edgec_run_") as work:
        built = _built(model, board, profile, dump, Path(work), words)
        from edgec.runners.engine import default_engine, open_session
        from edgec.runners.inputs import read_inputs
        from edgec.runners.samples import generate_inputs

        ports = built.manifest.inputs
        if inputs:
            arrays = read_inputs(inputs, ports)
        else:
            arrays = list(generate_inputs(seed, [(p.shape, p.dtype) for p in ports]))
        chosen = engine or default_engine(built.board, port)
        with open_session(chosen, built, port=port) as session:
            result = session.run(arrays)
            traced = session.run(arrays, profile=True) if profile else None
        path = _save(output, built, result)
        report = run_report(built, chosen, result, traced, path)
        if profile and model.is_dir():
            keep_profile(built, report)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        print_run(report, profile)


def _built(
    model: Path, board: str | None, profile: bool, dump: Path | None, work: Path, words: Any
) -> Any:
    from edgec.deploy import deploy, open_project
    from edgec.pipeline import compile_model
    from edgec.target.board import load_board

    if model.is_dir():
        return open_project(model, board, traced=profile)
    if board is None:
        raise click.UsageError("a model file needs --board")
    chosen = load_board(board)
    compiled = compile_model(
        model, chosen.core, make_options(**words), board_name=chosen.name, dump=dump
    )
    return deploy(compiled, chosen, work / "project", traced=profile)


def _save(output: Path | None, built: Any, result: Any) -> Path | None:
    """Write the outputs as one .npz, whole or not at all."""
    if output is None:
        return None
    import os

    import numpy as np

    from edgec.errors import EdgecError

    arrays = {
        port.name: array for port, array in zip(built.manifest.outputs, result.outputs, strict=True)
    }
    target = output if output.suffix == ".npz" else output.with_name(output.name + ".npz")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.npz")
    try:
        np.savez(temporary, **arrays)
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise EdgecError(
            f"cannot write {target}: {error}", hint="choose another --output"
        ) from None
    return target
