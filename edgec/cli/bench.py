"""`edgec bench`: the sample models measured, beside TFLite Micro and the published results."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.cli.arguments import INPUT_SHAPE, json_option, print_json, refuse_beside_pool
from edgec.cli.progress import tell_lost
from edgec.report.terminal import echo

if TYPE_CHECKING:
    from edgec.runners.pool import Pool

Shapes = tuple[tuple[str, tuple[int | range, ...]], ...]
#: Options that say nothing of a measurement on this computer.
NOT_HERE = ("boards", "layers", "pool_file", "engine", "port")


@click.command()
@click.option("--baselines", type=click.Path(path_type=Path), metavar="FILE",
              help="The measurements to compare with; default $EDGEC_SHARED/baselines.json.",
              )  # fmt: skip
@click.option("--board", "boards", multiple=True, metavar="B",
              help="Boards to measure on (repeatable); default: one of each core.")  # fmt: skip
@click.option("--model", "names", multiple=True, metavar="NAME", help="Only these models.")
@click.option("--layers", is_flag=True, help="Also one row per layer.")
@click.option("--suite", type=click.Choice(["mlperf-tiny"]),
              help="Drive the models through a benchmark's own protocol, on its data.")  # fmt: skip
@click.option("--host", "on_host", is_flag=True,
              help="Instead: compare times here with LiteRT and ONNX Runtime.")  # fmt: skip
@click.option("--peers", "with_peers", is_flag=True,
              help="Instead: compare with other generators of C and TFLite Micro on a simulated"
              " Cortex-M4.")  # fmt: skip
@click.option("--gpu", "on_gpu", is_flag=True,
              help="Instead: compare times on this computer's GPU with torch.compile, ONNX"
              " Runtime and TensorRT.")  # fmt: skip
@click.option("--html", "page", type=click.Path(path_type=Path), metavar="FILE",
              help="With --peers, --host or --gpu: also write a page (--host: of layers).",
              )  # fmt: skip
@click.option("--input-shape", "shapes", type=INPUT_SHAPE, multiple=True,
              metavar="[NAME=]1,3,48,192",
              help="With --peers: the sizes of an input that a file leaves open (repeatable).",
              )  # fmt: skip
@click.option("--engine", type=click.Choice(["qemu", "serial"]),
              help="Where the suite's device is; default: qemu, serial with --port.")  # fmt: skip
@click.option("--port", metavar="P", help="The suite's device: a board's serial port.")
@click.option("--samples", type=click.IntRange(min=1), default=100, show_default=True, metavar="N",
              help="The most samples of each model for the suite's accuracy.")  # fmt: skip
@click.option("--pool", "pool_file", type=click.Path(path_type=Path), metavar="POOL.toml",
              help="Measure on several devices at once.")  # fmt: skip
@json_option
def command(baselines: Path | None, suite: str | None, as_json: bool, **given: Any) -> None:
    """Measure the sample models and compare them with the baselines."""
    path = baselines or Path(os.environ.get("EDGEC_SHARED", "../shared")) / "baselines.json"
    instead = _instead(given, suite)
    if instead is not None:
        instead(path, given["names"], as_json)
    elif suite is not None:
        _run_suite(path, as_json=as_json, **given)
    elif given["engine"] or given["port"]:
        raise click.UsageError("--engine and --port are for a --suite")
    else:
        boards, names, layers = given["boards"], given["names"], given["layers"]
        _measure(path, boards, names, layers, given["pool_file"], as_json)


def _instead(
    given: dict[str, Any], suite: str | None
) -> Callable[[Path, tuple[str, ...], bool], None] | None:
    """The action of --host, --peers or --gpu, or None. Raises UsageError with other options."""
    ways = {"on_host": _time_here, "with_peers": _beside_peers, "on_gpu": _time_gpu}
    page, chosen = given.pop("page"), [way for key, way in ways.items() if given.pop(key)]
    extra = _of_peers(given.pop("shapes"), chosen)
    if not chosen:
        if page is not None:
            raise click.UsageError("--html goes with --peers, --host or --gpu")
        return None
    if suite or len(chosen) > 1 or any(given[name] for name in NOT_HERE):
        words = "--host, --peers or --gpu goes with --model, --baselines, --html and --json alone"
        raise click.UsageError(words)
    return partial(chosen[0], page=page, **extra)


def _of_peers(shapes: Shapes, chosen: list[Any]) -> dict[str, Any]:
    if shapes and chosen != [_beside_peers]:
        raise click.UsageError("--input-shape goes with --peers")
    return {"shapes": shapes} if shapes else {}


def _run_suite(path: Path, *, as_json: bool, **given: Any) -> None:
    boards = given["boards"]
    if given["layers"] or len(boards) > 1:
        raise click.UsageError("--suite takes one --board, and no --layers")
    board = boards[0] if boards else "mps2_an386"
    with _suite_pool(given["pool_file"], given["engine"], given["port"]) as devices:
        _suite(path, board, given["names"], given["samples"], devices, as_json)
    tell_lost(devices)


def _measure(
    baselines: Path, boards: tuple[str, ...], names: tuple[str, ...], layers: bool,
    pool_file: Path | None, as_json: bool,
) -> None:  # fmt: skip
    from edgec.report.accuracy import FIGURES, FORMS, form_lines, quantizer_lines
    from edgec.report.bench import EVERY_CORE, measure_help_s, measure_models, print_bench
    from edgec.runners.pool import Pool

    with Pool.load(pool_file) if pool_file is not None else nullcontext() as pool:
        rows = measure_models(baselines, boards or EVERY_CORE, names, layers=layers, pool=pool)
    tell_lost(pool)
    help_s = measure_help_s()
    if as_json:
        print_json({"rows": rows, "help_s": round(help_s, 3)})
        return
    print_bench(rows, help_s)
    tables = [] if names or boards else [quantizer_lines(FIGURES), form_lines(FORMS)]
    for lines in filter(None, tables):
        echo("\n" + "\n".join(lines))


def _time_here(baselines: Path, names: tuple[str, ...], as_json: bool, page: Path | None) -> None:
    from edgec.cli.progress import count_bar
    from edgec.report.host_bench import find_models, measure_host, print_host_bench
    from edgec.report.roofline import measure_layers
    from edgec.report.roofline_page import render_rooflines

    rows, layers = [], []
    models = find_models(baselines, names)
    with count_bar("measuring", len(models), quiet=as_json) as step:
        for model in models:
            rows.append(measure_host(model))
            if page is not None:
                layers.append(measure_layers(model))
            step()
    if as_json:
        print_json({"rows": rows})
    else:
        print_host_bench(rows)
    if page is not None:
        _write_page(page, render_rooflines(layers))


def _time_gpu(baselines: Path, names: tuple[str, ...], as_json: bool, page: Path | None) -> None:
    from edgec.cli.progress import count_bar
    from edgec.oracle.gpu_bench import measure_gpu, print_gpu, render_gpu, require_gpu
    from edgec.report.host_bench import find_models

    require_gpu()
    rows = []
    models = find_models(baselines, names)
    with count_bar("measuring", len(models), quiet=as_json) as step:
        for model in models:
            rows += measure_gpu(model)
            step()
    if as_json:
        print_json({"rows": rows})
    else:
        print_gpu(rows)
    if page is not None:
        _write_page(page, render_gpu(rows))


def _beside_peers(
    baselines: Path, names: tuple[str, ...], as_json: bool, page: Path | None,
    shapes: Shapes = (),
) -> None:  # fmt: skip
    from edgec.cli.progress import count_bar
    from edgec.options import Options
    from edgec.oracle import peers
    from edgec.report.peers import print_peers, render_peers

    peers.installed_peers()
    rows = []
    models = peers.find_peer_models(baselines, names)
    with count_bar("measuring", len(models), quiet=as_json) as step:
        for model in models:
            rows += peers.measure_peers(model, baselines, Options(input_shapes=shapes))
            step()
    if as_json:
        print_json({"rows": rows})
    else:
        print_peers(rows, peers.versions(rows))
    if page is not None:
        _write_page(page, render_peers(rows, peers.METHOD, peers.versions(rows)))


def _write_page(page: Path, text: str) -> None:
    from edgec.build.staging import staged_file

    with staged_file(page, "choose another --html") as staged:
        staged.write_text(text, encoding="utf-8")


def _suite_pool(path: Path | None, engine: str | None, port: str | None) -> Pool:
    """The devices of the file; without one a single device."""
    from edgec.runners.pool import Device, Pool

    if path is not None:
        refuse_beside_pool(path, engine, port)
        return Pool.load(path)
    name = engine or ("serial" if port else "qemu")
    if port and name != "serial":
        raise click.UsageError(f"--port is for the engine serial, not {name}")
    return Pool([Device(port or name, name, port)])


def _suite(
    baselines: Path, board: str, names: tuple[str, ...], samples: int, pool: Pool, as_json: bool
) -> None:
    from edgec.report.mlperf import print_suite, run_suite

    def progress(text: str) -> None:
        if not as_json:
            echo(text, err=True)

    rows = run_suite(baselines, board, names, pool, samples=samples, progress=progress)
    if as_json:
        print_json({"rows": rows})
    else:
        print_suite(rows)
