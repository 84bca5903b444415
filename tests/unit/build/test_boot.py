"""Firmware built by gcc and by clang starts on every board that QEMU can emulate."""

from __future__ import annotations

import itertools
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgec.boards.board import Board, all_boards, load_board
from edgec.boards.board_files import port_include_dirs, port_sources
from edgec.boards.toolchain import find_toolchain
from edgec.build.elf import read_elf
from edgec.build.firmware import build_firmware
from edgec.build.image import Image
from edgec.errors import ToolMissing
from edgec.runners.emulator import find_emulator, missing_emulator

FIRMWARE = Path(__file__).parent / "firmware"
EMULATED = [board.name for board in all_boards() if board.qemu is not None]
BUILT_ONLY = [board.name for board in all_boards() if not board.is_host and board.qemu is None]
COMPILERS = ["gcc", "clang"]
#: clang knows no Xtensa.
ON_BOARDS = [
    (name, compiler) for name, compiler in itertools.product(EMULATED, COMPILERS)
    if compiler == "gcc" or load_board(name).core.isa != "xtensa"
]  # fmt: skip

Build = Callable[..., Image]


@pytest.fixture(scope="session")
def build_program(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("programs")
    built: dict[tuple[str, str, str], Image] = {}

    def build(name: str, compiler: str, program: str = "hello") -> Image:
        if (name, compiler, program) not in built:
            board = load_board(name)
            try:
                toolchain = find_toolchain(board.core, compiler)
            except ToolMissing as error:
                pytest.skip(error.message)
            built[name, compiler, program] = build_firmware(
                FIRMWARE,
                board,
                sources=[Path(f"{program}.c"), *port_sources(board)],
                include_dirs=port_include_dirs(board),
                toolchain=toolchain,
                out=folder / f"{name}-{compiler}-{program}",
            )
        return built[name, compiler, program]

    return build


class Console:
    """An emulated board and its UART."""

    def __init__(self, board: Board, image: Image, *, icount: int | None = None) -> None:
        missing = missing_emulator(board)
        if missing is not None or sys.platform == "win32":  # select() knows no pipes there
            pytest.skip(missing.message if missing is not None else "select() knows no pipes")
        program = find_emulator(board)
        assert board.qemu is not None
        command = [program, "-M", board.qemu.machine, *board.qemu.args, "-display", "none"]
        command += ["-monitor", "none", *["-serial", "null"] * board.qemu.serial_index]
        command += ["-serial", "stdio", "-kernel", str(image.elf)]
        if icount is not None:
            command += ["-icount", f"shift={icount}"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.seen = b""

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def expect(self, pattern: bytes, seconds: float = 20.0) -> re.Match[bytes]:
        """Read until `pattern` matches; what it and all before it matched is dropped."""
        assert self.process.stdout is not None
        end = time.monotonic() + seconds
        while (match := re.search(pattern, self.seen)) is None:
            ready, _, _ = select.select([self.process.stdout], [], [], end - time.monotonic())
            if not ready or not (data := self.process.stdout.read(4096)):
                pytest.fail(f"no {pattern!r} in {self.seen[-300:]!r}")
            self.seen += data
        self.seen = self.seen[match.end() :]
        return match

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def boot(build_program: Build) -> Iterator[Callable[..., tuple[Console, Image]]]:
    consoles: list[Console] = []

    def start(
        name: str, compiler: str, program: str = "hello", icount: int | None = None
    ) -> tuple[Console, Image]:
        image = build_program(name, compiler, program)
        consoles.append(Console(load_board(name), image, icount=icount))
        return consoles[-1], image

    yield start
    for console in consoles:
        console.close()


@pytest.mark.parametrize(("name", "compiler"), ON_BOARDS)
def test_board_boots(boot: Callable[..., tuple[Console, Image]], name: str, compiler: str) -> None:
    console, image = boot(name, compiler)
    board = load_board(name)

    # 6 is the sum of initialised variables and one that starts as 0.
    match = console.expect(rb"hello (\d+) hz (\d+)\r\n")
    assert int(match[1]) == 6
    assert int(match[2]) == board.clock_hz

    burst = bytes(97 + i % 26 for i in range(3000))
    console.send(burst)
    console.expect(re.escape(burst))

    console.send(b"T")
    first = int(console.expect(rb"ticks (\d+)\r\n")[1])
    # Longer than SysTick's 24 bits at 25 MHz; the answer is how often time went backwards.
    console.send(b"8")
    assert int(console.expect(rb"waited (\d+)\r\n")[1]) == 0
    console.send(b"T")
    second = int(console.expect(rb"ticks (\d+)\r\n")[1])
    assert second - first >= 0.8 * board.clock_hz

    console.send(b"X")
    assert int(console.expect(rb"float (\d+)\r\n")[1]) == 1000

    console.send(b"S")
    match = console.expect(rb"stack (\d+) of (\d+) lost (\d+)\r\n")
    assert image.stack_bytes is not None
    assert 0 < int(match[1]) <= image.stack_bytes
    assert int(match[2]) == image.stack_reserved_bytes == board.stack_bytes
    assert int(match[3]) == 0

    # A reset starts over, with variables as they were.
    console.send(b"R")
    assert int(console.expect(rb"hello (\d+) hz")[1]) == 6

    console.send(b"F")
    pc = int(
        console.expect(rb"(?:fault|trap|abort|exception) \d+ pc ([0-9a-f]+) lr [0-9a-f]+\r\n")[1],
        16,
    )
    main = image.function("main")
    assert main is not None
    assert main.address <= pc < main.address + main.code_bytes


@pytest.mark.parametrize(
    "name",
    ["bbc_microbit", "mps2_an386", "netduinoplus2", "qemu_cortex_a7", "qemu_riscv32",
     "qemu_xtensa_lx106"],
)  # fmt: skip
def test_ticks_outlive_their_counter(boot: Callable[..., tuple[Console, Image]], name: str) -> None:
    # At 1024 ns an instruction, 300 s take the emulator a few: 2^32 ticks of 16 MHz are 268 s.
    console, _ = boot(name, "gcc", icount=10)
    console.expect(rb"hello")
    console.send(b"L")
    assert int(console.expect(rb"seconds (\d+)\r\n", seconds=120)[1]) == 300


@pytest.mark.parametrize(
    "name",
    ["bbc_microbit", "mps2_an386", "mps3_an547", "netduinoplus2", "qemu_cortex_a7",
     "qemu_cortex_r5", "qemu_riscv32", "qemu_xtensa_lx106"],
)  # fmt: skip
def test_ticks_count_instructions(boot: Callable[..., tuple[Console, Image]], name: str) -> None:
    # With shift=0 an instruction takes one virtual nanosecond, on any computer.
    expected = 2_000_000 * load_board(name).clock_hz / 1e9
    console, _ = boot(name, "gcc", icount=0)
    console.expect(rb"hello")
    for _ in range(3):
        console.send(b"C")
        counted = int(console.expect(rb"counted (\d+)\r\n")[1])
        # A few dozen instructions around the loop, and the resolution of the counter.
        assert -1 <= counted - expected <= 150e-9 * load_board(name).clock_hz + 1


def test_interrupts_use_no_vectors(build_program: Build) -> None:
    """Nobody saves them; elsewhere clang makes vectors of plain loops."""
    elf = read_elf(build_program("qemu_riscv32_v", "clang").elf)
    calls = {f.name: f.calls for f in build_program("qemu_riscv32_v", "clang").functions}
    needs = {
        function.name: {elf.instruction_set.needs(each) for each in elf.instructions(function)}
        for function in elf.functions()
    }
    reached = ["ec_interrupt_entry"]
    for name in reached:
        reached += [callee for callee in calls[name] if callee not in reached]
    assert "ec_interrupt" in reached and any("rv32v" in each for each in needs.values())
    assert not [name for name in reached if "rv32v" in needs[name]]


@pytest.mark.parametrize(
    "name", ["mps2_an386", "qemu_cortex_a7", "qemu_cortex_r5", "qemu_xtensa_lx106"]
)
def test_stack_that_grows_too_far(boot: Callable[..., tuple[Console, Image]], name: str) -> None:
    console, _ = boot(name, "gcc")
    console.expect(rb"hello")
    console.send(b"O")
    sp = int(console.expect(rb"stack overflow, sp ([0-9a-f]+)\r\n")[1], 16)
    board = load_board(name)
    assert sp < board.memory[board.data].origin


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", BUILT_ONLY)
def test_board_builds(build_program: Build, name: str, compiler: str) -> None:
    # build_firmware has checked vectors, regions, symbols and instructions.
    image = build_program(name, compiler)
    board = load_board(name)
    boot = {region.name for region in board.memory.values() if region.kind == "boot"}
    assert {s.region for s in image.sections} == {board.code, board.data} | boot
    assert 1000 < image.flash_bytes < 12_000


@pytest.mark.parametrize("compiler", COMPILERS)
def test_other_regions_are_reached(
    boot: Callable[..., tuple[Console, Image]], compiler: str
) -> None:
    console, image = boot("mps3_an547", compiler, "regions")
    assert int(console.expect(rb"sum (\d+)\r\n")[1]) == 500_500
    regions = {s.name: s.region for s in image.sections}
    assert regions[".ec_weights_fpga_sram"] == "fpga_sram"
    assert regions[".ec_arena_isram"] == "isram"
    assert image.weights_bytes == 4000
    assert image.arena_bytes == 4000
