"""Boards: the shipped ones are whole, and a wrong file is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.boards.board import all_boards, load_board, parse_board, parse_size
from edgec.boards.power import energy_mj
from edgec.errors import BoardError

MINIMAL = """
title = "Test board"
core = "cortex-m3"
port = "cmsdk_uart"
clock_hz = 25_000_000

[memory.flash]
origin = 0x0
length = "64K"
kind = "flash"

[memory.ram]
origin = 0x2000_0000
length = "16K"
kind = "ram"

[layout]
stack = "1K"
"""


def test_the_promised_boards_are_there() -> None:
    assert {board.name for board in all_boards()} >= {
        "netduinoplus2",
        "bbc_microbit",
        "mps2_an385",
        "mps2_an386",
        "mps2_an500",
        "mps2_an505",
        "mps3_an547",
        "host",
        "nucleo_l4r5zi",
        "nucleo_f446re",
        "stm32f4_disco",
        "stm32vl_disco",
        "nucleo_h743zi",
        "nucleo_u575zi_q",
        "nucleo_g0b1re",
        "nrf52840dk",
        "nrf5340dk",
        "rpi_pico",
        "rpi_pico2",
        "esp32c3_devkitm",
        "qemu_riscv32",
        "qemu_riscv32_v",
        "qemu_xtensa_lx106",
        "qemu_cortex_a7",
        "qemu_cortex_r5",
        "raspberry_pi",
        "raspberry_pi_4",
        "raspberry_pi_5",
    }


@pytest.mark.parametrize("board", all_boards(), ids=lambda board: board.name)
def test_shipped_board_is_whole(board) -> None:  # type: ignore[no-untyped-def]
    assert board.title
    assert board.sources, "name the documents the facts come from"
    if board.is_host:
        return
    assert board.clock_hz > 0
    assert board.link is not None
    assert board.memory[board.code].kind == "flash"
    assert board.memory[board.data].kind == "ram"
    assert 1024 <= board.stack_bytes <= board.ram_bytes // 4
    # A board that neither QEMU nor a flashing tool knows exists for the engine `core` alone.
    assert board.qemu is not None or board.runners or board.name.startswith("sim_")


def test_stm32_is_the_emulated_f405() -> None:
    board = load_board("stm32")
    assert board is load_board("netduinoplus2")
    assert (board.flash_bytes, board.ram_bytes) == (1024 * 1024, 128 * 1024)
    # The core-coupled memory exists on hardware only, so nothing is put there.
    assert board.memory["ccm"].hardware_only
    assert board.data == "sram"


def test_unknown_board_names_near_ones() -> None:
    with pytest.raises(BoardError, match="near it: mps2_an386") as caught:
        load_board("mps2_an38")
    assert "stm32" in caught.value.details[0]


def test_board_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL)
    board = load_board(path)
    assert (board.name, board.code, board.data) == ("mine", "flash", "ram")
    assert board.region_at(0x2000_3FFC, 4) == board.memory["ram"]
    assert board.region_at(0x2000_3FFC, 8) is None


def test_absent_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="cannot read the board file"):
        load_board(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("clock_hz =", "clok_hz ="), "unknown key 'clok_hz'"),
        (('kind = "ram"', 'kind = "ram"\nspeed = 3'), r"\[ram\]: unknown key 'speed'"),
        (('core = "cortex-m3"', ""), "the key 'core' is missing"),
        (('core = "cortex-m3"', 'core = "cortex-m9"'), "there is no core 'cortex-m9'"),
        (('length = "16K"', 'length = "16kB"'), "'16kB' is not a size"),
        (('length = "16K"', 'length = "0K"'), "'0K' is not a size"),
        (('length = "16K"', 'length = "4096M"'), "region 'ram' has no 32-bit addresses"),
        (("clock_hz = 25_000_000", 'clock_hz = "25M"'), "not a whole number"),
        (("clock_hz = 25_000_000", "clock_hz = true"), "not a whole number"),
        (('kind = "ram"', 'kind = "rom"'), "kind is 'rom'"),
        (("origin = 0x2000_0000", "origin = 0x8000"), "regions 'flash' and 'ram' overlap"),
        (
            ('kind = "flash"', 'kind = "flash"\nfetch_origin = 0x2000_2000'),
            "regions 'ram' and 'flash' overlap",
        ),
        (('kind = "ram"', 'kind = "ram"\nfetch_origin = 0x4000_0000'), "only flash has a fetch"),
        (("[layout]", '[layout]\ncode = "ram"'), "names 'ram', which is not a flash region"),
        (("[memory.ram]", "[memory.ram"), "is not TOML"),
        (('stack = "1K"', ""), "the key 'stack' is missing"),
    ],
)
def test_wrong_file_is_refused(change: tuple[str, str], message: str) -> None:
    assert change[0] in MINIMAL
    with pytest.raises(BoardError, match=message) as caught:
        parse_board("test", MINIMAL.replace(*change), "test.toml")
    assert "test.toml" in str(caught.value) or "core" in message


def test_misspelt_key_gets_a_suggestion() -> None:
    with pytest.raises(BoardError) as caught:
        parse_board("test", MINIMAL.replace("clock_hz", "clok_hz"), "test.toml")
    assert caught.value.hint == "did you mean 'clock_hz'?"


@pytest.mark.parametrize(("text", "size"), [("96K", 98304), ("1M", 1048576), ("12", 12), (7, 7)])
def test_sizes(text: int | str, size: int) -> None:
    assert parse_size(text, "test") == size


@pytest.mark.parametrize("text", ["", "-1", "1G", "1.5K", 0, -3, True])
def test_sizes_that_are_none(text: int | str) -> None:
    with pytest.raises(BoardError, match="is not a size"):
        parse_size(text, "test")


POWER = """
[power]
current_ma = 40.0
supply_v = 3.3
source = "data sheet, table 20"
"""


def test_energy_follows_from_current_voltage_and_cycles() -> None:
    board = parse_board("test", MINIMAL + POWER, "test.toml")
    assert board.power is not None and board.power.milliwatts == pytest.approx(132.0)
    # 132 mW for a tenth of a second
    assert energy_mj(board.power.milliwatts, 2_500_000, board.clock_hz) == pytest.approx(13.2)
    assert energy_mj(None, 2_500_000, board.clock_hz) is None
    assert energy_mj(132.0, None, board.clock_hz) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [("40.0", "0"), ("3.3", "3300"), ("supply_v", "supply_mv"), ("source", "sources")],
)
def test_a_power_that_cannot_be_is_refused(old: str, new: str) -> None:
    with pytest.raises(BoardError):
        parse_board("test", MINIMAL + POWER.replace(old, new), "test.toml")


def test_every_power_has_its_source() -> None:
    powers = [board.power for board in all_boards() if board.power is not None]
    assert len(powers) >= 3
    assert all("data sheet" in p.source and "uA/MHz" in p.source for p in powers)
