"""What a port says, as lines."""

from __future__ import annotations

import random

import pytest

from edgec.link.frame import Frame
from edgec.link.monitor import Monitor


def test_text_comes_by_lines() -> None:
    monitor = Monitor()
    assert monitor.feed(b"Boot") == []
    assert monitor.feed(b"ing\r\n\r\nta\tb\xc3\xa4\nrest") == ["Booting", "ta\tb\u00e4"]
    assert monitor.flush() == ["rest"]
    assert monitor.flush() == []


def test_frames_are_named() -> None:
    frames = Frame(0x01, 7).pack() + Frame(0x86, 7, b"\n" * 300).pack() + Frame(0xFF, 0).pack()
    expected = ["[link: request hello, 0 bytes]", "[link: answer to run, 300 bytes]",
                "[link: the device received a damaged frame]"]  # fmt: skip
    assert Monitor().feed(b"hi\n" + frames + b"bye\n") == ["hi", *expected, "bye"]
    # However the bytes are cut.
    chance = random.Random(2)
    stream, lines, monitor = b"hi\n" + frames + b"bye\n", [], Monitor()
    while stream:
        count = chance.randrange(1, 9)
        lines += monitor.feed(stream[:count])
        stream = stream[count:]
    assert lines == ["hi", *expected, "bye"]


def test_other_bytes_are_readable() -> None:
    monitor = Monitor()
    assert monitor.feed(b"\x80\x01\xff") == []
    assert monitor.flush() == ["\\x80\\x01\\xff"]


@pytest.mark.parametrize(
    ("number", "name"),
    [
        ("fault 00000003", "HardFault"),
        ("fault 0000000c", "exception 12"),
        ("trap 00000002", "trap (illegal instruction)"),
        ("trap 0000000b", "trap (call of the system)"),
        ("trap 0000000c", "exception 12"),
        ("abort 00000004", "abort (access to no memory)"),
        ("exception 0000001d", "exception (store to no memory)"),
    ],
)
def test_faults_are_explained(number: str, name: str) -> None:
    def locate(address: int) -> str:
        return "kws_run + 12" if address == 0x1234 else ""

    line = f"{number} pc 00001234 lr 00000099"
    assert Monitor(locate).feed(line.encode() + b"\r\n") == [
        line,
        f"[the program stopped by a {name}]",
        "[pc 0x00001234 is in kws_run + 12]",
        "[lr 0x00000099]",
    ]
    assert Monitor().feed(b"fault 00000003 stack overflow, sp 1ffffff0\r\n")[1:] == [
        "[the program stopped by a HardFault]",
        "[the stack overflowed its memory: sp 0x1ffffff0]",
    ]


def test_a_line_without_an_end_is_shown_in_pieces() -> None:
    """A device at a wrong rate may never send a line end: what is kept of it is bounded."""
    monitor, lines = Monitor(), []
    for _ in range(100):
        lines += monitor.feed(b"x" * 1000)
        assert len(monitor._part) <= 9000
    assert "".join([*lines, *monitor.flush()]) == "x" * 100_000
    lines = []
    for _ in range(100):  # what looks like the start of a frame, too
        lines += monitor.feed(b"\0\x09\xe1" + b"\x81" * 997)
        assert len(monitor._part) <= 9000
    for _ in range(30):
        lines += monitor.feed(b"\x81" * 1000)
    assert len(monitor._part) <= 9000
