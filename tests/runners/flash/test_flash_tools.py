"""Flashing tools: their exact command lines, real programs where installed, and what goes wrong."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.boards.board import all_boards, load_board, parse_board
from edgec.errors import BoardError, RunFailed, ToolMissing
from edgec.link import ports
from edgec.link.ports import SerialPort
from edgec.runners.flash import tools, uf2
from edgec.runners.flash.image import FlashImage, Segment, load_image, uf2_bytes
from edgec.runners.flash.project import plan_flash
from edgec.runners.flash.runner import FlashFailed, Job, ProgramTool, compare, settings
from edgec.runners.flash.stm32_uart import ControlLines
from edgec.runners.flash.tools import TOOLS, choose_tool, load_tool, tools_of

DATA = bytes(range(200))
IMAGE = FlashImage(Path("/p/a b.elf"), (Segment(0x0800_0000, DATA),))
TWO = FlashImage(Path("/p/a.elf"), (Segment(0x0800_0000, DATA), Segment(0x9000_0000, b"xyz1")))
WORK = Path("/w")

BOARD_TOML = """
title = "Test"
core = "cortex-m4"
port = "stm32f4"
[memory.flash]
origin = 0x0800_0000
length = "64K"
kind = "flash"
[memory.sram]
origin = 0x2000_0000
length = "64K"
kind = "ram"
[layout]
stack = "1K"
"""


def board_with(*runners: str):
    text = BOARD_TOML + "".join(f"[[runner]]\n{runner}\n" for runner in runners)
    return parse_board("test", text, "test.toml")


def job(image: FlashImage = IMAGE, port: str | None = None, **rest) -> Job:
    options = {key: str(value) for key, value in rest.pop("options", {}).items()}
    return Job(load_board("stm32"), image, options, port=port, **rest)


def lines(name: str, work: Job) -> list[str]:
    tool = load_tool(name)
    assert isinstance(tool, ProgramTool)
    return [
        " ".join(f"'{w}'" if " " in w else w for w in c) for c in tool.plan(work, WORK).commands
    ]


@pytest.mark.parametrize(
    ("name", "work", "expected"),
    [
        ("openocd", job(options={"config": "board/a.cfg"}),
         ["openocd -f board/a.cfg -c 'program {/p/a b.elf} verify reset exit'"]),
        ("openocd", job(options={"config": "interface/i.cfg target/t.cfg"}, probe="42"),
         ["openocd -f interface/i.cfg -f target/t.cfg -c 'adapter serial 42' "
          "-c 'program {/p/a b.elf} verify reset exit'"]),
        ("pyocd", job(options={"target": "nrf51822"}, probe="42"),
         ["pyocd load -W --target nrf51822 --probe 42 --format elf --no-reset '/p/a b.elf'",
          "pyocd commander -W --target nrf51822 --probe 42 "
          "-c 'savemem 0x8000000 200 '/w/read_08000000.bin''",
          "pyocd reset -W --target nrf51822 --probe 42"]),
        ("st-flash", job(image=TWO, probe="42"),
         ["st-flash --serial 42 write /w/write_08000000.bin 0x08000000",
          "st-flash --serial 42 read /w/read_08000000.bin 0x08000000 0xc8",
          "st-flash --serial 42 write /w/write_90000000.bin 0x90000000",
          "st-flash --serial 42 read /w/read_90000000.bin 0x90000000 0x4",
          "st-flash --serial 42 reset"]),
        ("stm32flash", job(image=TWO, port="/dev/ttyS1", options={"gpio": "dtr"}, baud=57600),
         ["stm32flash -b 57600 -i dtr -f -v -w /w/write_08000000.bin -S 0x08000000 /dev/ttyS1",
          "stm32flash -b 57600 -c -f -v -w /w/write_90000000.bin -S 0x90000000 /dev/ttyS1",
          "stm32flash -b 57600 -c -g 0x08000000 /dev/ttyS1"]),
        ("stm32cubeprogrammer", job(),
         ["STM32_Programmer_CLI -c port=SWD mode=UR -w '/p/a b.elf' -v -s 0x08000000"]),
        ("stm32cubeprogrammer", job(port="/dev/ttyS1"),
         ["STM32_Programmer_CLI -c port=/dev/ttyS1 br=115200 P=EVEN -w '/p/a b.elf' -v "
          "-s 0x08000000"]),
        ("dfu-util", job(image=TWO, options={"device": "0483:df11"}),
         ["dfu-util -d 0483:df11 -a 0 -s 0x08000000 -D /w/write_08000000.bin",
          "dfu-util -d 0483:df11 -a 0 -s 0x90000000 -D /w/write_90000000.bin",
          "dfu-util -d 0483:df11 -a 0 -s 0x08000000:200 -U /w/read_08000000.bin",
          "dfu-util -d 0483:df11 -a 0 -s 0x90000000:4:leave -U /w/read_90000000.bin"]),
        ("jlink", job(options={"device": "STM32F405RG"}),
         [f"{'JLink.exe' if sys.platform == 'win32' else 'JLinkExe'} -NoGui 1 -ExitOnError 1 "
          "-AutoConnect 1 -Device STM32F405RG -If SWD -Speed 4000 -CommandFile /w/flash.jlink"]),
        ("esptool", job(image=TWO, port="/dev/ttyS1", options={"chip": "esp32c3"}),
         ["esptool --chip esp32c3 --port /dev/ttyS1 --baud 460800 --after no-reset write-flash "
          "0x0 /w/write_08000000.bin 0x88000000 /w/write_90000000.bin",
          "esptool --chip esp32c3 --port /dev/ttyS1 --baud 460800 verify-flash "
          "0x0 /w/write_08000000.bin 0x88000000 /w/write_90000000.bin"]),
    ],
)  # fmt: skip
def test_command_lines(name: str, work: Job, expected: list[str]) -> None:
    assert lines(name, work) == expected


def test_jlink_script() -> None:
    plan = load_tool("jlink").plan(job(options={"device": "x"}), WORK)  # type: ignore[attr-defined]
    assert plan.files[WORK / "flash.jlink"].decode().splitlines() == [
        "r",
        "loadbin /w/write_08000000.bin, 0x8000000",
        "verifybin /w/write_08000000.bin, 0x8000000",
        "r",
        "g",
        "exit",
    ]
    assert plan.files[WORK / "write_08000000.bin"] == DATA


def test_missing_settings_and_ports_are_named() -> None:
    with pytest.raises(BoardError, match="'openocd' needs the key 'config'"):
        lines("openocd", job())
    with pytest.raises(FlashFailed, match="'stm32flash' needs a serial port"):
        lines("stm32flash", job())


def test_settings_of_every_shipped_board_are_read() -> None:
    known = 0
    for board in all_boards():
        for name in tools_of(board):
            load_tool(name).check_options(settings(board, name), board.name)
            known += 1
    assert known > 20
    with pytest.raises(BoardError, match="'openocd' has no key 'confg'"):
        choose_tool(board_with('name = "openocd"\nconfg = "x"'), "openocd", None)


# --- which tool ---------------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    """Makes only these programs look installed."""

    def only(*names: str) -> None:
        monkeypatch.setattr(
            shutil, "which", lambda n, path=None: f"/opt/{n}" if n in names else None
        )

    return only


def test_first_usable_tool_is_taken(installed) -> None:
    board = load_board("nucleo_f446re")
    installed("st-flash", "pyocd", "stm32flash")
    assert choose_tool(board, None, None).name == "pyocd"
    installed("st-flash", "stm32flash", "qemu-system-arm")
    assert choose_tool(board, None, None).name == "st-flash"
    assert choose_tool(board, None, "/dev/ttyS1").name == "stm32-uart"
    assert choose_tool(board, "stm32flash", "/dev/ttyS1").name == "stm32flash"
    assert choose_tool(load_board("mps2_an386"), None, None).name == "qemu"


def test_port_of_the_boards_own_probe_means_the_probe(
    installed, digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gives the ST-LINK's port has an ST-LINK: the chip's boot loader is not behind it."""
    board = replace(load_board("netduinoplus2"), link=load_board("nucleo_f446re").link)
    built = replace(digits("netduinoplus2"), board=board)  # while the compiler is installed
    installed("openocd", "stm32flash")
    there = (SerialPort("COM7", "STLink", "0483:374b", "066A"), SerialPort("COM3", "", "1a86:7523"))
    monkeypatch.setattr(ports, "list_serial_ports", lambda: there)
    tool, work = plan_flash(built, port="COM7")
    assert (tool.name, work.port, work.probe) == ("openocd", None, "066A")
    tool, work = plan_flash(built, port="COM3")
    assert (tool.name, work.port, work.probe) == ("stm32-uart", "COM3", None)
    tool, work = plan_flash(built, port="COM7", runner="stm32flash")
    assert (tool.name, work.port) == ("stm32flash", "COM7")
    # A board that has no tool over a port takes the others.
    assert choose_tool(load_board("bbc_microbit"), None, "COM3").name == "openocd"


def test_no_usable_tool_says_how_to_get_each(installed) -> None:
    installed("qemu-system-arm")
    with pytest.raises(ToolMissing, match="no tool that can flash netduinoplus2") as caught:
        choose_tool(load_board("stm32"), None, None)
    text = caught.value.render()
    assert "apt install openocd" in text and "stm32-uart: needs --port" in text
    with pytest.raises(BoardError, match="is not flashed with esptool"):
        choose_tool(load_board("stm32"), "esptool", None)
    with pytest.raises(BoardError, match="there is no flashing tool 'foo'"):
        choose_tool(load_board("stm32"), "foo", None)
    with pytest.raises(BoardError, match="no flashing tool knows test"):
        choose_tool(board_with(), None, None)


@pytest.mark.parametrize("name", [n for n in TOOLS if n not in ("stm32-uart", "uf2")])
def test_absent_program_says_how_to_get_it(name: str, installed) -> None:
    installed()
    problem = load_tool(name).missing()
    assert problem is not None
    assert "install" in problem.hint


# --- programs that are there ----------------------------------------------------------------


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Puts a program of this name, a shell script, first on the path."""

    def make(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return make


def test_what_is_read_back_is_compared(fake, tmp_path: Path) -> None:
    fake("st-flash", f'case "$1" in write) cp "$2" {tmp_path}/flash;; '
                     f'read) cp {tmp_path}/flash "$2";; esac')  # fmt: skip
    assert load_tool("st-flash").flash(job()).verified == "read back and compared"
    fake("st-flash", 'case "$1" in read) head -c 200 /dev/zero > "$2";; esac')
    with pytest.raises(FlashFailed, match="at 0x08000001: 0x00 instead of 0x01"):
        load_tool("st-flash").flash(job())
    with pytest.raises(FlashFailed, match="only 2 of 3 bytes"):
        compare(0, b"abc", b"ab")


def test_failure_shows_the_end_of_the_output(fake) -> None:
    fake("openocd", "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done\n"
                    "echo 'Error: open failed' >&2; exit 1")  # fmt: skip
    with pytest.raises(FlashFailed, match="openocd failed with status 1") as caught:
        load_tool("openocd").flash(job(options={"config": "x.cfg"}))
    assert caught.value.details[-1] == "Error: open failed"
    assert "line 1" not in caught.value.details
    assert "no debug probe was found" in caught.value.hint


#: What the real program says to our arguments where no board is connected: it understood them.
NO_BOARD = {
    "openocd": "open failed|unable to find|no device found|Error: libusb|init failed",
    "st-flash": "Couldn't find any ST-Link",
    "stm32flash": "Failed to open port",
    "dfu-util": "No DFU capable USB device",
    "pyocd": "No (connected|available) debug probes|No target device available",
    "esptool": "[Cc]ould not open",
}
DEBIAN = {"openocd": "openocd", "st-flash": "stlink-tools", "stm32flash": "stm32flash",
          "dfu-util": "dfu-util"}  # fmt: skip


@pytest.mark.parametrize("name", NO_BOARD)
def test_real_programs_accept_the_arguments(name: str, tmp_path: Path) -> None:
    """Up to the missing board: a wrong option would be refused before, in other words."""
    tool = load_tool(name)
    assert isinstance(tool, ProgramTool)
    path = tool.find()
    if path is None:
        where = f"Debian package {DEBIAN[name]}" if name in DEBIAN else "pip install edgec[flash]"
        pytest.skip(f"{name} is not installed ({where})")
    options = {"config": "board/st_nucleo_f4.cfg", "device": "0483:df11", "target": "nrf51822",
               "chip": "esp32c3"}  # fmt: skip
    elf = tmp_path / "a b.elf"
    elf.write_bytes(b"\x7fELF" + bytes(60))
    work = job(
        image=FlashImage(elf, IMAGE.segments),
        options={key: value for key, value in options.items() if key in tool.keys},
        port=str(tmp_path / "no_port"),
    )
    plan = tool.plan(work, tmp_path)
    for file, data in plan.files.items():
        file.write_bytes(data)
    for line in plan.commands:
        done = subprocess.run(
            [path, *line[1:]], capture_output=True, text=True, timeout=60, check=False
        )
        assert re.search(NO_BOARD[name], done.stdout + done.stderr), (line, done)
        assert "usage" not in (done.stdout + done.stderr).lower()
    with pytest.raises(FlashFailed):
        tool.flash(work)


# --- UF2 ------------------------------------------------------------------------------------


def test_uf2_blocks() -> None:
    data = uf2_bytes(FlashImage(Path("x"), (Segment(0x1000_0000, bytes(300)),)), 0xE48BFF56)
    assert len(data) == 2 * 512
    words = [int.from_bytes(data[512 + 4 * i : 516 + 4 * i], "little") for i in range(8)]
    assert words == [0x0A324655, 0x9E5D5157, 0x2000, 0x1000_0100, 256, 1, 2, 0xE48BFF56]
    assert data[512 + 32 : 512 + 76] == bytes(44) and data[512 + 76 : 512 + 288] == b"\xff" * 212
    assert data[1020:] == (0x0AB16F30).to_bytes(4, "little")


def test_uf2_drive_is_found_by_its_board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in (("A", "UF2 Bootloader\nModel: Pico\nBoard-ID: RPI-RP2\n"),
                       ("B", "UF2\nModel: Feather\nBoard-ID: SAMD51\n")):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "INFO_UF2.TXT").write_text(text)
    folders = [tmp_path / "A", tmp_path / "B", tmp_path / "C"]
    assert uf2.find_drive(folders, "RPI-RP2") == tmp_path / "A"
    with pytest.raises(FlashFailed, match="several UF2 drives"):
        uf2.find_drive(folders, "")
    with pytest.raises(FlashFailed, match="no UF2 drive of 'nRF'") as caught:
        uf2.find_drive(folders, "nRF")
    assert "Model: Feather" in caught.value.render()

    monkeypatch.setattr(uf2, "drives", lambda: folders)
    monkeypatch.setattr(uf2, "_RESTART_TIMEOUT_S", 0.2)
    work = job(options={"family": "0xe48bff56", "board_id": "SAMD51"})
    with pytest.raises(FlashFailed, match="is still there"):
        load_tool("uf2").flash(work)
    written = (tmp_path / "B" / "firmware.uf2").read_bytes()
    assert written == uf2_bytes(IMAGE, 0xE48BFF56)
    # A boot loader that has taken everything restarts, and its drive goes.
    monkeypatch.setattr(uf2, "copy", lambda *_: (tmp_path / "B" / "INFO_UF2.TXT").unlink())
    assert "taken" in load_tool("uf2").flash(work).verified


def test_uf2_drive_that_goes_before_the_copy_took_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(uf2, "find_drive", lambda *_: tmp_path / "gone")
    with pytest.raises(FlashFailed, match=r"cannot write .*firmware.uf2: No such file"):
        load_tool("uf2").flash(job(options={"family": "1", "board_id": "x"}))


# --- DTR and RTS ----------------------------------------------------------------------------


def test_control_lines() -> None:
    lines = ControlLines("dtr", "!rts", "test")
    assert lines.levels(reset=True, boot0=True) == {"dtr": True, "rts": False}
    assert lines.levels(reset=False, boot0=False) == {"dtr": False, "rts": True}
    assert ControlLines("", "", "test").levels(reset=True, boot0=True) == {}
    with pytest.raises(BoardError, match="boot0 is 'cts', not dtr or rts"):
        ControlLines("dtr", "cts", "test")

    seen: list[tuple[str, bool]] = []

    class Port:
        def set_line(self, line: str, is_on: bool) -> None:
            seen.append((line, is_on))

    assert ControlLines("dtr", "rts", "test").restart(Port(), boot0=True)  # type: ignore[arg-type]
    assert seen == [("dtr", True), ("rts", True), ("dtr", False), ("rts", True)]
    assert not ControlLines("", "rts", "test").restart(Port(), boot0=True)  # type: ignore[arg-type]


# --- images ---------------------------------------------------------------------------------


def test_image_of_a_project(digits) -> None:
    built = digits("mps2_an386")
    image = load_image(built.artefact, built.board)
    assert [segment.address for segment in image.segments] == [0]
    # What aligns one section after another counts as stored here.
    assert 0 <= image.size_bytes - built.image.flash_bytes < 64
    with pytest.raises(RunFailed, match="outside the flash of bbc_microbit"):
        load_image(digits("stm32").artefact, load_board("bbc_microbit"))


@pytest.mark.usefixtures("qemu")
def test_qemu_boots_what_it_is_given(digits) -> None:
    built = digits("mps2_an386")
    done = load_tool("qemu").flash(Job(built.board, load_image(built.artefact, built.board)))
    assert done.verified == "booted, and its self-test passed"
    assert f"{built.manifest.build_hash:08x}" in done.notes[0]


def test_every_tool_has_its_file() -> None:
    folder = Path(tools.__file__).parent
    others = {"__init__", "image", "project", "runner", "tools", "stm32_protocol", "stm32_write"}
    assert {module for module, _ in TOOLS.values()} == {
        p.stem for p in folder.glob("*.py")
    } - others
