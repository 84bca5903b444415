"""`edgec bench`: the sample models measured, beside TFLite Micro and the published results."""

from __future__ import annotations

import os
from pathlib import Path

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
@json_option
def command(
    baselines: Path | None,
    boards: tuple[str, ...],
    names: tuple[str, ...],
    layers: bool,
    as_json: bool,
) -> None:
    """Measure the sample models and compare them with the baselines."""
    from edgec.report.bench import measure_help_s, measure_models, print_bench

    path = baselines or Path(os.environ.get("EDGEC_SHARED", "../shared")) / "baselines.json"
    rows = measure_models(path, boards or ("mps2_an386",), names, layers=layers)
    help_s = measure_help_s()
    if as_json:
        print_json({"rows": rows, "help_s": round(help_s, 3)})
    else:
        print_bench(rows, help_s)
