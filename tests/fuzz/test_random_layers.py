"""Random layers compile for every core, and run on simulated ones with the reference's bytes."""

from __future__ import annotations

import pytest
from random_layers import (
    BOARDS,
    DTYPES,
    batch_without_padding,
    check,
    compare,
    compiled,
    failures,
)

from edgec.boards.board import load_board
from edgec.options import Options
from edgec.pipeline import compile_module

#: Models that are compiled, and models that run, of each dtype; `make test-full` tries more.
COMPILED, RUN = 60, 3
MORE_COMPILED, MORE_RUN = 2000, 100
#: Seeds of int8 that were refused: windows in the padding alone, neighbours with other taps, rows
#: of four-bit weights two pixels at a time, one factor for a whole layer.
FOUND = (45, 95, 234, 541)


def sizes(few: int, many: int) -> list[object]:
    return [range(few), pytest.param(range(few, many), marks=pytest.mark.full)]


@pytest.mark.parametrize("seeds", sizes(COMPILED, MORE_COMPILED))
@pytest.mark.parametrize("dtype", DTYPES)
def test_layers_compile_for_every_core(dtype: str, seeds: range) -> None:
    assert not failures(lambda seed: compiled(seed, dtype, BOARDS), seeds)


@pytest.mark.parametrize("seeds", sizes(RUN, MORE_RUN))
@pytest.mark.parametrize("dtype", DTYPES)
def test_layers_run_on_simulated_cores(dtype: str, seeds: range) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    assert not failures(lambda seed: check(seed, dtype), seeds)


@pytest.mark.parametrize("seed", FOUND)
def test_layers_that_were_refused_run(seed: int) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    compiled(seed, "int8", BOARDS)
    check(seed, "int8")


@pytest.mark.parametrize("board_name", ["esp32c3_devkitm", "mps2_an386"])
@pytest.mark.parametrize(
    ("kernel", "stride"), [((1, 1), (2, 2)), ((1, 3), (1, 1)), ((2, 2), (2, 2))], ids=str
)
def test_windows_of_each_image(
    kernel: tuple[int, int], stride: tuple[int, int], board_name: str
) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    module, board = batch_without_padding(kernel, stride), load_board(board_name)
    for level in ("balanced", "time"):
        options = Options(optimize=level)
        built = compile_module(module, board.core, options, board=board, board_name=board_name)
        compare(f"{kernel} by {stride}, {level}", module, board, built)
