"""`edgec quantize`: a float model and samples of its input to a QDQ model in int8."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgec.cli.arguments import (
    INPUT_SHAPE,
    INPUT_VALUE,
    MODEL,
    PIXELS,
    SIZE,
    WordType,
    json_option,
    print_json,
)
from edgec.cli.progress import count_bar
from edgec.report.terminal import echo

if TYPE_CHECKING:
    from edgec.options import Limits
    from edgec.quantize.post_training import PostTraining

FILE = click.Path(path_type=Path)


class LimitType(WordType):
    """`40K` or `60%`: a number of bytes, or a part of what int8 takes."""

    name = "SIZE|PERCENT"

    def read(self, text: str) -> tuple[float, bool]:
        """Return the number, and whether it is a part of one."""
        if not text.endswith("%"):
            return float(SIZE.read(text)), False
        try:
            share = float(text[:-1]) / 100
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            raise ValueError(f"{text!r} is no part: use 1% to 100%")
        return share, True


LIMIT = LimitType()
#: Where the words of this command are kept, to tell another like it.
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
              help="How the range of a value follows from what it was.")  # fmt: skip
@click.option("--samples", "most", type=click.IntRange(min=1), metavar="N",
              help="Use only the first N samples.")  # fmt: skip
@click.option("--pixels", type=PIXELS, default="0:1", show_default=True, metavar="BLACK:WHITE",
              help="What black and white are to the model, for images.")  # fmt: skip
@click.option("--weights", type=click.Choice(["int8", "int4", "mixed", "float16"]), default="int8",
              show_default=True, help="How weights are stored; mixed: whichever keeps the limits"
              " with the least loss, layer by layer; float16: and all else in float.")  # fmt: skip
@click.option("--group", type=click.IntRange(0), default=0, metavar="N",
              help="For int4 and mixed: how many inputs share a scale; default all.")  # fmt: skip
@click.option("--activations", type=click.Choice(["int8", "int16", "mixed", "float32"]),
              default="int8", show_default=True,
              help="How values between layers are stored; mixed: int8, and int16 where the goal"
              " needs it; float32: weights alone in integers.")  # fmt: skip
@click.option("--min-sqnr", "goal_db", type=click.FloatRange(1, 120), metavar="DB",
              help="For mixed values: how near to float the outputs must be, on samples held out;"
              " default 30, or with limits of a build as near as these allow.")  # fmt: skip
@click.option("--keep-float", multiple=True, metavar="LAYER",
              help="A layer that stays in float; more than once for more.")  # fmt: skip
@click.option("--int16", multiple=True, metavar="LAYER",
              help="A layer whose values are int16 among int8; may be given often.")  # fmt: skip
@click.option("--from-start", is_flag=True,
              help="Each sample is a sequence of its own, from the first state on.")  # fmt: skip
@click.option("--max-weights", type=LIMIT, metavar="SIZE|PERCENT",
              help="For mixed: at most so many bytes of weights, or part of int8's.")  # fmt: skip
@click.option("--board", metavar="B",
              help="For mixed: the board that limits of a build are of.")  # fmt: skip
@click.option("--max-flash", "max_flash_bytes", type=SIZE, metavar="SIZE",
              help="For mixed: at most this much flash of the board's build.")  # fmt: skip
@click.option("--max-ram", "max_ram_bytes", type=SIZE, metavar="SIZE",
              help="For mixed: at most this much RAM of the board's build.")  # fmt: skip
@click.option("--max-instructions", type=click.IntRange(1), metavar="N",
              help="For mixed: at most so many for one inference, counted on a core.")  # fmt: skip
@click.option("--symmetric", is_flag=True,
              help="Zero points of 0 for values, too.")  # fmt: skip
@click.option("--equalize", type=click.Choice(["auto", "always", "never"]), default="auto",
              show_default=True, help="Whether to make the channels of a value alike in range"
              " first; auto: if that makes the outputs better.")  # fmt: skip
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
@click.option("--input-value", type=INPUT_VALUE, multiple=True,
              help="What an ONNX input always is; it is no input any more.")  # fmt: skip
@json_option
def command(
    model: Path,
    calibration: Path,
    output: Path,
    observer: str,
    most: int | None,
    pixels: tuple[float, float],
    weights: str,
    group: int,
    activations: str,
    goal_db: float | None,
    keep_float: tuple[str, ...],
    int16: tuple[str, ...],
    from_start: bool,
    max_weights: tuple[float, bool] | None,
    board: str | None,
    max_flash_bytes: int | None,
    max_ram_bytes: int | None,
    max_instructions: int | None,
    symmetric: bool,
    equalize: str,
    nearest: bool,
    keep_biases: bool,
    test_source: Path | None,
    labels_file: Path | None,
    no_blame: bool,
    page: Path | None,
    input_shape: tuple[tuple[str, tuple[int, ...]], ...],
    input_value: tuple[tuple[str, float], ...],
    as_json: bool,
) -> None:
    """Quantize the float MODEL to integers and say what it cost, layer by layer."""
    from edgec.boards.board import load_board
    from edgec.build.staging import staged_file
    from edgec.cli.samples import load_labels, ports_of
    from edgec.deploy.measure import BoardMeasure
    from edgec.frontends import import_model
    from edgec.frontends.onnx_writer import onnx_bytes
    from edgec.options import Limits
    from edgec.quantize.float_model import float_function
    from edgec.quantize.limited_values import limited_parts, mix_values_within
    from edgec.quantize.mixed_values import DEFAULT_SQNR_DB, mix_values, value_parts
    from edgec.quantize.mixed_weights import loss_parts, mix
    from edgec.quantize.post_training import Recipe, quantize_function
    from edgec.report.coarse import coarse_outputs
    from edgec.report.precision import precision_report
    from edgec.report.quantization import print_quantization, render_quantization
    from edgec.report.values import values_report
    from edgec.runners.sample_files import open_samples

    if output.suffix != ".onnx":
        raise click.UsageError(f"{output}: the QDQ model's file ends in .onnx")
    module = import_model(model, shapes=dict(input_shape), values=dict(input_value))
    function = float_function(module, from_start=from_start)
    ports = ports_of(function.inputs)
    samples = open_samples(ports, calibration, pixels).first(most)
    tests = samples if test_source is None else open_samples(ports, test_source, pixels)
    labels = None if labels_file is None else load_labels(labels_file, len(tests))
    is_mixed = weights == "mixed"
    recipe = Recipe(
        observer,
        symmetric,
        not nearest,
        not keep_biases,
        equalize,
        weights,
        activations,
        keep_float,
        group,
        int16,
    )
    limits = Limits(max_ram_bytes, max_flash_bytes, None, max_instructions)
    has_mixed_values = activations == "mixed"
    _check_limits(is_mixed, has_mixed_values, max_weights, limits, board)
    _check_goal(has_mixed_values, goal_db, weights)
    chosen_board = None if board is None else load_board(board)
    if max_instructions is not None and chosen_board and not chosen_board.core.is_embedded:
        raise click.UsageError("--max-instructions needs a microcontroller board to count on")
    with count_bar("calibrating", len(samples), quiet=as_json) as step:
        made = quantize_function(function, samples, recipe, step)
    measure = None if chosen_board is None else BoardMeasure(chosen_board, limits)
    mixed = None
    if is_mixed:
        with count_bar("choosing bits", loss_parts(made), quiet=as_json) as step:
            mixed = mix(made, _most_bytes(made, max_weights), measure, step)
        made = mixed.made
    mixed_values = None
    if has_mixed_values and measure is not None:
        with count_bar("choosing values", limited_parts(made), quiet=as_json) as step:
            mixed_values = mix_values_within(made, measure, goal_db, step)
        made = mixed_values.made
    elif has_mixed_values:
        with count_bar("choosing values", value_parts(made), quiet=as_json) as step:
            mixed_values = mix_values(made, goal_db or DEFAULT_SQNR_DB, step)
        made = mixed_values.made
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
        "recipe": dataclasses.asdict(made.recipe),
        "trials": [dataclasses.asdict(trial) for trial in made.trials],
        "settled_biases": made.has_settled_biases,
        "precision": None if mixed is None else precision_report(mixed),
        "values": None if mixed_values is None else values_report(mixed_values),
        **dataclasses.asdict(explanation),
    }
    report["coarse"] = coarse_outputs(report, _with_mixed_values())
    content = onnx_bytes(made.quantized.function)
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
        echo(f"page written to {page}")


def _with_mixed_values() -> list[str]:
    """The words of this command, but for values of int8 and int16: the last choice counts."""
    words = ["edgec", "quantize", *click.get_current_context().meta[WORDS]]
    return [*words, "--activations", "mixed"]


def _check_limits(
    has_mixed_weights: bool,
    has_mixed_values: bool,
    max_weights: tuple[float, bool] | None,
    limits: Limits,
    board: str | None,
) -> None:
    """Limits belong to a mix, and those of a build to a board."""
    from edgec.options import Limits

    has_build = limits != Limits()
    if max_weights is not None and not has_mixed_weights:
        raise click.UsageError("--max-weights is for --weights mixed")
    if (has_build or board is not None) and not (has_mixed_weights or has_mixed_values):
        raise click.UsageError("limits and --board are for --weights mixed or --activations mixed")
    if has_mixed_weights and max_weights is None and not has_build:
        raise click.UsageError(
            "--weights mixed needs a limit: --max-weights, or --board with --max-flash, --max-ram"
            " or --max-instructions"
        )
    if has_build and board is None:
        raise click.UsageError("--max-flash, --max-ram and --max-instructions need --board")
    if has_mixed_values and board is not None and not has_build:
        raise click.UsageError(
            "--board needs a limit: --max-flash, --max-ram or --max-instructions"
        )


def _check_goal(is_mixed: bool, goal_db: float | None, weights: str) -> None:
    """A goal belongs to mixed values, and these to weights of one kind."""
    if goal_db is not None and not is_mixed:
        raise click.UsageError("--min-sqnr is for --activations mixed")
    if is_mixed and weights not in ("int8", "int4"):
        raise click.UsageError(f"--activations mixed goes with int8 or int4 weights, not {weights}")


def _most_bytes(made: PostTraining, limit: tuple[float, bool] | None) -> int | None:
    from edgec.quantize.mixed_weights import stored_bytes

    if limit is None:
        return None
    size, is_part = limit
    return int(size * sum(stored_bytes(n, 8) for n in made.scheme.weights) if is_part else size)
