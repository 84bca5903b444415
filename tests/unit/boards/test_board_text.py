"""A board file of somebody else: no key reaches C, a linker script or a command line as code."""

from __future__ import annotations

from typing import Any

import pytest

from edgec.boards.board import all_boards, parse_board
from edgec.boards.board_files import board_header, linker_script
from edgec.errors import BoardError

BOARD = """
title    = {title}
core     = "cortex-m4"
port     = "stm32f4"
clock_hz = {clock}
aliases  = [{alias}]

[memory.{region}]
origin = 0x0800_0000
length = "1M"
kind   = "flash"
access = {access}

[memory.sram]
origin = 0x2000_0000
length = "128K"
kind   = "ram"

[layout]
stack = "8K"

[link]
uart = {uart}
baud = {baud}

[config]
{config}

[qemu]
machine = {machine}
args    = {args}

[[runner]]
name   = "openocd"
config = {runner}
"""
HARMLESS = {
    "title": '"A board (STM32F405RG), 2nd"', "clock": "168_000_000", "alias": '"other"',
    "region": "flash", "access": '"rx"', "uart": '"USART6"', "baud": "115200",
    "config": "UART_IRQ = 71", "machine": '"netduinoplus2"',
    "args": '["-bios", "none", "-m", "8M"]', "runner": '"board/stm32f4discovery.cfg"',
}  # fmt: skip


def board(name: str = "mine", **values: str) -> Any:
    return parse_board(name, BOARD.format(**{**HARMLESS, **values}), "mine.toml")


def test_harmless_values_are_taken() -> None:
    made = board()
    assert "#define EC_UART_IRQ 71u" in board_header(made)
    assert "A board (STM32F405RG), 2nd" in linker_script(made)
    assert len(all_boards()) > 20  # every shipped board passes


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("title", '"ends */ int evil; /*"'),
        ("title", '"two\\nlines"'),
        ("title", '"continued \\\\"'),
        ("title", '"\\u001b]0;title\\u0007"'),
        ("clock", "-1"),
        ("clock", "1_000_000_000_000"),
        ("alias", '"a\\"b"'),
        ("region", '"flash; } SECTIONS {"'),
        ("region", '"*"'),
        ("access", '"rx) : ORIGIN = 0 } SECTIONS {"'),
        ("uart", '"*/"'),
        ("baud", "0"),
        ("baud", "-115200"),
        ("config", 'UART_IRQ = "71\\n#include \\"/etc/passwd\\""'),
        ("config", 'UART_IRQ = "system(1)"'),
        ("config", '"X 1\\n#define Y" = 1'),
        ("config", '"f(x)" = 1'),
        ("config", "lower = 1"),
        ("config", "UART_IRQ = -1"),
        ("config", "UART_IRQ = 4_294_967_296"),
        ("machine", '"virt,dumpdtb=/tmp/x"'),
        ("machine", '"-chardev"'),
        ("args", '["-chardev", "file,path=/tmp/x,id=y"]'),
        ("args", '["-D", "/tmp/x"]'),
        ("args", '["-bios", "/tmp/x"]'),
        ("args", '["-m", "8M,maxmem=9G"]'),
        ("args", '["-m"]'),
        ("args", '["-smp", "1", "-S"]'),
        ("args", '["-cpu", "rv32,v=/tmp/x"]'),
        ("args", '["-audiodev", "wav,id=a,path=/tmp/x"]'),
        ("runner", '"-c shutdown"'),
        ("runner", '"board.cfg -c shutdown"'),
        ("runner", '"board.cfg\\n-c shutdown"'),
    ],
)
def test_what_could_act_is_refused(key: str, value: str) -> None:
    with pytest.raises(BoardError, match=r"mine\.toml"):
        board(**{key: value})


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a*/b", "../a", "-a", ""])
def test_the_name_of_the_file_is_checked(name: str) -> None:
    with pytest.raises(BoardError):
        board(name)
