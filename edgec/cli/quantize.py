"""`edgec quantize`: a float model and samples of its input to a QDQ model in int8."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from edgec.cli.arguments import INPUT_SHAPE, MODEL, PIXELS, json_option, print_json
from edgec.cli.progress import count_bar

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("model", type=MODEL)
@click.option("--calibration", type=FILE, required=True, metavar="SOURCE",
              help="Samples: an .npz or .npy, or a folder of such files or of images.")  # fmt: skip
@click.option("-o", "--output", type=FILE, required=True, metavar="OUT.onnx",
              help="The QDQ model to write.")  # fmt: skip
@click.option("--observer",
              type=click.Choice(["auto", "local", "minmax", "percentile", "mse", "entropy"]),
              default="auto", show_default=True,
              help="How the range of a value follows from what it was.")  # fmt: skip
@click.option("--samples", "most", type=click.IntRange(min=1), metavar="N",
              help="Use only the first N samples.")  # fmt: skip
@click.option("--pixels", type=PIXELS, default="0:1", show_default=True, metavar="BLACK:WHITE",
              help="What black and white are to the model, for images.")  # fmt: skip
@click.option("--weights", type=click.Choice(["int8", "int4"]), default="int8", show_default=True,
              help="How weights are stored.")  # fmt: skip
@click.option("--symmetric", is_flag=True,
              help="Zero points of 0 for values, too.")  # fmt: skip
@click.option("--equalize", is_flag=True,
              help="Make channels of neighbouring layers alike in range first.")  # fmt: skip
@click.option("--nearest", is_flag=True,
              help="Round weights to nearest instead of by what the layer computes.")  # fmt: skip
@click.option("--keep-biases", is_flag=True,
              help="Do not correct biases for the rounding of weights.")  # fmt: skip
@click.option("--test", "test_source", type=FILE, metavar="SOURCE",
              help="Other samples to compare with the float model; default the same.")  # fmt: skip
@click.option("--labels", "labels_file", type=FILE, metavar="FILE",
              help="An .npy of the right class of each compared sample.")  # fmt: skip
@click.option("--no-blame", is_flag=True,
              help="Do not leave out layer after layer to find those to blame.")  # fmt: skip
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False),
              metavar="OUT.html", help="Write one self-contained page.")  # fmt: skip
@click.option("--input-shape", type=INPUT_SHAPE, multiple=True,
              help="Shape of an ONNX input that is left open.")  # fmt: skip
@json_option
def command(
    model: Path,
    calibration: Path,
    output: Path,
    observer: str,
    most: int | None,
    pixels: tuple[float, float],
    weights: str,
    symmetric: bool,
    equalize: bool,
    nearest: bool,
    keep_biases: bool,
    test_source: Path | None,
    labels_file: Path | None,
    no_blame: bool,
    page: Path | None,
    input_shape: tuple[tuple[str, tuple[int, ...]], ...],
    as_json: bool,
) -> None:
    """Quantize the float MODEL to int8 and say what it cost, layer by layer."""
    from edgec.cli.samples import load_labels, ports_of
    from edgec.post_training import Recipe, float_function, quantize_function
    from edgec.report.quantization import print_quantization, render_quantization
    from edgec.runners.sample_files import open_samples
    from edgec.staging import staged_file

    if output.suffix != ".onnx":
        raise click.UsageError(f"{output}: the QDQ model's file ends in .onnx")
    function = float_function(model, dict(input_shape))
    ports = ports_of(function.inputs)
    samples = open_samples(ports, calibration, pixels).first(most)
    tests = samples if test_source is None else open_samples(ports, test_source, pixels)
    labels = None if labels_file is None else load_labels(labels_file, len(tests))
    recipe = Recipe(observer, symmetric, not nearest, not keep_biases, equalize, weights)
    with count_bar("calibrating", len(samples), quiet=as_json) as step:
        made = quantize_function(function, samples, recipe, step)
    blames = None
    if not no_blame:
        with count_bar("leaving layers out", made.layers(), quiet=as_json) as step:
            blames = made.blame(step)
    with count_bar("comparing", len(tests), quiet=as_json) as step:
        explanation = made.explain(tests, labels, step, blames)
    report = {
        "model": str(model),
        "output": str(output),
        "observer": observer,
        "calibration_samples": len(samples),
        "recipe": dataclasses.asdict(recipe),
        **dataclasses.asdict(explanation),
    }
    content = made.onnx_bytes()
    if page is not None:
        with staged_file(page, hint="choose another --html") as temporary:
            temporary.write_bytes(render_quantization(report).encode("utf-8"))
    with staged_file(output, hint="choose another --output") as temporary:
        temporary.write_bytes(content)
    if as_json:
        print_json(report)
        return
    print_quantization(report)
    if page is not None:
        click.echo(f"page written to {page}")
