"""`edgec build`: model files to a project folder with firmware or a library in it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.cli.arguments import (
    MODEL,
    PIXELS,
    SIZE,
    compile_options,
    json_option,
    make_options,
    print_json,
)
from edgec.cli.progress import working
from edgec.report.terminal import echo

if TYPE_CHECKING:
    from edgec.boards.board import Board
    from edgec.deploy.project import Built
    from edgec.graph.ir import Module
    from edgec.options import Options
    from edgec.pipeline import Compiled
    from edgec.quantizer.post_training import PostTraining
    from edgec.targets.core import Core

#: The QDQ model in the project of a float model that was built with samples.
QUANTIZED_NAME = "quantized.onnx"


@click.command()
@click.argument("model", type=MODEL)
@click.option("--board", metavar="B", help="Board name, alias or TOML file: see `edgec boards`; "
              "host without --target.")  # fmt: skip
@click.option("--target", metavar="CORE", help="Emit only the library, for a core; A,B: code for"
              " several cores of one kind, chosen at start.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR",
              help="Project folder, else build/NAME; written whole or not at all.")  # fmt: skip
@click.option("--name", "model_name", metavar="NAME", help="C identifier of the model.")
@click.option("--max-ram", "max_ram_bytes", type=SIZE, metavar="SIZE",
              help="Fail over this much RAM (status 3).")  # fmt: skip
@click.option("--max-flash", "max_flash_bytes", type=SIZE, metavar="SIZE",
              help="Fail over this much flash (status 3).")  # fmt: skip
@click.option("--max-stack", "max_stack_bytes", type=SIZE, metavar="SIZE",
              help="Fail over this much stack (status 3).")  # fmt: skip
@click.option("--max-instructions", type=click.IntRange(1), metavar="N",
              help="Fail over this many instructions of one inference on the simulated core"
              " (status 3).")  # fmt: skip
@click.option("--trace", "traced", is_flag=True,
              help="Also build the variant that shows every value, for profiles.")  # fmt: skip
@click.option("--harness", type=click.Choice(["link", "mlperf-tiny"]), default="link",
              show_default=True, help="The program that serves the model on a board.")  # fmt: skip
@click.option("--main", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.c",
              help="Your own main program on a board, instead; see `edgec new`.")  # fmt: skip
@click.option("--link-key", "link_key", type=click.Path(path_type=Path, dir_okay=False),
              metavar="FILE", help="32 hexadecimal digits: the board's link answers only to a"
              " project with this key.")  # fmt: skip
@click.option("--calibration", type=click.Path(path_type=Path), metavar="SOURCE",
              help="First make a float MODEL int8 with these samples.")  # fmt: skip
@click.option("--pixels", type=PIXELS, default="0:1", show_default=True, metavar="BLACK:WHITE",
              help="For images: the model's values for black and white.")  # fmt: skip
@compile_options
@json_option
def command(model: Path, board: str | None, target: str | None, **given: Any) -> Path:
    """Compile MODEL and build it for a board, or emit a library for a core."""
    from edgec.codegen.names import model_identifier
    from edgec.pipeline import read_model
    from edgec.report.project import write_report
    from edgec.report.summary import build_report, print_build

    output, traced, dump, as_json, calibration, pixels = (
        given.pop(key) for key in ("output", "traced", "dump", "as_json", "calibration", "pixels")
    )
    if target is None:
        board = board or "host"
    output = output or Path("build") / (given["model_name"] or model_identifier(model.name))
    _decide_harness(given, board, traced)
    options = make_options(**given)
    chosen, cores = _target(board, target)
    _check_limits(options, chosen)
    with working(f"reading {model.name}", quiet=as_json):
        module, finish = read_model(model, options), write_report
    if calibration is not None:
        made = quantize_module(module, calibration, pixels, as_json)
        module, finish = made.module(module.source), partial(_finish_quantized, made)
    where: dict[str, Any] = {"out": output, "traced": traced, "finish": finish, "dump": dump}
    with working(f"compiling {module.source}", quiet=as_json):
        compiled, built = _build(module, chosen, cores, options, where)
    report = build_report(compiled, built)
    if as_json:
        print_json(report)
    else:
        print_build(report)
    return built.project


def _build(
    module: Module,
    board: Board | None,
    cores: tuple[Core, ...],
    options: Options,
    where: dict[str, Any],
) -> tuple[Compiled, Built]:
    """Build for one core, or one library for several; `where` as of `build_within`."""
    from edgec.deploy.levels import build_levels
    from edgec.deploy.limits import build_within, with_ways_out
    from edgec.deploy.project import OverBudget

    if len(cores) > 1:
        if where.pop("traced") or where.pop("dump") is not None:
            raise click.UsageError("--trace and --dump need one core")
        return build_levels(module, cores, board, options, **where)
    try:
        return build_within(module, board, cores[0], options, **where)
    except OverBudget as error:
        raise with_ways_out(error, module, board, cores[0], options) from None


def _decide_harness(given: dict[str, Any], board: str | None, traced: bool) -> None:
    """Options that follow from the program that serves the model. Raises UsageError."""
    if given["harness"] == "mlperf-tiny":
        if board is None or traced:
            raise click.UsageError("--harness mlperf-tiny needs --board, and excludes --trace")
        # Its runs are many on one input, which a run may destroy if it lies in the arena.
        given["io"] = "caller"
    if given["main"] is not None:
        if given["harness"] != "link" or board is None or board == "host":
            raise click.UsageError("--main needs --board with a microcontroller, and no --harness")
        given["harness"] = "own"
    given["link_key"] = _read_key(given, board)


def _read_key(given: dict[str, Any], board: str | None) -> bytes | None:
    """The link's key, if there is one. Raises UsageError where nothing serves the link."""
    from edgec.link.seal import read_key

    if given["link_key"] is None:
        return None
    if given["harness"] == "mlperf-tiny" or board is None or board == "host":
        raise click.UsageError("--link-key needs --board with a microcontroller, and the link")
    return read_key(given["link_key"])


def _target(name: str | None, target: str | None) -> tuple[Board | None, tuple[Core, ...]]:
    """The board, if there is one, and the cores; this computer may be built for as others."""
    from edgec.boards.board import load_board
    from edgec.deploy.levels import find_levels
    from edgec.targets.core import is_this_computer

    board = None if name is None else load_board(name)
    if target is None:
        return board, () if board is None else (board.core,)
    cores = find_levels(target)
    if board is None:
        return None, cores
    if not board.is_host or not any(map(is_this_computer, cores)):
        raise click.UsageError("give either --board or --target, or --board host with a core of it")
    return replace(board, core=next(filter(is_this_computer, cores))), cores


def _check_limits(options: Options, board: Board | None) -> None:
    if board is not None and board.core.is_embedded:
        return
    if options.max_stack_bytes is not None:
        raise click.UsageError("--max-stack needs a microcontroller board, whose ELF is measured")
    if options.max_instructions is not None:
        raise click.UsageError("--max-instructions needs a microcontroller board to count on")


def quantize_module(
    module: Module, calibration: Path, pixels: tuple[float, float], quiet: bool, **recipe: Any
) -> PostTraining:
    """A float model quantized by the default recipe, but for fields of it that are given."""
    from edgec.cli.progress import count_bar
    from edgec.cli.samples import ports_of
    from edgec.quantizer.float_model import float_function
    from edgec.quantizer.post_training import Recipe, quantize_function
    from edgec.report.low_accuracy import low_accuracy_warning
    from edgec.runners.sample_files import open_samples

    function = float_function(module)
    samples = open_samples(ports_of(function.inputs), calibration, pixels)
    with count_bar("calibrating", len(samples), quiet=quiet) as step:
        made = quantize_function(function, samples, Recipe(**recipe), step)
    warning = low_accuracy_warning(made.candidates[0].sqnr_db) if made.candidates else None
    if warning is not None:
        echo(warning, err=True)
    return made


def _finish_quantized(made: PostTraining, compiled: Compiled, built: Built) -> None:
    """Add the quantized model to the project, for `edgec verify`."""
    from edgec.frontends.onnx_writer import onnx_bytes
    from edgec.report.project import write_report

    write_report(compiled, built)
    (built.project / QUANTIZED_NAME).write_bytes(onnx_bytes(made.quantized.function))
