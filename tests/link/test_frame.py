"""Stuffing and frames: there and back, and in step again after anything."""

from __future__ import annotations

import itertools
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.link import cobs
from edgec.link.frame import VERSION_BYTE, Frame, FrameReader, unpack

# The examples of the paper and of its readers: 254 bytes are where it is easy to be wrong.
STUFFED = [
    (b"", b"\x01"),
    (b"\0", b"\x01\x01"),
    (b"\0\0", b"\x01\x01\x01"),
    (b"\x11\x22\0\x33", b"\x03\x11\x22\x02\x33"),
    (b"\x11\0\0\0", b"\x02\x11\x01\x01\x01"),
    (bytes(range(1, 255)), b"\xff" + bytes(range(1, 255))),
    (bytes(range(255)), b"\x01\xff" + bytes(range(1, 255))),
    (bytes(range(1, 256)), b"\xff" + bytes(range(1, 255)) + b"\x02\xff"),
    (bytes(range(1, 255)) + b"\0", b"\xff" + bytes(range(1, 255)) + b"\x01\x01"),
]


@pytest.mark.parametrize(("data", "stuffed"), STUFFED)
def test_stuffing_known_values(data: bytes, stuffed: bytes) -> None:
    assert cobs.encode(data) == stuffed
    assert cobs.decode(stuffed) == data


# Few values, so that zeros and long runs without any both occur.
BYTES = st.one_of(
    st.binary(max_size=600), st.lists(st.sampled_from([0, 1, 255]), max_size=600).map(bytes)
)


@given(BYTES)
def test_stuffing_there_and_back(data: bytes) -> None:
    stuffed = cobs.encode(data)
    assert 0 not in stuffed
    assert len(stuffed) <= len(data) + 1 + len(data) // 254
    assert cobs.decode(stuffed) == data


@given(BYTES)
def test_decoding_anything_does_not_fail(data: bytes) -> None:
    cobs.decode(data)
    unpack(data)


@given(st.integers(0, 255), st.integers(0, 65535), BYTES, st.lists(st.integers(0, 2000)))
def test_frames_there_and_back_in_any_pieces(
    type_: int, sequence: int, data: bytes, cuts: list[int]
) -> None:
    frame = Frame(type_, sequence, data)
    stream = frame.pack() + frame.pack()
    reader = FrameReader()
    found: list[Frame | None] = []
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for start, stop in itertools.pairwise(edges):
        found += reader.feed(stream[start:stop])
    assert found == [frame, frame]
    assert reader.damaged == 0


@given(BYTES, st.integers(0, 10**6))
def test_one_bad_byte_is_seen(data: bytes, where: int) -> None:
    packed = bytearray(Frame(4, 5, data).pack())
    position = 1 + where % (len(packed) - 2)
    packed[position] ^= 1 + where % 255
    assert all(frame is None for frame in FrameReader().feed(bytes(packed)))


def test_in_step_again_after_noise() -> None:
    noise = random.Random(1)
    frame = Frame(3, 9, b"hello")
    for _ in range(200):
        reader = FrameReader()
        junk = noise.randbytes(noise.randrange(300))
        assert reader.feed(junk + frame.pack())[-1] == frame
        # Cut short: lost, and the next one is whole.
        cut = frame.pack()[: noise.randrange(1, 10)]
        assert reader.feed(cut + frame.pack())[-1] == frame


def test_endless_frame_is_dropped() -> None:
    reader = FrameReader()
    for _ in range(100):
        assert reader.feed(b"\x55" * 1000) == []
    assert len(reader._part) <= 8192
    assert reader.feed(Frame(1, 1).pack()) == [None, Frame(1, 1)]


@pytest.mark.parametrize("length", [0, 2, 4, 0xFFFF])
def test_a_length_that_is_not_the_data_is_damage(length: int) -> None:
    """The CRC alone would accept it."""
    body = struct.pack("<BBHH", VERSION_BYTE, 5, 7, length) + b"abc"
    body += struct.pack("<I", zlib.crc32(body))
    assert unpack(cobs.encode(body)) is None
    whole = struct.pack("<BBHH", VERSION_BYTE, 5, 7, 3) + b"abc"
    whole += struct.pack("<I", zlib.crc32(whole))
    assert unpack(cobs.encode(whole)) == Frame(5, 7, b"abc")
