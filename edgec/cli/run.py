"""`edgec run`: inferences on the host, a simulated core, an emulated board or a real one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from edgec.cli.arguments import (
    BOXES,
    MODEL,
    PIXELS,
    compile_options,
    json_option,
    make_options,
    print_json,
    refuse_compile_options,
    require_model,
)
from edgec.cli.progress import Working, tell_lost, working
from edgec.cli.sanitizer import run_sanitized, sanitize_option
from edgec.cli.shown_inputs import check_picture, show_inputs


@click.command()
@click.argument("model", type=MODEL)
@click.option("--board", metavar="B", help="Board name, alias or TOML file; else host, for a "
              "project folder the board that it was built for.")  # fmt: skip
@click.option("--engine", type=click.Choice(["host", "gpu_emulation", "core", "qemu", "serial"]),
              help="Default: serial with --port; host for the board host; qemu where it is "
              "installed and can be the board; else core.")  # fmt: skip
@sanitize_option
@click.option("--port", metavar="P", help="Serial port of a real board (engine serial).")
@click.option("--pool", "pool_file", type=click.Path(path_type=Path), metavar="POOL.toml",
              help="Spread --steps over several devices, for a model without state.")  # fmt: skip
@click.option("--input", "inputs", multiple=True, metavar="[NAME=]FILE",
              help="Input data: .npy, .npz, .csv, .wav or a picture; once for each "
              "input.")  # fmt: skip
@click.option("--pixels", type=PIXELS, default="0:1", show_default=True, metavar="BLACK:WHITE",
              help="For pictures: the model's values for black and white.")  # fmt: skip
@click.option("--labels", "labels_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Names of the classes, a line each: show the likeliest.")  # fmt: skip
@click.option("--features", type=click.Path(path_type=Path, dir_okay=False), metavar="F.toml",
              help="Features to compute from a .wav: MFCC, mel bands, or your own.")  # fmt: skip
@click.option("--boxes", type=BOXES, help="Outputs that are boxes; not for"
              " Detection_PostProcess, whose boxes are known.")  # fmt: skip
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), metavar="P.png",
              help="Draw the boxes on the picture that was given, or a sound's "
              "spectrogram.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, show_default=True,
              metavar="N", help="Seed of the generated input.")  # fmt: skip
@click.option("--steps", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
              help="Run N times, the state kept; inputs and outputs then have a first axis "
              "of N.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), metavar="Y.npz",
              help="Write the outputs here, by their names.")  # fmt: skip
@click.option("--profile", is_flag=True, help="A row for every emitted group.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
              help="Profile N runs: least, median and most.")  # fmt: skip
@click.option("--chrome-trace", type=click.Path(path_type=Path), metavar="T.json",
              help="Write the profile for chrome://tracing and Perfetto.")  # fmt: skip
@click.option("--speedscope", type=click.Path(path_type=Path), metavar="S.json",
              help="Write the profile for speedscope.app.")  # fmt: skip
@compile_options
@json_option
def command(model: Path, profile: bool, as_json: bool, **given: Any) -> None:
    """Run MODEL, a model file or a project folder that `edgec build` made."""
    from edgec.build.staging import work_folder
    from edgec.report.classes import read_labels
    from edgec.report.meaning import add_meaning
    from edgec.report.project import keep_profile
    from edgec.report.run import print_run, run_report
    from edgec.runners.pool import Pool

    pool_file, engine, port, repeat = (
        given.pop(key) for key in ("pool_file", "engine", "port", "repeat")
    )
    run_sanitized(given.pop("sanitize"), engine)
    viewers = given.pop("chrome_trace"), given.pop("speedscope")
    if not profile and (repeat > 1 or any(viewers)):
        raise click.UsageError("--repeat, --chrome-trace and --speedscope need --profile")
    if pool_file is not None and (engine or port or profile):
        raise click.UsageError("--pool excludes --engine, --port and --profile")
    pool = None if pool_file is None else Pool.load(pool_file)
    engine = engine if pool is None else pool.devices[0].engine
    output = given.pop("output")
    target = None if output is None else _output_file(output)
    labels_file = given.pop("labels_file")
    labels = None if labels_file is None else read_labels(labels_file)
    shown = {key: given.pop(key) for key in ("boxes", "picture")}
    runs = {key: given.pop(key) for key in ("inputs", "pixels", "seed", "steps", "features")}
    require_model(model)
    check_picture(shown["picture"], runs["inputs"])
    with (
        work_folder("run") as work,
        working(
            f"{'opening' if model.is_dir() else 'compiling'} {model.name}", quiet=as_json
        ) as bar,
    ):
        chosen, built = _built(model, engine, port, work, profile=profile, **given)
        arrays, heard = _arrays(built, chosen, work, bar, runs)
        profiled: list[Any] = []
        if pool is not None:
            with pool:
                results, chosen = pool.run_all(built, arrays), pool.name
            tell_lost(pool)
        else:
            results, profiled = _run(chosen, built, port, arrays, repeat if profile else 0, bar)
        if target is not None:
            _save(target, built, results)
        report = run_report(built, chosen, results, profiled, target)
        report["features"] = heard
        add_meaning(report, built.manifest, results[-1].outputs, labels, shown["boxes"])
        if profile and model.is_dir():
            keep_profile(built, report)
        _export(built, results[-1], profiled, *viewers)
    lines = show_inputs(runs["inputs"], report, shown["picture"], quiet=as_json)
    if as_json:
        print_json(report)
    else:
        print_run(report, profile, lines)


def _arrays(
    built: Any, engine: str, work: Path, bar: Working, given: dict[str, Any]
) -> tuple[list[list[Any]], dict[str, Any] | None]:
    """The inputs of each step, as given or generated, and how features were made, if they were."""
    from edgec.runners.inputs import read_steps
    from edgec.runners.samples import generate_steps

    inputs, steps, features = given["inputs"], given["steps"], given["features"]
    ports: Sequence[Any] = built.manifest.inputs
    if not inputs:
        return generate_steps(given["seed"], [(p.shape, p.dtype) for p in ports], steps), None
    if features is None or not any(word.lower().endswith(".wav") for word in inputs):
        return read_steps(inputs, ports, steps, given["pixels"]), None
    from edgec.boards.board import load_board
    from edgec.deploy.front_end import Listener
    from edgec.frontends.features import read_features

    board = built.board or load_board("host")
    with Listener(read_features(features), board, engine, work / "features") as listener:
        hear = partial(listener.hear, progress=partial(bar.tell, "frames of the sound"))
        return read_steps(inputs, ports, steps, given["pixels"], hear), asdict(listener.heard)


def _run(
    engine: str, built: Any, port: str | None, arrays: list[list[Any]], repeat: int, bar: Working
) -> tuple[list[Any], list[Any]]:
    """The results of all steps, and the last step's of `repeat` profiled runs."""
    from edgec.runners.engine import open_session

    bar.tell(f"starting {engine}")
    with open_session(engine, built, port=port, transfer=bar.move) as session:
        results = _run_steps(session, arrays, bar, f"running on {engine}")
        profiled = [
            _run_steps(session, arrays, bar, f"profile {number} of {repeat}", profile=True)[-1]
            for number in range(1, repeat + 1)
        ]
        return results, profiled


def _export(
    built: Any, plain: Any, profiled: list[Any], chrome_path: Path | None, scope_path: Path | None
) -> None:
    """Write the files for viewers of profiles. EdgecError where nothing was counted."""
    from edgec.build.staging import staged_file
    from edgec.errors import EdgecError
    from edgec.report.profile import chrome_trace, make_profile, speedscope

    wanted = [(chrome_path, chrome_trace), (scope_path, speedscope)]
    for path, write in wanted:
        if path is None:
            continue
        profile = make_profile(built.manifest, plain, profiled)
        if not profile.unit:
            raise EdgecError(
                f"cannot write {path}: this engine counts no instructions",
                hint="use --engine core or qemu, or a real board",
            )
        clock_hz = built.board.clock_hz if built.board is not None else 0
        with staged_file(path, hint="choose another file in a folder that exists") as temporary:
            temporary.write_text(write(built.manifest, profile, clock_hz), encoding="ascii")


def _run_steps(
    session: Any, steps: list[list[Any]], bar: Working, what: str, profile: bool = False
) -> list[Any]:
    """All steps from the initial state, whatever state a real board was in."""
    if session.manifest.state_bytes:
        session.reset()
    results = []
    for number, arrays in enumerate(steps):
        bar.tell(what, number, len(steps) if len(steps) > 1 else 0)
        results.append(session.run(arrays, profile=profile))
    return results


def _built(
    model: Path,
    engine: str | None,
    port: str | None,
    work: Path,
    *,
    profile: bool,
    board: str | None,
    dump: Path | None,
    **words: Any,
) -> tuple[str, Any]:
    """The engine's name, and the project: opened, or built in `work`."""
    from edgec.boards.board import load_board
    from edgec.deploy.project import deploy, open_project
    from edgec.pipeline import compile_model
    from edgec.runners.engine import default_engine, require_engine

    if model.is_dir():
        refuse_compile_options(f"{model} is a project folder, which is compiled already")
        built = open_project(model, board, traced=profile)
        return engine or default_engine(built.board, port), built
    chosen = load_board(board or "host")
    name = engine or default_engine(chosen, port)
    require_engine(name, chosen)  # before all the work
    compiled = compile_model(model, chosen.core, make_options(**words), board=chosen, dump=dump)
    return name, deploy(compiled, chosen, work / "project", traced=profile)


def _output_file(output: Path) -> Path:
    """The .npz that will be written; EdgecError, before all the work, where it cannot be."""
    from edgec.errors import EdgecError

    target = output if output.suffix == ".npz" else output.with_name(output.name + ".npz")
    reason = ""
    if not target.parent.is_dir():
        reason = f"there is no folder {target.parent}"
    elif target.is_dir():
        reason = "it is a folder"
    elif not os.access(target.parent, os.W_OK):
        reason = f"the folder {target.parent} cannot be written"
    if reason:
        raise EdgecError(f"cannot write {target}: {reason}", hint="choose another --output")
    return target


def _save(target: Path, built: Any, results: list[Any]) -> None:
    """Write the outputs as one .npz, atomically; outputs of several steps are stacked.

    Outputs whose sizes differ between steps are separate: y.0, y.1, ….
    """
    import numpy as np

    from edgec.build.staging import staged_file

    arrays: dict[str, Any] = {}
    steps = zip(*(result.outputs for result in results), strict=True)
    for port, each in zip(built.manifest.answers, steps, strict=True):
        if len({array.shape for array in each}) > 1:  # data decide their sizes
            arrays |= {f"{port.name}.{number}": array for number, array in enumerate(each)}
        else:
            arrays[port.name] = np.stack(each) if len(each) > 1 else each[0]
    with staged_file(target, hint="choose another --output") as temporary:
        np.savez(temporary, **arrays)
