"""The runtime's memcpy, memmove, memset and memcmp, built for the host under other names."""

from __future__ import annotations

import ctypes
import random

import pytest

from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_library, library_name
from edgec.errors import ToolMissing
from edgec.resources import resource_dir
from edgec.targets.core import host_core

NAMES = ("memcpy", "memmove", "memset", "memcmp")
ROOM = 96


@pytest.fixture(scope="module", params=["gcc", "zig"])
def memory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    try:
        toolchain = find_toolchain(host_core(), request.param)
    except ToolMissing as error:
        pytest.skip(error.message)
    library = build_host_library(
        [resource_dir("runtime_c") / "ports" / "common" / "memory.c"],
        tmp_path_factory.mktemp("memory") / library_name("memory"),
        toolchain=toolchain,
        defines=[f"{name}=ec_{name}" for name in NAMES],
    )
    loaded = ctypes.CDLL(str(library))
    for name in NAMES:
        function = getattr(loaded, f"ec_{name}")
        middle = ctypes.c_int if name == "memset" else ctypes.c_void_p
        function.argtypes = [ctypes.c_void_p, middle, ctypes.c_size_t]
        function.restype = ctypes.c_int if name == "memcmp" else ctypes.c_void_p
    return loaded


@pytest.fixture
def noise() -> bytes:
    return random.Random(1).randbytes(ROOM)


LENGTHS = [*range(20), 31, 32, 33, 40]
OFFSETS = [(0, 0), (4, 8), (1, 1), (3, 1), (0, 2), (8, 4)]


@pytest.mark.parametrize(("to", "from_"), OFFSETS)
def test_memcpy(memory: ctypes.CDLL, noise: bytes, to: int, from_: int) -> None:
    source = ctypes.create_string_buffer(noise, ROOM)
    for length in LENGTHS:
        target = ctypes.create_string_buffer(b"\xee" * ROOM, ROOM)
        start = ctypes.addressof(target) + to
        assert memory.ec_memcpy(start, ctypes.addressof(source) + from_, length) == start
        expected = bytearray(b"\xee" * ROOM)
        expected[to : to + length] = noise[from_ : from_ + length]
        assert target.raw == bytes(expected)


@pytest.mark.parametrize("distance", [-17, -16, -8, -4, -3, -1, 0, 1, 3, 4, 8, 16, 17])
def test_memmove_overlapping(memory: ctypes.CDLL, noise: bytes, distance: int) -> None:
    for from_ in (20, 21):
        for length in LENGTHS:
            buffer = ctypes.create_string_buffer(noise, ROOM)
            base = ctypes.addressof(buffer)
            to = from_ + distance
            assert memory.ec_memmove(base + to, base + from_, length) == base + to
            expected = bytearray(noise)
            expected[to : to + length] = noise[from_ : from_ + length]
            assert buffer.raw == bytes(expected)


@pytest.mark.parametrize("value", [0, 0x5A, 0xFF, 0x1A5, -1])
def test_memset(memory: ctypes.CDLL, noise: bytes, value: int) -> None:
    for to in range(4):
        for length in LENGTHS:
            buffer = ctypes.create_string_buffer(noise, ROOM)
            start = ctypes.addressof(buffer) + to
            assert memory.ec_memset(start, value, length) == start
            expected = bytearray(noise)
            expected[to : to + length] = bytes([value & 0xFF]) * length
            assert buffer.raw == bytes(expected)


def test_memcmp(memory: ctypes.CDLL, noise: bytes) -> None:
    left = ctypes.create_string_buffer(noise, ROOM)
    for at in (0, 1, 7, 39):
        for change in (-1, 1):
            changed = bytearray(noise)
            changed[at] = (changed[at] + change) % 256
            right = ctypes.create_string_buffer(bytes(changed), ROOM)
            assert memory.ec_memcmp(left, right, at) == 0
            sign = memory.ec_memcmp(left, right, at + 1)
            assert (sign > 0) == (noise[at] > changed[at])
            assert sign != 0
