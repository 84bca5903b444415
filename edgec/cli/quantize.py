"""`edgec quantize`: a float model and samples of its input to a QDQ model in int8."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.cli.arguments import (
    INPUT_SHAPE,
    INPUT_VALUE,
    MODEL,
    PIXELS,
    SIZE,
    FloatRange,
    compile_budget_option,
    custom_ops_option,
    json_option,
    print_json,
)
from edgec.cli.progress import count_bar, working
from edgec.cli.quantize_options import LimitType, QuantizeOptions
from edgec.report.terminal import echo

if TYPE_CHECKING:
    from edgec.boards.board import Board
    from edgec.graph.ir import Function
    from edgec.graph.limits import Budget
    from edgec.quantizer.post_training import PostTraining
    from edgec.runners.sample_files import Samples

FILE = click.Path(path_type=Path)
LIMIT = LimitType()
#: Where the words of this command are kept, to suggest another like it.
WORDS = "edgec.quantize.words"


class _WithWords(click.Command):
    """Keeps its words as they were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = tuple(args)
        return super().parse_args(ctx, args)


@click.command(cls=_WithWords)
@click.argument("model", type=MODEL)
@click.option("--calibration", type=FILE, required=True, metavar="SOURCE",
              help="Samples: an .npz or .npy, or a folder of such files or of images.")  # fmt: skip
@click.option("-o", "--output", type=FILE, required=True, metavar="OUT.onnx",
              help="The QDQ model to write.")  # fmt: skip
@click.option("--observer",
              type=click.Choice(["auto", "local", "minmax", "percentile", "mse", "entropy"]),
              default="auto", show_default=True,
              help="How to choose the range of a value from the samples.")  # fmt: skip
@click.option("--samples", "most", type=click.IntRange(min=1), metavar="N",
              help="Use only the first N samples.")  # fmt: skip
@click.option("--pixels", type=PIXELS, default="0:1", show_default=True, metavar="BLACK:WHITE",
              help="For images: the model's values for black and white.")  # fmt: skip
@click.option("--weights", type=click.Choice(["int8", "int4", "mixed", "float16"]), default="int8",
              show_default=True, help="How weights are stored; mixed: chosen layer by layer, for"
              " the least loss within the limits; float16: all else stays float.")  # fmt: skip
@click.option("--group", type=click.IntRange(0), default=0, metavar="N",
              help="For int4 and mixed: how many inputs share a scale; default all.")  # fmt: skip
@click.option("--activations", type=click.Choice(["int8", "int16", "mixed", "float32"]),
              default="int8", show_default=True,
              help="How values between layers are stored; mixed: int8, and int16 where the goal"
              " needs it; float32: weights alone in integers.")  # fmt: skip
@click.option("--min-sqnr", "goal_db", type=FloatRange(1, 120), metavar="DB",
              help="For mixed values: the least decibels of the outputs against the float model,"
              " on held-out samples; default 30, or the most that limits allow.")  # fmt: skip
@click.option("--keep-float", multiple=True, metavar="LAYER",
              help="A layer that stays in float (repeatable).")  # fmt: skip
@click.option("--int16", multiple=True, metavar="LAYER",
              help="A layer with int16 values among int8 (repeatable).")  # fmt: skip
@click.option("--from-start", is_flag=True,
              help="Reset the states before each sample.")  # fmt: skip
@click.option("--max-weights", type=LIMIT, metavar="SIZE|PERCENT",
              help="For mixed: at most this many bytes of weights, or part of int8's.")  # fmt: skip
@click.option("--board", metavar="B",
              help="For mixed: the board whose build the limits are for.")  # fmt: skip
@click.option("--max-flash", "max_flash_bytes", type=SIZE, metavar="SIZE",
              help="For mixed: at most this much flash of the board's build.")  # fmt: skip
@click.option("--max-ram", "max_ram_bytes", type=SIZE, metavar="SIZE",
              help="For mixed: at most this much RAM of the board's build.")  # fmt: skip
@click.option("--max-instructions", type=click.IntRange(1), metavar="N",
              help="For mixed: at most this many for one inference, counted on the simulated"
              " core.")  # fmt: skip
@click.option("--symmetric", is_flag=True,
              help="Use zero points of 0 for values, as for weights.")  # fmt: skip
@click.option("--equalize", type=click.Choice(["auto", "always", "never"]), default="auto",
              show_default=True, help="Whether to equalize the ranges of channels first; auto:"
              " if the outputs get better.")  # fmt: skip
@click.option("--nearest", is_flag=True,
              help="Round weights to nearest, not for the layer's least error.")  # fmt: skip
@click.option("--keep-biases", is_flag=True,
              help="Do not correct biases for the rounding of weights.")  # fmt: skip
@click.option("--test", "test_source", type=FILE, metavar="SOURCE",
              help="Samples to compare with the float model; default: the same.")  # fmt: skip
@click.option("--labels", "labels_file", type=FILE, metavar="FILE",
              help="An .npy with the right class of each compared sample.")  # fmt: skip
@click.option("--no-blame", is_flag=True,
              help="Do not measure which layers cause the error.")  # fmt: skip
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False),
              metavar="OUT.html", help="Write one self-contained page.")  # fmt: skip
@click.option("--input-shape", type=INPUT_SHAPE, multiple=True,
              help="Shape of an ONNX input that is left open.")  # fmt: skip
@click.option("--input-value", type=INPUT_VALUE, multiple=True,
              help="Replace an ONNX input by this constant.")  # fmt: skip
@custom_ops_option
@compile_budget_option
@json_option
def command(model: Path, **words: Any) -> None:
    """Quantize the float MODEL to integers and say what it cost, layer by layer."""
    from edgec.build.staging import staged_file
    from edgec.frontends.onnx_writer import onnx_bytes
    from edgec.report.low_accuracy import inaccurate_outputs
    from edgec.report.quantization import print_quantization, render_quantization

    given = QuantizeOptions(**words)
    made, report = _quantized(model, given)
    report = {"model": str(model), "output": str(given.output), **report}
    report["inaccurate"] = inaccurate_outputs(report, _with_mixed_values())
    content = onnx_bytes(made.quantized.function)
    if given.page is not None:
        with staged_file(given.page, hint="choose another --html") as temporary:
            temporary.write_bytes(render_quantization(report).encode("utf-8"))
    with staged_file(given.output, hint="choose another --output") as temporary:
        temporary.write_bytes(content)
    if given.as_json:
        print_json(report)
        return
    print_quantization(report)
    if given.page is not None:
        echo(f"page written to {given.page}")


def _quantized(model: Path, given: QuantizeOptions) -> tuple[PostTraining, dict[str, Any]]:
    from edgec.cli.samples import load_labels, ports_of
    from edgec.graph.limits import DEFAULT_BUDGET, check_limits
    from edgec.pipeline import read_model
    from edgec.quantizer.float_model import float_function
    from edgec.quantizer.post_training import quantize_function
    from edgec.runners.sample_files import open_samples

    with working(f"reading {model.name}", quiet=given.as_json):
        module = read_model(model, given.reading())
    check_limits(module.main, budget := DEFAULT_BUDGET.times(given.compile_budget))
    function = float_function(module, from_start=given.from_start)
    ports = ports_of(function.inputs)
    samples = open_samples(ports, given.calibration, given.pixels).first(given.most)
    _run_once(function, samples, budget)
    other = given.test_source
    tests = samples if other is None else open_samples(ports, other, given.pixels)
    labels = None if given.labels_file is None else load_labels(given.labels_file, len(tests))
    recipe, board = given.recipe(), given.chosen_board()
    with count_bar("calibrating", len(samples), quiet=given.as_json) as step:
        made = quantize_function(function, samples, recipe, step)
    made, mixes = _mixed(made, given, board)
    blames = None
    if not given.no_blame:
        with count_bar("leaving layers out", made.layers(), quiet=given.as_json) as step:
            blames = made.blame(step)
    with count_bar("comparing", len(tests), quiet=given.as_json) as step:
        explanation = made.explain(tests, labels, step, blames)
    return made, {
        "observer": given.observer,
        "calibration_samples": len(samples),
        "recipe": dataclasses.asdict(made.recipe),
        "candidates": [dataclasses.asdict(candidate) for candidate in made.candidates],
        "corrected_biases": made.has_corrected_biases,
        "held_out_sqnr_db": made.held_out_db(),
        "is_tested": given.test_source is not None,
        "float_nodes": [dataclasses.asdict(node) for node in made.float_nodes()],
        **mixes,
        **dataclasses.asdict(explanation),
    }


def _run_once(function: Function, samples: Samples, budget: Budget) -> None:
    """Run the first sample: each later run takes the same time."""
    from edgec.graph.interpret import Interpretation

    with budget.work():
        for sample in samples.first(1):
            Interpretation(function).run_whole(sample)


def _mixed(
    made: PostTraining, given: QuantizeOptions, board: Board | None
) -> tuple[PostTraining, dict[str, Any]]:
    """The model with the mix of weights or values that was asked for, and the report of it."""
    from edgec.deploy.measure import BoardMeasure
    from edgec.quantizer.limited_values import limited_parts, mix_values_within
    from edgec.quantizer.mixed_values import DEFAULT_SQNR_DB, mix_values, value_parts
    from edgec.quantizer.mixed_weights import loss_parts, mix
    from edgec.report.mixes import precision_report, values_report

    reports: dict[str, Any] = {"precision": None, "values": None}
    measure = None if board is None else BoardMeasure(board, given.limits)
    if given.has_mixed_weights:
        with count_bar("choosing bits", loss_parts(made), quiet=given.as_json) as step:
            mixed = mix(made, given.most_weights_bytes(made), measure, step)
        made, reports["precision"] = mixed.made, precision_report(mixed)
    if given.has_mixed_values:
        parts = value_parts(made) if measure is None else limited_parts(made)
        with count_bar("choosing values", parts, quiet=given.as_json) as step:
            if measure is None:
                values = mix_values(made, given.goal_db or DEFAULT_SQNR_DB, step)
            else:
                values = mix_values_within(made, measure, given.goal_db, step)
        made, reports["values"] = values.made, values_report(values)
    return made, reports


def _with_mixed_values() -> list[str]:
    """The words of this command, but for values of int8 and int16: the last choice counts."""
    words = ["edgec", "quantize", *click.get_current_context().meta[WORDS]]
    return [*words, "--activations", "mixed"]
