"""What is flashed to an ESP32-C3 starts by direct boot, talks, and computes the host's bits."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.boards.board import load_board
from edgec.boards.board_files import port_include_dirs, port_sources
from edgec.boards.toolchain import find_toolchain
from edgec.build.check_image import check_image
from edgec.build.elf import read_elf
from edgec.build.firmware import build_firmware
from edgec.build.image import Image
from edgec.deploy.project import deploy
from edgec.errors import BuildFailed, ToolMissing
from edgec.link.client import LinkClient
from edgec.link.transport import SocketTransport
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.flash.image import load_image
from edgec.runners.flash.runner import Job
from edgec.runners.flash.tools import load_tool, settings
from edgec.runners.on_link import LinkModel
from edgec.runners.samples import generate_inputs

HERE = Path(__file__).parent
BOARD = load_board("esp32c3_devkitm")
DIGITS = HERE.parents[2] / "examples" / "digits" / "digits_int8.onnx"


def flash_contents(elf: Path, folder: Path) -> bytes:
    """What the flash chip holds after `edgec flash`, by esptool's own arguments."""
    job = Job(BOARD, load_image(elf, BOARD), settings(BOARD, "esptool"), "/dev/ttyUSB0")
    plan = load_tool("esptool").plan(job, folder)  # type: ignore[attr-defined]
    words = plan.commands[0][plan.commands[0].index("write-flash") + 1 :]
    chip = bytearray(b"\xff" * (4 << 20))
    for place, name in zip(words[::2], words[1::2], strict=True):
        data = plan.files[Path(name)]
        chip[int(place, 0) : int(place, 0) + len(data)] = data
    return bytes(chip)


@contextmanager
def powered(elf: Path, folder: Path) -> Iterator[socket.socket]:
    """The line of a chip that runs an image; fails where it does what the chip would not."""
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    flash = folder / "flash.bin"
    flash.write_bytes(flash_contents(elf, folder))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        listener.settimeout(60)
        command = [sys.executable, str(HERE / "esp32c3_machine.py"), str(flash)]
        command.append(str(listener.getsockname()[1]))
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            line, _ = listener.accept()
            with line:
                yield line
            _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def expect(line: socket.socket, pattern: bytes) -> re.Match[bytes]:
    seen = b""
    line.settimeout(60)
    while (match := re.search(pattern, seen)) is None:
        data = line.recv(4096)
        assert data, seen
        seen += data
    return match


def build_hello(compiler: str, out: Path) -> Image:
    try:
        toolchain = find_toolchain(BOARD.core, compiler)
    except ToolMissing as error:
        pytest.skip(error.message)
    return build_firmware(
        HERE / "firmware",
        BOARD,
        sources=[Path("hello.c"), *port_sources(BOARD)],
        include_dirs=port_include_dirs(BOARD),
        toolchain=toolchain,
        out=out,
    )


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_direct_boot(compiler: str, tmp_path: Path) -> None:
    image = build_hello(compiler, tmp_path / "hello")
    with powered(image.elf, tmp_path) as line:
        # 6 is the sum of initialised variables and one that starts as 0.
        match = expect(line, rb"hello (\d+) hz (\d+)\r\n")
        assert (int(match[1]), int(match[2])) == (6, 16_000_000)
        burst = bytes(97 + i % 26 for i in range(300))
        line.sendall(burst)
        expect(line, re.escape(burst))
        line.sendall(b"1")
        assert int(expect(line, rb"waited (\d+)\r\n")[1]) == 0
        line.sendall(b"S")
        match = expect(line, rb"stack (\d+) of (\d+) lost 0\r\n")
        assert image.stack_bytes is not None and 0 < int(match[1]) <= image.stack_bytes
        assert int(match[2]) == image.stack_reserved_bytes == BOARD.stack_bytes
        line.sendall(b"R")
        expect(line, rb"hello 6 hz")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_model_over_the_link(compiler: str, tmp_path: Path) -> None:
    try:
        find_toolchain(BOARD.core, compiler)
    except ToolMissing as error:
        pytest.skip(error.message)
    options = Options(compiler=compiler)  # type: ignore[arg-type]
    compiled = compile_model(DIGITS, BOARD.core, options, board=BOARD)
    built = deploy(compiled, BOARD, tmp_path / "digits")
    assert built.artefact is not None and built.image is not None
    on_host = load_board("host")
    host = deploy(compile_model(DIGITS, on_host.core), on_host, tmp_path / "host")
    inputs = [
        generate_inputs(seed, [(p.shape, p.dtype) for p in built.manifest.inputs])
        for seed in (1, 2)
    ]
    with powered(built.artefact, tmp_path) as line, open_session("host", host) as session:
        client = LinkClient(SocketTransport(line, "the chip"), patience_s=60.0)
        model = LinkModel(client, built.manifest, hello_patience_s=60.0)
        assert client.selftest(timeout_s=60.0) == 0
        for arrays in inputs:
            done, outputs = model.run(arrays)
            assert done.status == 0
            assert outputs == [o.tobytes() for o in session.run(arrays).outputs]
        used = client.stack().used_bytes
    assert built.image.stack_bytes is not None and 0 < used <= built.image.stack_bytes


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ((0, 0), "the boot ROM's words are not at the start"),
        ((8, 0x13), "0x42000008 does not jump to the entry"),
        ((0x104, 0x13), "entry 1 of the trap table is not a jump to code"),
    ],
)
def test_damaged_start_is_found(damage: tuple[int, int], message: str, tmp_path: Path) -> None:
    elf = read_elf(build_hello("gcc", tmp_path / "hello").elf)
    start = elf.section(".vectors")
    assert start is not None and start.address == 0x4200_0000 and start.load_address == 0x3C00_0000
    content = bytearray(start.content)
    content[damage[0] : damage[0] + 4] = damage[1].to_bytes(4, "little")
    sections = (replace(start, content=bytes(content)), *(s for s in elf.sections if s != start))
    with pytest.raises(BuildFailed) as caught:
        check_image(replace(elf, sections=sections), BOARD)
    assert any(message in line for line in caught.value.details)


def test_constants_are_read_over_the_data_bus(tmp_path: Path) -> None:
    image = build_hello("gcc", tmp_path / "hello")
    places = {s.name: s.address >> 24 for s in image.sections}
    assert (places[".text"], places[".rodata"], places[".bss"]) == (0x42, 0x3C, 0x3F)
    segment, *more = load_image(image.elf, BOARD).segments
    assert segment.address == 0x3C00_0000 and not more
    assert np.frombuffer(segment.data[:8], "<u4").tolist() == [0xAEDB_041D] * 2
