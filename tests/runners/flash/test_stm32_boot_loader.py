"""Our client of the STM32 boot loader against a simulated chip that does everything wrong."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import serial
from simulated_stm32 import (
    FLASH,
    DirectLine,
    FailingPort,
    Faults,
    SimulatedStm32,
    TerminalLine,
    on_pty,
)

from edgec.boards.board import load_board
from edgec.errors import BoardError
from edgec.link.errors import PortUnavailable
from edgec.link.transport import SerialTransport
from edgec.runners.flash import stm32_protocol, stm32_uart
from edgec.runners.flash.image import FlashImage, Segment
from edgec.runners.flash.runner import Job
from edgec.runners.flash.stm32_protocol import BootLoader, BootLoaderError
from edgec.runners.flash.stm32_uart import Stm32Uart
from edgec.runners.flash.stm32_write import ImageWriter, Written, parse_sectors

F405 = "4x16K 64K 7x128K"
SECTORS = parse_sectors(F405, FLASH, "test")
BAD = Faults(
    refuse=0.01, silence=0.005, garbage=0.005, change=0.005, lose_byte=2e-5, change_byte=2e-5
)


def make_chip(**options) -> SimulatedStm32:
    return SimulatedStm32([sector.length for sector in SECTORS], **options)


def make_image(seed: int, size: int) -> FlashImage:
    random = np.random.default_rng(seed)
    data = bytearray(random.integers(0, 256, size, dtype=np.uint8).tobytes())
    data[1000:3000] = b"\xff" * min(2000, max(size - 1000, 0))  # a gap that need not be written
    return FlashImage(Path("firmware.elf"), (Segment(FLASH, bytes(data[:size])),))


def write(loader: BootLoader, image: FlashImage) -> Written:
    loader.connect()
    return ImageWriter(loader, image, SECTORS).write()


def holds(chip: SimulatedStm32, image: FlashImage) -> bool:
    data = image.segments[0].data
    return chip.flash[: len(data)] == data and set(chip.flash[len(data) :]) <= {0xFF}


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch):
    """Makes a client of a chip without a terminal, in simulated time."""

    def make(chip: SimulatedStm32, **options) -> BootLoader:
        line = DirectLine(chip)
        monkeypatch.setattr(stm32_protocol, "time", line)
        return BootLoader(line, **options)

    return make


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch):
    """Makes a client of a chip at a port: the code of a real board, pyserial included."""
    lines: list[TerminalLine] = []

    def make(chip: SimulatedStm32, port: str) -> BootLoader:
        lines.append(TerminalLine(chip, SerialTransport(port, 115200)))
        monkeypatch.setattr(stm32_protocol, "time", lines[-1])
        return BootLoader(lines[-1])

    yield make
    for line in lines:
        line.close()


def test_sectors_are_read() -> None:
    assert [sector.length for sector in SECTORS] == [16384] * 4 + [65536] + [131072] * 7
    assert SECTORS[5].address == FLASH + 0x20000
    with pytest.raises(BoardError, match="'16Q' is not a sector size"):
        parse_sectors("16Q", 0, "x")


def test_good_line_on_a_pseudo_terminal(on_terminal) -> None:
    chip, image = make_chip(), make_image(1, 50_000)
    chip.flash[:60_000] = bytes(60_000)  # an older program
    seen: list[tuple[int, int]] = []
    with on_pty(chip) as port:
        loader = on_terminal(chip, port)
        identity = loader.connect()
        assert (identity.version, identity.product_id) == (0x31, 0x413)
        assert {0x11, 0x31, 0x44} <= identity.commands
        done = ImageWriter(loader, image, SECTORS, lambda *step: seen.append(step)).write()
        assert done == Written(0, False)
        assert loader.repeated == 0
        loader.go(FLASH)
    assert holds(chip, image)
    assert chip.erased == [0, 1, 2, 3]  # and nothing after the image
    assert chip.started == FLASH
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1]


@pytest.mark.parametrize("reset", ["", "dtr"])
def test_each_call_of_the_port_fails_once(reset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program starts that is not whole, the port is closed, and the next run writes it all."""
    image, board = make_image(5, 700), load_board("netduinoplus2")
    options = {"sectors": F405, "reset": reset, "boot0": "rts" if reset else ""}
    job = Job(board, image, options, port="line")
    chip, older = make_chip(), bytes(range(1, 201))
    ports: list[FailingPort] = []

    def flash(fail_at: int | None) -> FailingPort:
        line, gone = DirectLine(chip), OSError(errno.EIO, "Input/output error")
        chip.flash[:] = older + b"\xff" * (len(chip.flash) - len(older))
        chip.started = None
        chip.press_reset()
        ports.append(FailingPort(chip, line, fail_at, gone))
        for module in (stm32_protocol, stm32_uart):
            monkeypatch.setattr(module, "time", line)
        monkeypatch.setattr(serial, "serial_for_url", lambda *_, **__: ports[-1])
        Stm32Uart().flash(job)
        return ports[-1]

    calls = flash(None).calls
    assert {"open", "read", "write", "timeout", "in_waiting"} <= set(calls) and len(calls) > 100
    assert holds(chip, image)
    for at, what in enumerate(calls):
        with pytest.raises(PortUnavailable, match="line"):
            flash(at)
        assert not ports[-1].is_open, (at, what)
        first = chip.flash[:200]
        is_known = first in (older, image.segments[0].data[:200]) or set(first[:8]) == {0xFF}
        assert is_known and (chip.started is None or holds(chip, image)), (at, what)


def check_with_faults(loader: BootLoader, chip: SimulatedStm32, image: FlashImage) -> None:
    write(loader, image)
    assert chip.flash[: image.size_bytes] == image.segments[0].data
    assert chip.faults_done > image.size_bytes / 10_000
    assert loader.repeated > image.size_bytes / 10_000


@pytest.mark.parametrize("seed", range(2))
def test_faults_on_a_pseudo_terminal(on_terminal, seed: int) -> None:
    chip, image = make_chip(seed=seed, faults=BAD), make_image(seed, 40_000)
    with on_pty(chip) as port:
        check_with_faults(on_terminal(chip, port), chip, image)


@pytest.mark.parametrize("has_ecc", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_400_kb_with_faults(direct, seed: int, has_ecc: bool) -> None:
    chip, image = make_chip(seed=seed, faults=BAD, has_ecc=has_ecc), make_image(seed, 400_000)
    check_with_faults(direct(chip), chip, image)


def test_old_boot_loader_erases_by_its_own_command(direct) -> None:
    """As STM32F1 have it: version 2.2, pages of 1 KB, one byte for the number of each."""
    pages = parse_sectors("128x1K", FLASH, "test")
    chip = SimulatedStm32([1024] * 128, seed=4, faults=BAD, is_old=True)
    image = make_image(9, 40_000)
    loader = direct(chip)
    assert loader.connect().version == 0x22
    ImageWriter(loader, image, pages).write()
    assert chip.flash[:40_000] == image.segments[0].data
    assert set(chip.erased) == set(range(40))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100))
def test_400_kb_with_faults_often(direct, seed: int) -> None:
    chip = make_chip(seed=seed + 100, faults=BAD, has_ecc=bool(seed % 2))
    check_with_faults(direct(chip), chip, make_image(seed, 400_000))


def test_interrupted_write_is_recognized_and_repeated(direct) -> None:
    """Power goes in the middle of a block: the vector table is not there, and the next is whole."""
    chip, image = make_chip(), make_image(3, 60_000)
    chip.die_after_writes = 100
    with pytest.raises(BootLoaderError, match="no longer answers"):
        write(direct(chip), image)
    assert set(chip.flash[:256]) == {0xFF} and set(chip.flash[256:512]) != {0xFF}
    chip.dead, chip.die_after_writes = False, None
    assert write(direct(chip), image) == Written(0, True)
    assert holds(chip, image)
    assert write(direct(chip), image) == Written(0, False)


def test_read_protection_is_named(direct) -> None:
    chip = make_chip(protected=True)
    with pytest.raises(BootLoaderError, match="read protection is on") as caught:
        write(direct(chip), make_image(1, 1000))
    assert "erases the whole flash" in caught.value.hint
    assert set(chip.flash) == {0xFF}


def test_worn_flash_is_named(direct) -> None:
    chip = make_chip()
    erase = chip._erase_sectors

    def wear(numbers) -> None:
        erase(numbers)
        if 1 in numbers:
            chip.flash[0x4321] &= 0xEF

    chip._erase_sectors = wear
    image = FlashImage(Path("x"), (Segment(FLASH, b"\xfe" * 40_000),))
    with pytest.raises(BootLoaderError, match="sector 1 at 0x08004000 differs"):
        write(direct(chip), image)
    assert set(chip.flash[:256]) == {0xFF}  # nothing that would start


def test_silence_and_other_programs_are_named(direct) -> None:
    chip = make_chip()
    chip.dead = True
    with pytest.raises(BootLoaderError, match="no boot loader answers"):
        direct(chip).connect()

    def chatter(data: bytes) -> bytes:
        return b"hello from another program\r\n"

    chip.feed = chatter
    with pytest.raises(BootLoaderError):
        direct(chip).connect()


def test_boot_loader_that_is_already_in_step(direct) -> None:
    chip = make_chip()
    direct(chip).connect()
    chip.feed(b"\x31\xce\x08")  # another host left in the middle of a write
    assert direct(chip).connect().product_id == 0x413


class DyingLine(DirectLine):
    """Takes a number of bytes; then the host is no more, in the middle of whatever it says."""

    def __init__(self, chip: SimulatedStm32, left: int) -> None:
        super().__init__(chip)
        self.left = left

    def write(self, data: bytes) -> None:
        super().write(data[: self.left])
        self.left -= len(data)
        if self.left < 0:
            raise KeyboardInterrupt


def test_host_may_die_at_any_byte(direct, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the boot loader still waits for is filled up.

    Only not the numbers of 32,000 sectors, which it expects where the count of an erase is cut.
    """
    image = make_image(3, 3000)
    chip = make_chip()
    write(direct(chip), image)
    deaf: list[int] = []
    for cut in range(0, chip.heard_bytes, 3):
        chip = make_chip()
        line = DyingLine(chip, cut)
        monkeypatch.setattr(stm32_protocol, "time", line)
        with pytest.raises(KeyboardInterrupt):
            write(BootLoader(line), image)
        assert chip.started is None
        try:
            write(direct(chip), image)
        except BootLoaderError as error:
            assert "press reset" in error.hint
            deaf.append(cut)
            chip.press_reset()
            write(direct(chip), image)
        assert chip.flash[:3000] == image.segments[0].data, cut
    assert len(deaf) <= 2


def test_who_it_is_is_asked_twice(direct) -> None:
    """No checksum guards these answers: what a bad line says once is not believed."""
    for seed in range(30):
        chip = make_chip(seed=seed, faults=Faults(change=0.1))
        identity = direct(chip).connect()
        assert (identity.version, identity.product_id) == (0x31, 0x413)
        assert {0x11, 0x31, 0x44} <= identity.commands


def test_image_outside_of_the_sectors_is_named(direct) -> None:
    image = FlashImage(Path("x"), (Segment(FLASH + (2 << 20), bytes(10)),))
    with pytest.raises(BoardError, match="0x08200000"):
        ImageWriter(direct(make_chip()), image, SECTORS)


def test_simulated_chip_satisfies_stm32flash(tmp_path: Path) -> None:
    """Debian's client writes, compares, reads and starts; so the simulation is no echo of ours."""
    program = shutil.which("stm32flash")
    if program is None:
        pytest.skip("stm32flash is not installed (Debian package stm32flash)")
    chip = make_chip()
    chip.flash[:100_000] = bytes(100_000)
    data = make_image(5, 30_000).segments[0].data
    (tmp_path / "in.bin").write_bytes(data)

    def run(*arguments: str) -> str:
        # A pseudo-terminal has no parity, which stm32flash insists on in its own mode 8e1.
        done = subprocess.run(
            [program, "-b", "115200", "-m", "8n1", *arguments, port],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with on_pty(chip) as port:
        said = run("-w", str(tmp_path / "in.bin"), "-v", "-S", "0x08000000:32768")
        assert "STM32F40xxx" in said and "Version      : 0x31" in said
        assert chip.flash[:30_000] == data
        run("-r", str(tmp_path / "out.bin"), "-S", "0x08000000:30000")
        assert (tmp_path / "out.bin").read_bytes()[:30_000] == data
        run("-g", "0x08000000")
    assert chip.started == FLASH
