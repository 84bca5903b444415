"""Options that several commands share, and how their words become values."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgec.report.terminal import echo

if TYPE_CHECKING:
    from edgec.loop.tuned import Tuned
    from edgec.options import Options

F = TypeVar("F", bound=Callable[..., Any])

MODEL = click.Path(path_type=Path)


class FloatRange(click.FloatRange):
    """Numbers of a range; NaN, which compares with no limit, is none of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or a usage error."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


class WordType(click.ParamType):  # type: ignore[type-arg]  # generic in some versions only
    """A word that stands for something else."""

    def read(self, text: str) -> Any:
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a word, or a usage error; defaults are values already."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class InputShapeType(WordType):
    """`NAME=1..8,3,48,192`: the extents of one input; ranges stay open."""

    name = "NAME=N,..."
    number = "[1-9][0-9]{0,8}"
    extent = rf"{number}(?:\.\.{number})?"

    def read(self, text: str) -> tuple[str, tuple[int | range, ...]]:
        match = re.fullmatch(rf"(.+?)=({self.extent}(?:,{self.extent})*)", text)
        if match is None:
            raise ValueError(f"{text!r} is not a shape: use NAME=1,3,48,192 or NAME=1..8,3,48,192")
        return match[1], tuple(map(self.read_extent, match[2].split(",")))

    def read_extent(self, text: str) -> int | range:
        least, _, most = text.partition("..")
        if most and int(least) >= int(most):
            raise ValueError(f"{text!r}: use NAME=LOW..HIGH, the smaller number first")
        return range(int(least), int(most) + 1) if most else int(least)


INPUT_SHAPE = InputShapeType()


class InputValueType(WordType):
    """`sr=16000`: an input's name and the one number that it is."""

    name = "NAME=NUMBER"

    def read(self, text: str) -> tuple[str, float]:
        name, _, word = text.rpartition("=")
        try:
            number = float(word)
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number):
            raise ValueError(f"{text!r} is not a value of an input: use NAME=16000")
        return name, number


INPUT_VALUE = InputValueType()


class SpecialSizesType(WordType):
    """`batch=1,8`: an open size and the values that get code of their own."""

    name = "NAME=N,..."

    def read(self, text: str) -> tuple[str, tuple[int, ...]]:
        match = re.fullmatch(r"(.+?)=([0-9]{1,9}(?:,[0-9]{1,9})*)", text)
        if match is None:
            raise ValueError(f"{text!r} is not a size with values: use NAME=1,8")
        return match[1], tuple(map(int, match[2].split(",")))


SPECIAL_SIZES = SpecialSizesType()


class PixelsType(WordType):
    """`-1:1`, the values of black and white; or `mean=0.485,0.456,0.406:std=0.229,0.224,0.225`,
    by which pixels from 0 to 1 are normalized, for each channel."""

    name = "BLACK:WHITE"

    def read(self, text: str) -> tuple[Any, Any]:
        normal = re.fullmatch(r"mean=([-+.,0-9eE]+):std=([-+.,0-9eE]+)", text)
        try:
            if normal is not None:
                return self.normalized(
                    *(tuple(map(float, side.split(","))) for side in normal.groups())
                )
            black, white = (float(word) for word in text.split(":"))
        except ValueError:
            black = white = math.nan
        if not (math.isfinite(black) and math.isfinite(white) and black != white):
            raise ValueError(
                f"{text!r} is not a pixel range: use 0:1, -1:1, 0:255 or mean=0.5,...:std=0.2,..."
            )
        return black, white

    def normalized(
        self, means: tuple[float, ...], deviations: tuple[float, ...]
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The values of black and white in each channel. Raises ValueError."""
        pairs = list(zip(means, deviations, strict=True))
        if not all(math.isfinite(mean) and 0 < std < math.inf for mean, std in pairs):
            raise ValueError
        return (
            tuple(-mean / std for mean, std in pairs),
            tuple((1 - mean) / std for mean, std in pairs),
        )

    def word(self, value: tuple[Any, Any]) -> str:
        """The word for the black and white levels."""
        if isinstance(value[0], float):
            return "{:g}:{:g}".format(*value)
        deviations = [1 / (white - black) for black, white in zip(*value, strict=True)]
        means = [-black * std for black, std in zip(value[0], deviations, strict=True)]
        mean, std = (",".join(f"{number:g}" for number in side) for side in (means, deviations))
        return f"mean={mean}:std={std}"


PIXELS = PixelsType()


class BoxesType(WordType):
    """`boxes=NAME,scores=NAME,form=xyxy`: which outputs are boxes."""

    name = "boxes=NAME,..."

    def read(self, text: str) -> Any:
        from edgec.report.boxes import read_boxes

        return read_boxes(text)


BOXES = BoxesType()


class OptimizeType(WordType):
    """A level by name, or the prices of time, flash and RAM."""

    name = "time|ram|size|balanced|PRICES"

    def read(self, text: str) -> Any:
        from edgec.options import read_optimize

        return read_optimize(text)


OPTIMIZE = OptimizeType()


class PlaceType(WordType):
    """`WHAT=REGION`, or a TOML file with a table [place] of such pairs."""

    name = "WHAT=REGION"

    def read(self, text: str) -> tuple[tuple[str, str], ...]:
        if text.endswith(".toml"):
            from edgec.memory.placements import read_placements

            return read_placements(Path(text))
        what, found, region = text.rpartition("=")
        if not found or not what or not region:
            raise ValueError(f"{text!r} is not a placement: use WHAT=REGION or a .toml file")
        return ((what, region),)


PLACE = PlaceType()


compile_budget_option = click.option(
    "--compile-budget", type=FloatRange(min=0.0, min_open=True, max=1e6), default=1.0,
    show_default=True, metavar="FACTOR", help="Raise the limits of size and work of a compile.",
)  # fmt: skip


#: The key of `--custom-ops` in click's `Context.meta`, for builds in other processes.
CUSTOM_OPS = "edgec.custom_ops"


def _load_custom_ops(ctx: click.Context, param: click.Parameter, files: tuple[Path, ...]) -> None:
    if files:
        from edgec.frontends.custom_file import load_custom_ops

        for file in files:
            load_custom_ops(file)
    ctx.meta[CUSTOM_OPS] = files


custom_ops_option = click.option(
    "--custom-ops", type=click.Path(path_type=Path, dir_okay=False), multiple=True,
    metavar="FILE.py", expose_value=False, callback=_load_custom_ops,
    help="Python file that declares custom operators and the C functions that compute them.",
)  # fmt: skip
_COMPILE_OPTIONS = (
    click.option("--optimize", type=OPTIMIZE, default="balanced", show_default=True,
                 help="What to optimize: a name, or prices of time, flash and RAM."),
    click.option("--match", type=click.Choice(["tflm", "litert", "onnx"]),
                 help="Round like this framework instead of the format's own."),
    click.option("--io", type=click.Choice(["arena", "caller", "rows"]), default="arena",
                 show_default=True,
                 help="Where inputs and outputs live; rows: the input is fed row by row."),
    click.option("--unfused", is_flag=True, help="Emit one function for every operator."),
    click.option("--no-asm", is_flag=True,
                 help="Emit C without assembly, for compilers without GNU's syntax."),
    click.option("--compiler", type=click.Choice(["gcc", "clang"]), help="Instead of the default."),
    click.option("--c-optimize", type=click.Choice(["-O1", "-O2", "-O3", "-Os"]),
                 help="Level of the C compiler; by default -O3 on this computer, else -O2."),
    click.option("--float-sums", type=click.Choice(["ordered", "free"]),
                 help="ordered: floats with the same bits on every machine; free: faster, by"
                 " default on PCs and 64-bit Arm, with bits of their own."),
    click.option("--offload", multiple=True, metavar="auto|all|none|LAYER",
                 help="Layers to run on the board's GPU, by default all; auto: those that are"
                 " faster there, or none where there is no GPU."),
    click.option("--driver", type=click.Choice(["auto", "graph", "block", "grid"]), default="auto",
                 show_default=True, help="How a GPU runs kernels: one by one, or all in one launch,"
                 " of one block with all activations in its shared memory or of a grid."),
    click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True,
                 help="Threads that share long loops, on this computer and Linux boards."),
    click.option("--weights-form", type=click.Choice(["auto", "text", "blob"]), default="auto",
                 show_default=True,
                 help="Constants as numbers in C, or as a file that the assembler includes, which "
                 "auto takes from 4 MB on."),
    click.option("--input-shape", type=INPUT_SHAPE, multiple=True,
                 help="Shape of an input that the file leaves open; 1..8 is an open range."),
    click.option("--input-value", type=INPUT_VALUE, multiple=True,
                 help="Replace an ONNX input by this constant."),
    click.option("--specialize", type=SPECIAL_SIZES, multiple=True,
                 help="Emit additional, faster code for these values of an open size."),
    click.option("--place", type=PLACE, multiple=True,
                 help="Place weights, a value or code in a region of the board."),
    compile_budget_option,
    click.option("--tuned", type=click.Path(path_type=Path), metavar="FILE",
                 help="Take schedules that `edgec tune` found; MODEL.tune.json beside MODEL by"
                 " default; `none` leaves those out that ship with edgec, too."),
    custom_ops_option,
    click.option("--kernels", type=click.Path(path_type=Path, dir_okay=False), multiple=True,
                 metavar="FILE.py",
                 help="Python file that lists your own C kernels; each runs the layers where it"
                      " is faster."),
    click.option("--external", multiple=True,
                 type=click.Choice(["cudnn", "onednn", "sparse", "tensorrt", "xnnpack"]),
                 help="Library whose kernels run the layers where they are faster."),
    click.option("--dump", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
                 help="Write every stage as text into DIR."),
)  # fmt: skip

#: Names of the options that `compile_options` adds.
COMPILE_OPTIONS = (
    "optimize", "match", "io", "unfused", "no_asm", "compiler", "c_optimize", "float_sums",
    "offload", "driver", "threads", "weights_form", "input_shape", "input_value", "specialize",
    "place", "compile_budget", "tuned", "dump", "custom_ops", "kernels",
    "external",
)  # fmt: skip


def compile_options(command: F, skipped: int = 0) -> F:
    """Options of every command that compiles a model, but for the first ones that it skips."""
    for option in reversed(_COMPILE_OPTIONS[skipped:]):
        command = option(command)
    return command


def require_model(path: Path) -> None:
    """Raise EdgecError before anything else if the model file or project folder does not exist."""
    from edgec.errors import EdgecError

    if not path.exists():
        raise EdgecError(
            f"cannot read {path}: No such file or directory",
            hint="give a .tflite, .onnx or .pt2 file, or a folder that `edgec build` made",
        )


def refuse_compile_options(why: str, but: Sequence[str] = ()) -> None:
    """Raise UsageError if the user gave one of `compile_options`, but for some, without need."""
    context = click.get_current_context()
    given = [
        f"--{name.replace('_', '-')}"
        for name in COMPILE_OPTIONS
        if name not in but
        and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {why}")


def refuse_beside_pool(pool_file: Path | None, *given: object) -> None:
    """Raise UsageError for options that choose the device if a pool chooses it."""
    if pool_file is not None and any(given):
        raise click.UsageError("the file of --pool chooses the devices")


def json_option(command: F) -> F:
    """`--json`: one object on standard output and nothing else there."""
    wrapped: F = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(
        command
    )
    return wrapped


def print_json(report: Any) -> None:
    """Print one JSON object on standard output; numbers that JSON lacks become strings."""
    echo(json.dumps(_finite(report), indent=2, allow_nan=False))


def print_json_line(report: Any) -> None:
    """Print one JSON object as one line, at once: for commands that run until they are stopped."""
    echo(json.dumps(_finite(report), allow_nan=False))
    sys.stdout.flush()


def _finite(value: Any) -> Any:
    """The value with NaN and infinite numbers as the texts "NaN", "Infinity" and "-Infinity"."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


class SizeType(WordType):
    """`64K`, `1M`, `4096`: a number of bytes, K and M are powers of 1024."""

    name = "SIZE"

    def read(self, text: str) -> int:
        match = re.fullmatch(r"([0-9]{1,12})([KkMm]?)", text)
        if match is None:
            raise ValueError(f"{text!r} is not a size: use bytes, or a K or M suffix")
        return int(match[1]) * {"": 1, "K": 1024, "M": 1024 * 1024}[match[2].upper()]


SIZE = SizeType()


def make_options(**words: Any) -> Options:
    """`Options` from the words of `compile_options`, and further fields of it."""
    from edgec.options import Options

    placements = words.pop("place", ())
    return Options(
        offload=_offload(tuple(words.pop("offload", ()))),
        tuned=_tuned(words.pop("tuned", None)),
        input_shapes=tuple(words.pop("input_shape")),
        input_values=tuple(words.pop("input_value", ())),
        specialize=tuple(words.pop("specialize", ())),
        placements=tuple(entry for given in placements for entry in given),
        kernels=(*words.pop("kernels", ()), *_of_libraries(words.pop("external", ()))),
        **words,
    )


def _of_libraries(names: Sequence[str]) -> Iterator[Any]:
    """The kernels of these libraries."""
    if names:
        from edgec import external

        for name in names:
            yield from getattr(external, name)()


def _offload(given: tuple[str, ...]) -> str | tuple[str, ...]:
    """One word for the whole model, or names of layers. Raises UsageError for both at once."""
    words = {"auto", "all", "none"}
    if len(given) > 1 and not words.isdisjoint(given):
        raise click.UsageError("--offload: give auto, all or none alone, or names of layers")
    if given and given[0] in words:
        return given[0]
    return given or "all"


def _tuned(given: Path | Tuned | None) -> Tuned:
    """The content of the file of `--tuned`, or of the file beside the command's model."""
    from edgec.loop.tuned import Tuned, beside, read_tuned

    if isinstance(given, Tuned):
        return given
    context = click.get_current_context(silent=True)
    model = context.params.get("model") if context is not None and given is None else None
    path = beside(model) if isinstance(model, Path) else given
    return Tuned() if path is None else read_tuned(path)
