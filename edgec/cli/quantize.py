"""`edgec quantize`: a float model and samples of its input to a QDQ model in int8."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from edgec.cli.arguments import MODEL, json_option, print_json
from edgec.cli.progress import count_bar
from edgec.report.figures import short_title
from edgec.report.table import Column, format_table, number

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("model", type=MODEL)
@click.option("--calibration", type=FILE, required=True, metavar="FILE",
              help="An .npz or .npy of samples, the first axis counts them.")  # fmt: skip
@click.option("-o", "--output", type=FILE, required=True, metavar="OUT.onnx",
              help="The QDQ model to write.")  # fmt: skip
@click.option("--observer", type=click.Choice(["auto", "minmax", "percentile", "mse", "entropy"]),
              default="auto", show_default=True,
              help="How the range of a value follows from what it was.")  # fmt: skip
@click.option("--samples", "most", type=click.IntRange(min=1), metavar="N",
              help="Use only the first N samples.")  # fmt: skip
@click.option("--symmetric", is_flag=True,
              help="Zero points of 0 for values, too.")  # fmt: skip
@click.option("--equalize", is_flag=True,
              help="Make channels of neighbouring layers alike in range first.")  # fmt: skip
@click.option("--nearest", is_flag=True,
              help="Round weights to nearest instead of by what the layer computes.")  # fmt: skip
@click.option("--keep-biases", is_flag=True,
              help="Do not correct biases for the rounding of weights.")  # fmt: skip
@click.option("--test", "test_file", type=FILE, metavar="FILE",
              help="Other samples to compare with the float model; default the same.")  # fmt: skip
@click.option("--labels", "labels_file", type=FILE, metavar="FILE",
              help="An .npy of the right class of each compared sample.")  # fmt: skip
@json_option
def command(
    model: Path,
    calibration: Path,
    output: Path,
    observer: str,
    most: int | None,
    symmetric: bool,
    equalize: bool,
    nearest: bool,
    keep_biases: bool,
    test_file: Path | None,
    labels_file: Path | None,
    as_json: bool,
) -> None:
    """Quantize the float MODEL to int8 and say what it cost, layer by layer."""
    from edgec.cli.samples import load_cases, load_labels
    from edgec.post_training import Recipe, float_function, quantize_function
    from edgec.staging import staged_file

    if output.suffix != ".onnx":
        raise click.UsageError(f"{output}: the QDQ model's file ends in .onnx")
    function = float_function(model)
    samples = load_cases(function.inputs, calibration, 0)[:most]
    tests = load_cases(function.inputs, test_file, 0) if test_file is not None else samples
    labels = None if labels_file is None else load_labels(labels_file, len(tests))
    recipe = Recipe(observer, symmetric, not nearest, not keep_biases, equalize)
    with count_bar("calibrating", len(samples), quiet=as_json) as step:
        made = quantize_function(function, samples, recipe, step)
    with count_bar("comparing", len(tests), quiet=as_json) as step:
        explanation = made.explain(tests, labels, step)
    with staged_file(output, hint="choose another --output") as temporary:
        temporary.write_bytes(made.onnx_bytes())
    report = {
        "model": str(model),
        "output": str(output),
        "observer": observer,
        "calibration_samples": len(samples),
        **dataclasses.asdict(explanation),
    }
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    columns = (
        Column("value", least=16, cut="start"), Column("by", optional=1), number("low"),
        number("high"), number("zero point", 2), number("clipped %", 1), number("SQNR dB"),
    )  # fmt: skip
    rows = [
        (
            short_title(row["name"]),
            row["operator"],
            f"{row['low']:.4g}",
            f"{row['high']:.4g}",
            str(row["zero_point"]),
            f"{100 * row['clipped']:.3f}",
            f"{row['sqnr_db']:.1f}",
        )
        for row in report["rows"]
    ]
    lines = format_table(columns, rows)
    worst = sorted(report["rows"], key=lambda row: float(row["sqnr_db"]))[:3]
    lines += [
        "",
        f"outputs: {report['output_sqnr_db']:.1f} dB; the same answer as in float for"
        f" {100 * report['agreement']:.2f} % of {report['samples']} samples",
    ]
    if report["accuracy"] is not None:
        lines.append(
            f"accuracy: {100 * report['float_accuracy']:.2f} % in float,"
            f" {100 * report['accuracy']:.2f} % in integers"
        )
    lines.append("least accurate: " + ", ".join(short_title(row["name"]) for row in worst))
    lines.append(f"written to {report['output']}")
    click.echo("\n".join(lines))
