"""Each kind of fault in an image is found, and none in a good image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.boards.board import Board, load_board
from edgec.boards.board_files import port_include_dirs, port_sources
from edgec.boards.toolchain import find_toolchain
from edgec.build.check_image import check_image
from edgec.build.elf import Elf, Section, Symbol, read_elf
from edgec.build.firmware import build_firmware
from edgec.errors import BuildFailed, ToolMissing
from edgec.targets.core import find_core

TEXT = """
#include "ec_port.h"
#include <stdint.h>
static volatile uint32_t data = 5u, zeros[64];
static volatile float f = 1.5f;
int main(void) {
    uint32_t x = zeros[data % 64u];
    __asm__ volatile("uadd8 %0, %0, %0" : "+r"(x));
    __asm__ volatile("uadd8 %0, %0, %0" : "+r"(x));
    f = f * 3.0f;
    return (int)x;
}
"""


@pytest.fixture(scope="module")
def board() -> Board:
    return load_board("mps2_an386")


@pytest.fixture(scope="module")
def image(board: Board, tmp_path_factory: pytest.TempPathFactory) -> Elf:
    folder: Path = tmp_path_factory.mktemp("image")
    (folder / "main.c").write_text(TEXT)
    try:
        toolchain = find_toolchain(board.core, "gcc")
    except ToolMissing as error:
        pytest.skip(error.message)
    built = build_firmware(
        folder, board, sources=[Path("main.c"), *port_sources(board)],
        include_dirs=port_include_dirs(board), toolchain=toolchain, out=folder / "out",
    )  # fmt: skip
    return read_elf(built.elf)


@pytest.fixture
def said(board: Board) -> Callable[..., tuple[str, ...]]:
    """What the check says of an image."""

    def check(elf: Elf, on: Board = board) -> tuple[str, ...]:
        with pytest.raises(BuildFailed, match=f"is not a valid image for {on.name}") as caught:
            check_image(elf, on)
        return caught.value.details

    return check


def section(name: str, address: int, length: int, stored: bool, load: int = 0) -> Section:
    return Section(name, address, load or address, length, stored, False, b"")


def test_a_good_image_is_good(image: Elf, board: Board) -> None:
    check_image(image, board)
    check_image(image.path, board)
    assert any(s.is_stored and s.load_address != s.address for s in image.sections)


def test_sections_lie_whole_in_a_region(image: Elf, board: Board, said: Callable) -> None:
    ram = next(region for region in board.memory.values() if region.kind == "ram")
    end = ram.origin + ram.length
    fits = section(".fits", end - 16, 16, stored=False)
    check_image(replace(image, sections=(*image.sections, fits)), board)
    over = section(".over", end - 16, 17, stored=False)
    (fault,) = said(replace(image, sections=(over, *image.sections)))
    assert fault == f".over at 0x{end - 16:08x} (17 bytes) is in no region of the board"


def test_stored_bytes_lie_in_flash(image: Elf, board: Board, said: Callable) -> None:
    ram = next(region for region in board.memory.values() if region.kind == "ram")
    flash = next(region for region in board.memory.values() if region.kind != "ram")
    at = flash.origin + flash.length - 8
    good = section(".good", ram.origin, 8, stored=True, load=at)
    check_image(replace(image, sections=(*image.sections, good)), board)
    for load in (ram.origin + 8, at + 1):  # in RAM, and over the end of flash
        bad = section(".bad", ram.origin, 8, stored=True, load=load)
        (fault,) = said(replace(image, sections=(*image.sections, bad)))
        assert fault == f"the contents of .bad are to be at 0x{load:08x}, which is not flash"


def test_what_is_not_stored_lies_in_ram(image: Elf, board: Board, said: Callable) -> None:
    flash = next(region for region in board.memory.values() if region.kind != "ram")
    bad = section(".bad", flash.origin + flash.length - 8, 8, stored=False)
    (fault,) = said(replace(image, sections=(*image.sections, bad)))
    assert fault == f".bad is in {flash.name}, which is not RAM"


def test_symbols_are_all_defined_and_none_of_a_libc(
    image: Elf, board: Board, said: Callable
) -> None:
    assert said(replace(image, undefined=("missing",))) == ("missing is not defined",)
    of = image.symbols[0]
    for name in ("malloc", "__wrap.malloc"):
        found = replace(of, name=name, is_function=True, length=0)
        (fault,) = said(replace(image, symbols=(*image.symbols, found)))
        assert fault == f"{name} is a libc function"
    table = Symbol("malloc", of.address, 0, False, of.section)
    check_image(replace(image, symbols=(*image.symbols, table)), board)


def test_an_image_without_functions_cannot_be_checked(image: Elf, said: Callable) -> None:
    kept = tuple(s for s in image.symbols if not s.is_function)
    assert said(replace(image, symbols=kept))[-1].endswith("was the image stripped?")


def test_instructions_that_a_core_lacks_are_named_once(
    image: Elf, board: Board, said: Callable
) -> None:
    lesser = replace(board, core=find_core("cortex-m3"))
    faults = [line for line in said(image, lesser) if line.startswith("main uses 'dsp'")]
    main = image.symbol("main")
    assert main is not None and len(faults) == 1
    marks = (i for i in image.instructions(main) if image.instruction_set.needs(i) == "dsp")
    assert f"at 0x{next(marks).address:08x}, which cortex-m3 lacks" in faults[0]


def test_everything_wrong_is_said_at_once(image: Elf, board: Board, said: Callable) -> None:
    over = section(".over", 0xF000_0000, 4, stored=False)
    faults = said(replace(image, sections=(*image.sections, over), undefined=("missing",)),
                  replace(board, core=find_core("cortex-m3")))  # fmt: skip
    text = "\n".join(faults)
    assert ".over at" in text and "missing is not defined" in text and "uses 'fpu'" in text
