"""A link with a key: who has none may ask for nothing, and no recorded request acts again."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from link_devices import (
    HERE,
    KEY,
    LARGE_BYTES,
    LINK_SOURCES,
    RUNTIME,
    SMALL_BYTES,
    BadLine,
    MemoryDevice,
    ProcessTransport,
    ScriptedTransport,
    build_process_device,
    keyed_sources,
)

from edgec.boards.toolchain import WARNING_FLAGS, find_toolchain
from edgec.build.firmware import compile_sources
from edgec.build.host import build_host_library, build_host_program
from edgec.errors import BuildFailed, ToolMissing
from edgec.link import seal
from edgec.link.client import LinkClient
from edgec.link.commands import Code, Command, Kind, Stops, pack_run, pack_write
from edgec.link.errors import NotProven, Refused
from edgec.link.frame import ANSWER, Frame, FrameReader
from edgec.link.seal import SealedSession, project_key, read_key
from edgec.targets.core import find_core

pytest.importorskip("siphash24", reason="the extra `keyed` is not installed")

ASKS = [  # every request but hello and challenge
    (Command.PORT, b"\0\0"), (Command.ECHO, b"x"), (Command.WRITE, pack_write(0, 0, b"\7")),
    (Command.READ, b"\1\0\0\0\0\0\4\0"), (Command.RUN, pack_run(1, Stops.NOWHERE)),
    (Command.CONTINUE, b"\1\0\0\0\0"), (Command.STACK, b""), (Command.SELFTEST, b""),
    (Command.RESET, b""), (Command.RESTART, b""),
]  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_process_device(tmp_path_factory.mktemp("keyed"), keyed=True)


@pytest.fixture(scope="module")
def memory_device(tmp_path_factory: pytest.TempPathFactory) -> MemoryDevice:
    folder = tmp_path_factory.mktemp("keyed_memory")
    sources = keyed_sources(folder / "link")
    library = build_host_library(
        [*sources, HERE / "fake_model.c", HERE / "port_memory.c"],
        folder / "device.so",
        toolchain=find_toolchain(find_core("host")),
        include_dirs=[HERE, folder / "link", RUNTIME / "ports"],
        defines=["EC_TRACE_HOOK"],
    )
    return MemoryDevice(library)


@pytest.fixture
def connect(program: Path) -> Iterator[Callable[..., LinkClient]]:
    clients: list[LinkClient] = []

    def start(share: float = 0.0, seed: int = 1) -> LinkClient:
        clients.append(LinkClient(BadLine(ProcessTransport(program), share, seed)))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


def ask(device: MemoryDevice, frame: Frame) -> Frame:
    """The only answer to a frame."""
    (answer,) = FrameReader().feed(device.feed(frame.pack()))
    assert answer is not None
    return answer


class Recorder:
    """A host that holds the key and packs its frames by hand."""

    def __init__(self, device: MemoryDevice, number: int = 100) -> None:
        self.device = device
        self.number = number
        nonce = secrets.token_bytes(8)
        answer = ask(device, Frame(Command.CHALLENGE, number, nonce))
        assert answer.data[:1] == b"\0" and len(answer.data) == 17
        self.session = SealedSession(KEY, nonce, answer.data[1:9])
        assert self.session.proof == answer.data[9:]

    def frame(self, command: Command, data: bytes, number: int | None = None) -> Frame:
        if number is None:
            self.number += 1
        number = self.number if number is None else number
        return Frame(command, number & 0xFFFF, self.session.seal(command, number, data))

    def code(self, frame: Frame) -> int:
        return ask(self.device, frame).data[0]

    def do(self, command: Command, data: bytes) -> bytes:
        frame = self.frame(command, data)
        answer = ask(self.device, frame)
        plain = self.session.unseal(command | ANSWER, self.number, answer.data)
        assert plain is not None and plain[0] == Code.OK
        return plain[1:]

    def first_input_byte(self) -> int:
        return self.do(Command.READ, b"\0\0\0\0\0\0\1\0")[0]


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_everything_works_with_the_key(connect: Callable[..., LinkClient], share: float) -> None:
    client = connect(share, 3)
    identity = client.hello()
    assert identity.has_key
    client.prove(identity, KEY)
    large = np.random.default_rng(1).integers(0, 256, LARGE_BYTES, dtype=np.uint8)
    client.write_input(0, large.tobytes())
    client.write_input(1, bytes(SMALL_BYTES))
    for runs in (1, 2, 3):
        assert client.run().runs == 1
        found = np.frombuffer(client.read(Kind.OUTPUT, 0, LARGE_BYTES), np.uint8)
        assert np.array_equal(found, 3 * large)
        assert int.from_bytes(client.read(Kind.OUTPUT, 1, 4), "little") == runs
    events: list[int] = []
    client.traced_run(lambda stop, data: events.append(stop.id))
    assert events == [0, 2, 2, 1, 3]
    assert client.reset() == 0 and client.selftest() == 0
    assert (client.counts.repeated > 10) == bool(share)


def test_nothing_without_the_key(memory_device: MemoryDevice) -> None:
    good = Recorder(memory_device)
    good.do(Command.WRITE, pack_write(0, 0, b"\5"))
    runs = good.do(Command.READ, b"\1\1\0\0\0\0\4\0")
    restarts = memory_device.restarts
    for command, data in ASKS:
        for forged in (
            data,
            data + bytes(8),
            SealedSession(bytes(16), b"", b"").seal(command, 101, data),
        ):
            answer = ask(memory_device, Frame(command, 101, forged))
            assert answer.data == bytes([Code.LOCKED]), command
    assert memory_device.restarts == restarts
    assert good.first_input_byte() == 5
    assert good.do(Command.READ, b"\1\1\0\0\0\0\4\0") == runs


def test_every_part_of_a_frame_is_sealed(memory_device: MemoryDevice) -> None:
    host = Recorder(memory_device)
    frame = host.frame(Command.WRITE, pack_write(0, 0, b"\6"))
    for position in range(len(frame.data)):
        for bit in range(8):
            data = bytearray(frame.data)
            data[position] ^= 1 << bit
            assert host.code(Frame(frame.type, frame.sequence, bytes(data))) == Code.LOCKED
    for sequence in (frame.sequence + 1, frame.sequence - 1, frame.sequence + 256):
        assert host.code(Frame(frame.type, sequence, frame.data)) == Code.LOCKED
    assert host.code(Frame(Command.ECHO, frame.sequence, frame.data)) == Code.LOCKED
    assert host.code(Frame(frame.type | ANSWER, frame.sequence, frame.data)) == Code.LOCKED
    assert host.code(frame) == Code.OK


def test_no_recorded_request_acts_again(memory_device: MemoryDevice) -> None:
    host = Recorder(memory_device)
    host.do(Command.RESET, b"")
    old_write = host.frame(Command.WRITE, pack_write(0, 0, b"\1"))
    assert host.code(old_write) == Code.OK
    run = host.frame(Command.RUN, pack_run(1, Stops.NOWHERE))
    answer = ask(memory_device, run)
    assert ask(memory_device, run) == answer  # repeated by the host: done once, answered twice
    host.do(Command.WRITE, pack_write(0, 0, b"\2"))
    reset = host.frame(Command.RESET, b"")
    assert host.code(reset) == Code.OK
    assert host.code(run) == Code.LOCKED  # not the last that acted: somebody else's
    assert host.code(old_write) == Code.OK  # said, and not done
    assert host.first_input_byte() == 2
    assert host.do(Command.READ, b"\1\1\0\0\0\0\4\0") == bytes(4)
    for _ in range(40):
        host.do(Command.ECHO, b"")
    assert host.code(old_write) == Code.LOCKED  # too old


def test_numbers_go_on_after_the_frames_have_none_left(memory_device: MemoryDevice) -> None:
    host = Recorder(memory_device, number=0xFFF0)
    first = host.frame(Command.WRITE, pack_write(0, 0, b"\1"))
    assert host.code(first) == Code.OK
    for _ in range(5):
        host.number += 30_000
        host.do(Command.WRITE, pack_write(0, 0, b"\3"))
    again = Frame(first.type, (host.number + 1) & 0xFFFF, first.data)
    assert host.code(again) == Code.LOCKED and host.code(first) == Code.LOCKED
    assert host.first_input_byte() == 3


def test_a_recorded_session_does_not_come_back(memory_device: MemoryDevice) -> None:
    host = Recorder(memory_device)
    write = host.frame(Command.WRITE, pack_write(0, 0, b"\7"))
    assert host.code(write) == Code.OK
    nonce = secrets.token_bytes(8)
    challenge = Frame(Command.CHALLENGE, 100, nonce)
    first = ask(memory_device, challenge)
    assert ask(memory_device, challenge) == first  # the answer was lost: the same session
    assert host.code(write) == Code.LOCKED
    other = ask(memory_device, Frame(Command.CHALLENGE, 100, secrets.token_bytes(8)))
    assert ask(memory_device, challenge).data[1:9] not in (first.data[1:9], other.data[1:9])


@pytest.mark.parametrize("key", [bytes(16), None])
def test_a_wrong_key_or_none(connect: Callable[..., LinkClient], key: bytes | None) -> None:
    client = connect()
    identity = client.hello()
    with pytest.raises(NotProven, match=r"does not hold|only to projects with its key"):
        client.prove(identity, key)
    with pytest.raises(Refused, match="no valid seal"):
        client.run()


def test_a_device_without_a_key_is_not_believed(tmp_path: Path) -> None:
    client = LinkClient(ProcessTransport(build_process_device(tmp_path)))
    try:
        identity = client.hello()
        client.prove(identity, None)
        with pytest.raises(NotProven, match="has no key"):
            client.prove(identity, KEY)
        with pytest.raises(Refused, match="does not know"):
            client._exchange.prove(KEY)
    finally:
        client.close()


def test_answers_of_somebody_else_are_not_taken(program: Path) -> None:
    """A device that lost its session is named; an answer without a good seal is no answer."""
    inner = ProcessTransport(program)
    client = LinkClient(inner)
    client.prove(client.hello(), KEY)
    other = LinkClient(inner)
    other._exchange.prove(KEY)
    with pytest.raises(NotProven, match="no longer knows this session"):
        client.stack()
    inner.close()

    def lie(data: bytes) -> bytes:
        frames = [frame for frame in FrameReader().feed(data) if frame is not None]
        return b"".join(Frame(f.type | ANSWER, f.sequence, bytes(21)).pack() for f in frames)

    liar = LinkClient(ScriptedTransport(lie), patience_s=0.2)
    liar._exchange._session = SealedSession(KEY, bytes(8), bytes(8))
    with pytest.raises(Exception, match="has not answered"):
        liar.stack()
    assert liar.counts.strange > 0


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.binary(min_size=16, max_size=16))
def test_both_ends_hash_alike(
    hash_in_c: Callable[[bytes, bytes], bytes], data: bytes, key: bytes
) -> None:
    assert hash_in_c(data, key) == seal._hash(key, data)


@pytest.fixture(scope="module")
def hash_in_c(memory_device: MemoryDevice) -> Callable[[bytes, bytes], bytes]:
    import ctypes

    def run(data: bytes, key: bytes) -> bytes:
        out = ctypes.create_string_buffer(8)
        memory_device._library.ec_link_siphash(out, data, len(data), key)
        return out.raw

    return run


def test_the_published_vector(hash_in_c: Callable[[bytes, bytes], bytes]) -> None:
    """Appendix A of the paper: key 00..0f, message 00..0e."""
    expected = bytes.fromhex("e545be4961ca29a1")
    assert hash_in_c(bytes(range(15)), KEY) == seal._hash(KEY, bytes(range(15))) == expected


def test_fuzz_with_sanitizers(tmp_path: Path) -> None:
    toolchain = find_toolchain(find_core("host"))
    sources = keyed_sources(tmp_path / "link")
    program = build_host_program(
        [*sources, *(HERE / n for n in ("fake_model.c", "port_memory.c", "fuzz_main.c"))],
        tmp_path / "fuzz",
        toolchain=toolchain,
        include_dirs=[HERE, tmp_path / "link", RUNTIME / "ports"],
        defines=["EC_TRACE_HOOK"],
        sanitize=("address", "undefined") if toolchain.family == "gcc" else ("undefined",),
    )
    done = subprocess.run(
        [program, "100000", "7"], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4"])
def test_size(tmp_path: Path, core: str) -> None:
    """A key costs at most 1.5 KB of flash and 100 bytes of RAM."""
    try:
        toolchain = find_toolchain(find_core(core), "gcc")
    except ToolMissing as error:
        pytest.skip(error.message)
    sizes = []
    for sources in (LINK_SOURCES, keyed_sources(tmp_path / "link")):
        out = tmp_path / f"objects{len(sizes)}"
        out.mkdir()
        objects = compile_sources(
            toolchain, sources, out,
            flags=["-O2", "-ffunction-sections", "-ffreestanding", *WARNING_FLAGS],
            include_dirs=[sources[0].parent, RUNTIME / "ports"], defines=["EC_TRACE_HOOK"],
        )  # fmt: skip
        said = subprocess.run(
            [shutil.which("arm-none-eabi-size") or "size", "-t", *objects],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        text, data, bss = map(int, said.stdout.splitlines()[-1].split()[:3])
        sizes.append((text + data, data + bss))
    (flash, ram), (keyed_flash, keyed_ram) = sizes
    print(f"{core}: {keyed_flash - flash} more bytes of flash, {keyed_ram - ram} of RAM")
    assert keyed_flash - flash < 1536 and keyed_ram - ram < 100


@pytest.mark.parametrize(
    ("text", "message"),
    [("00" * 15, "15 bytes"), ("xy" * 16, "hexadecimal"), ("", "0 bytes"), ("é", "hexadecimal"),
     (None, "No such file")],
)  # fmt: skip
def test_bad_key_files(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "link.key"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(BuildFailed, match=message):
        read_key(path)


def test_key_of_a_project(tmp_path: Path) -> None:
    path = tmp_path / "link.key"
    path.write_text(KEY.hex() + "\n", encoding="utf-8")
    assert read_key(path) == KEY
    keyed_sources(tmp_path / "link", KEY)
    assert project_key(tmp_path) == KEY
    shutil.copy(RUNTIME / "link" / "ec_link_key.h", tmp_path / "link")
    assert project_key(tmp_path) is None
    assert project_key(tmp_path / "absent") is None


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "siphash24", None)
    with pytest.raises(ToolMissing, match="siphash24") as raised:
        SealedSession(KEY, bytes(8), bytes(8))
    assert "edgec[keyed]" in str(raised.value.hint)
