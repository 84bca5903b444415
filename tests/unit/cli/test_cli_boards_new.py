"""`edgec boards new` writes a file that is a board, or one clear error and nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgec.boards.board import all_boards, load_board
from edgec.cli.main import cli


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_given_differs_and_the_rest_is_kept(edgec: Callable, folder: Path) -> None:
    ran = edgec(
        "boards", "new", "mine", "--like", "nucleo_f446re", "--title", "My thing",
        "--core", "cortex-m4+nofp", "--flash", "256K@0x08010000", "--ram", "96K", "--stack", "4K",
        "--set", "UART_TX_PIN=9", "--set", "HSE_HZ=16_000_000",
    )  # fmt: skip
    assert ran.status == 0 and "--board mine.toml" in ran.out
    mine, like = load_board(folder / "mine.toml"), load_board("nucleo_f446re")
    assert (mine.name, mine.title, mine.core.name) == ("mine", "My thing", "cortex-m4+nofp")
    flash = mine.memory["flash"]
    assert (flash.origin, flash.length) == (0x0801_0000, 256 * 1024)
    assert (mine.ram_bytes, mine.stack_bytes) == (96 * 1024, 4096)
    assert mine.config == {**like.config, "UART_TX_PIN": 9, "HSE_HZ": 16_000_000}
    assert (mine.port, mine.link, mine.runners) == (like.port, like.link, like.runners)


@pytest.mark.parametrize("name", [b.name for b in all_boards() if b.runners])
def test_every_real_board_can_be_followed(edgec: Callable, folder: Path, name: str) -> None:
    assert edgec("boards", "new", "copy", "--like", name).status == 0
    copy, like = load_board(folder / "copy.toml"), load_board(name)
    assert copy.memory == like.memory and copy.config == like.config
    assert copy.qemu is None and copy.aliases == ()


def test_questions_on_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: True)
    answers = "stm32\nA weather station\n512K\n\n16K\n"
    done = CliRunner().invoke(cli, ["boards", "new", "weather"], input=answers)
    assert done.exit_code == 0, done.output
    board = load_board(folder / "weather.toml")
    assert (board.title, board.flash_bytes) == ("A weather station", 512 * 1024)
    assert (board.ram_bytes, board.stack_bytes) == (128 * 1024, 16 * 1024)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Mine", "--like", "stm32"), "'Mine' cannot be a board's name"),
        (("mine", "--like", "stm33"), "there is no board 'stm33'"),
        (("mine", "--like", "host"), "host is not hardware"),
        (("mine", "--like", "stm32", "--flash", "12Q"), "'12Q' is not a memory size"),
        (("mine", "--like", "stm32", "--ram", "4K"), "a stack of 8192 bytes does not fit 4096"),
        (("mine", "--like", "stm32", "--core", "m4"), "there is no core 'm4'"),
        (("mine", "--like", "stm32", "--set", "SPEED=3"), "has no setting 'SPEED'"),
        (("mine", "--like", "stm32", "--set", "HSE_HZ=fast"), "HSE_HZ=fast is not a setting"),
        (("mine", "--like", "stm32", "--flash", "0"), "'0' is not a size"),
        (("mine", "--like", "stm32", "--flash", "512K@0xfffff000"), "no 32-bit addresses"),
        (("mine", "--like", "stm32", "--ram", "96K@0x08000000"), "overlap"),
        (("mine", "--like", "stm32", "-o", "no/such/mine.toml"), "cannot write"),
    ],
)
def test_what_makes_no_board_is_refused(
    refused: Callable, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused("boards", "new", *arguments)
    assert list(folder.iterdir()) == []


def test_a_title_may_hold_any_character(edgec: Callable, folder: Path) -> None:
    title = 'The "small" board \\ Größe 2'
    assert edgec("boards", "new", "mine", "--like", "stm32", "--title", title).status == 0
    assert load_board(folder / "mine.toml").title == title


def test_a_file_that_is_there_is_kept(refused: Callable, folder: Path) -> None:
    (folder / "mine.toml").write_text("precious")
    assert "exists already" in refused("boards", "new", "mine", "--like", "stm32")
    assert (folder / "mine.toml").read_text() == "precious"


def test_wrong_usage(edgec: Callable) -> None:
    assert edgec("boards", "new", "mine").status == 2  # nobody to ask
    assert edgec("boards", "new", "mine", "--like", "stm32", "--set", "X").status == 2
    assert edgec("boards", "new", "mine", "--like", "stm32", "-o", "mine.txt").status == 2
