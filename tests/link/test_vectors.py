"""Both ends read and write the bytes of vectors.json, which other code made."""

from __future__ import annotations

import json
from pathlib import Path

import make_vectors
import pytest
from link_devices import MODEL_HASH, MemoryDevice

from edgec.link.commands import Command, Done, unpack_identity, unpack_state
from edgec.link.frame import Frame, FrameReader

STEPS = json.loads((Path(__file__).parent / "vectors.json").read_text())["steps"]


def stream(key: str) -> list[tuple[str, bytes]]:
    return [(step["what"], bytes.fromhex(step[key])) for step in STEPS]


def test_file_is_current() -> None:
    made = [(what, sent.hex(), answer.hex()) for what, sent, answer in make_vectors.STEPS]
    assert made == [(step["what"], step["sent"], step["answer"]) for step in STEPS]


def test_device_answers_every_vector(device: MemoryDevice) -> None:
    for step in STEPS:
        answer = device.feed(bytes.fromhex(step["sent"]))
        assert answer.hex() == step["answer"], step["what"]


def test_device_answers_byte_by_byte(device: MemoryDevice) -> None:
    for step in STEPS:
        sent = bytes.fromhex(step["sent"])
        answer = b"".join(device.feed(sent[i : i + 1]) for i in range(len(sent)))
        assert answer.hex() == step["answer"], step["what"]


@pytest.mark.parametrize("key", ["sent", "answer"])
def test_host_reads_and_packs_every_vector(key: str) -> None:
    seen = 0
    for what, data in stream(key):
        for frame in FrameReader().feed(data):
            seen += 1
            if frame is not None:
                assert frame.pack() in data, what
            else:
                assert what in ("noise", "wrong crc", "cut short", "longer than any frame")
    assert seen == 29  # two in the last, none in the empty one


def answer_to(what: str) -> Frame:
    (data,) = [data for name, data in stream("answer") if name == what]
    (frame,) = FrameReader().feed(data)
    assert frame is not None
    return frame


def test_host_understands_the_answers() -> None:
    identity = unpack_identity(answer_to("hello").data[1:])
    assert (identity.model, identity.board, identity.edgec_version) == ("fake", "test", "0.1.0")
    assert (identity.model_hash, identity.chunk, identity.has_trace) == (MODEL_HASH, 256, True)
    frame = answer_to("run")
    assert frame.type == Command.RUN | 0x80
    assert unpack_state(frame.data[1:]) == Done(0, 1, 1, 1000, 1000, 1000)
