"""`edgec bench`: the sample models measured, beside TFLite Micro and the published results."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from edgec.cli.arguments import json_option, print_json


@click.command()
@click.option(
    "--baselines",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The measurements to compare with; default $EDGEC_SHARED/baselines.json.",
)
@click.option(
    "--board",
    "boards",
    multiple=True,
    metavar="B",
    help="Boards to measure on (repeatable); default mps2_an386.",
)
@click.option("--model", "names", multiple=True, metavar="NAME", help="Only these models.")
@click.option("--layers", is_flag=True, help="Also one row per layer.")
@click.option("--suite", type=click.Choice(["mlperf-tiny"]),
              help="Drive the models through a benchmark's own protocol, on its data.")  # fmt: skip
@click.option("--engine", type=click.Choice(["qemu", "serial"]), default="qemu", show_default=True,
              help="Where the suite's device is.")  # fmt: skip
@click.option("--port", metavar="P", help="The suite's device: a board's serial port.")
@click.option("--samples", type=click.IntRange(min=1), default=100, show_default=True, metavar="N",
              help="The most samples of each model for the suite's accuracy.")  # fmt: skip
@click.option("--pool", "pool_file", type=click.Path(path_type=Path), metavar="POOL.toml",
              help="Measure several models at once, with the pool's executor.")  # fmt: skip
@json_option
def command(
    baselines: Path | None,
    boards: tuple[str, ...],
    names: tuple[str, ...],
    layers: bool,
    suite: str | None,
    engine: str,
    port: str | None,
    samples: int,
    pool_file: Path | None,
    as_json: bool,
) -> None:
    """Measure the sample models and compare them with the baselines."""
    path = baselines or Path(os.environ.get("EDGEC_SHARED", "../shared")) / "baselines.json"
    if suite is not None:
        if layers or len(boards) > 1:
            raise click.UsageError("--suite takes one --board, and no --layers")
        board = boards[0] if boards else "mps2_an386"
        with _pool(pool_file) as pool:
            _suite(path, board, names, "serial" if port else engine, port, samples, pool, as_json)
        return
    from edgec.report.bench import measure_help_s, measure_models, print_bench

    with _pool(pool_file) as pool:
        rows = measure_models(path, boards or ("mps2_an386",), names, layers=layers, pool=pool)
    help_s = measure_help_s()
    if as_json:
        print_json({"rows": rows, "help_s": round(help_s, 3)})
    else:
        print_bench(rows, help_s)


def _pool(path: Path | None) -> Any:
    """The pool as a context manager; of None without a file."""
    if path is None:
        return nullcontext()
    from edgec.runners.pool import Pool

    return Pool.load(path)


def _suite(
    baselines: Path,
    board: str,
    names: tuple[str, ...],
    engine: str,
    port: str | None,
    samples: int,
    pool: Any,
    as_json: bool,
) -> None:
    from edgec.report.mlperf import print_suite, run_suite

    def progress(text: str) -> None:
        if not as_json:
            click.echo(text, err=True)

    rows = run_suite(baselines, board, engine, names, samples=samples, port=port, progress=progress)
    if as_json:
        print_json({"rows": rows})
    else:
        print_suite(rows)
