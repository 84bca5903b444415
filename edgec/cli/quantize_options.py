"""The options of `edgec quantize`, and which of its options go together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgec.cli.arguments import SIZE, WordType

if TYPE_CHECKING:
    from edgec.boards.board import Board
    from edgec.options import Limits, Options
    from edgec.quantizer.post_training import PostTraining, Recipe


class LimitType(WordType):
    """`40K` or `60%`: a number of bytes, or a percentage of the int8 model's."""

    name = "SIZE|PERCENT"

    def read(self, text: str) -> tuple[float, bool]:
        if not text.endswith("%"):
            return float(SIZE.read(text)), False
        try:
            share = float(text[:-1]) / 100
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            raise ValueError(f"{text!r} is not a percentage: use 1% to 100%")
        return share, True


@dataclass(frozen=True)
class QuantizeOptions:
    """The options of the command, each as its help describes it.

    Raises UsageError for options that do not go together.
    """

    calibration: Path
    output: Path
    observer: str
    most: int | None
    pixels: tuple[float, float]
    weights: str
    group: int
    activations: str
    goal_db: float | None
    keep_float: tuple[str, ...]
    int16: tuple[str, ...]
    from_start: bool
    max_weights: tuple[float, bool] | None
    board: str | None
    max_flash_bytes: int | None
    max_ram_bytes: int | None
    max_instructions: int | None
    symmetric: bool
    equalize: str
    nearest: bool
    keep_biases: bool
    test_source: Path | None
    labels_file: Path | None
    no_blame: bool
    page: Path | None
    input_shape: tuple[tuple[str, tuple[int | range, ...]], ...]
    input_value: tuple[tuple[str, float], ...]
    compile_budget: float
    as_json: bool

    def __post_init__(self) -> None:
        if self.output.suffix != ".onnx":
            raise click.UsageError(f"{self.output}: the QDQ model's file ends in .onnx")
        self._check_limits()
        self._check_goal()

    @property
    def has_mixed_weights(self) -> bool:
        return self.weights == "mixed"

    @property
    def has_mixed_values(self) -> bool:
        return self.activations == "mixed"

    @property
    def limits(self) -> Limits:
        from edgec.options import Limits

        return Limits(self.max_ram_bytes, self.max_flash_bytes, None, self.max_instructions)

    def reading(self) -> Options:
        """Options for importing the model."""
        from edgec.options import Options

        return Options(
            input_shapes=self.input_shape,
            input_values=self.input_value,
            compile_budget=self.compile_budget,
        )

    def recipe(self) -> Recipe:
        """The recipe for the quantizer. Raises EdgecError."""
        from edgec.quantizer.post_training import Recipe

        return Recipe(
            self.observer,
            self.symmetric,
            not self.nearest,
            not self.keep_biases,
            self.equalize,
            self.weights,
            self.activations,
            self.keep_float,
            self.group,
            self.int16,
        )

    def chosen_board(self) -> Board | None:
        from edgec.boards.board import load_board

        if self.board is None:
            return None
        board = load_board(self.board)
        if self.max_instructions is not None and not board.core.is_embedded:
            raise click.UsageError("--max-instructions needs a microcontroller board to count on")
        return board

    def most_weights_bytes(self, made: PostTraining) -> int | None:
        from edgec.quantizer.mixed_weights import stored_bytes

        if self.max_weights is None:
            return None
        size, is_part = self.max_weights
        return int(size * sum(stored_bytes(n, 8) for n in made.scheme.weights) if is_part else size)

    def _check_limits(self) -> None:
        """Limits require a mix, and limits of a build require a board."""
        builds = (self.max_flash_bytes, self.max_ram_bytes, self.max_instructions)
        has_build = builds != (None, None, None)
        is_mixed = self.has_mixed_weights or self.has_mixed_values
        faults = (
            (
                self.max_weights is not None and not self.has_mixed_weights,
                "--max-weights is for --weights mixed",
            ),
            (
                (has_build or self.board is not None) and not is_mixed,
                "limits and --board are for --weights mixed or --activations mixed",
            ),
            (
                self.has_mixed_weights and self.max_weights is None and not has_build,
                "--weights mixed needs a limit: --max-weights, or --board with --max-flash,"
                " --max-ram or --max-instructions",
            ),
            (
                has_build and self.board is None,
                "--max-flash, --max-ram and --max-instructions need --board",
            ),
            (
                self.has_mixed_values and self.board is not None and not has_build,
                "--board needs a limit: --max-flash, --max-ram or --max-instructions",
            ),
        )
        for is_fault, message in faults:
            if is_fault:
                raise click.UsageError(message)

    def _check_goal(self) -> None:
        """A goal belongs to mixed values, and these to weights of one kind."""
        if self.goal_db is not None and not self.has_mixed_values:
            raise click.UsageError("--min-sqnr is for --activations mixed")
        if self.has_mixed_values and self.weights not in ("int8", "int4"):
            raise click.UsageError(
                f"--activations mixed goes with int8 or int4 weights, not {self.weights}"
            )
