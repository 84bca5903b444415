"""The header and the linker script of a board say what its TOML says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from edgec.boards.board import all_boards, load_board
from edgec.boards.board_files import (
    PORT_SOURCES,
    board_header,
    linker_script,
    port_headers,
    port_include_dirs,
    port_sources,
)
from edgec.errors import BoardError

EMBEDDED = [board.name for board in all_boards() if not board.is_host]


@pytest.mark.parametrize("name", EMBEDDED)
def test_port_files_exist(name: str) -> None:
    board = load_board(name)
    files = [*port_sources(board), *port_headers(board)]
    assert all(path.is_file() for path in files)
    # A project holds them in one folder.
    assert len({path.name for path in files}) == len(files)
    assert all(folder.is_dir() for folder in port_include_dirs(board))


def test_every_port_serves_a_board() -> None:
    assert {board.port for board in all_boards()} == set(PORT_SOURCES)


def test_host_has_no_port_and_no_linker_script() -> None:
    host = load_board("host")
    assert port_sources(host) == ()
    with pytest.raises(BoardError, match="has no linker script"):
        linker_script(host)


def test_unknown_port_is_said() -> None:
    board = replace(load_board("stm32"), port="stm32f9")
    with pytest.raises(BoardError, match="there is no port 'stm32f9'"):
        port_sources(board)


def test_header_has_the_facts() -> None:
    text = board_header(load_board("stm32"))
    assert '#define EC_BOARD_NAME "netduinoplus2"' in text
    assert "#define EC_CLOCK_HZ 168000000u" in text
    assert "#define EC_UART_BASE 0x40011400u" in text
    assert "#define EC_UART_IRQ 71u" in text
    assert "#define EC_BAUD 115200u" in text


@pytest.mark.parametrize("name", EMBEDDED)
def test_script_has_the_memory(name: str) -> None:
    board = load_board(name)
    text = linker_script(board)
    found = re.findall(r"(\w+) \((\w+)\) : ORIGIN = (\w+), LENGTH = (\w+)", text)
    assert {(n, a, int(o, 16), int(size, 16)) for n, a, o, size in found} == {
        *(
            (r.name, r.access, r.origin, r.length)
            for r in board.memory.values()
            if not r.hardware_only
        ),
        *(
            ("fetch", r.access, r.fetch_origin, r.length)
            for r in board.memory.values()
            if r.fetch_origin is not None
        ),
    }
    assert f". += {board.stack_bytes};" in text


def test_stack_is_rounded_up() -> None:
    assert ". += 1008;" in linker_script(replace(load_board("stm32"), stack_bytes=1001))


def test_hardware_only_memory_must_be_asked_for() -> None:
    board = load_board("stm32")
    assert "ccm" not in linker_script(board)
    assert ".ec_arena_ccm (NOLOAD)" in linker_script(board, hardware_only=True)


def test_same_board_same_bytes() -> None:
    board = load_board("mps3_an547")
    assert linker_script(board) == linker_script(board)
    assert board_header(board) == board_header(board)
