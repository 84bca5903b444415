"""The host's end against the C side: good lines, bad lines, and what is wrong told apart."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from link_devices import (
    LARGE_BYTES,
    MODEL_HASH,
    SMALL_BYTES,
    BadLine,
    Clock,
    MemoryDevice,
    PacedLine,
    ScriptedTransport,
)

from edgec.errors import RunFailed
from edgec.link import client as client_module
from edgec.link import commands, errors
from edgec.link import exchange as exchange_module
from edgec.link.client import LinkClient
from edgec.link.commands import Kind, Stopped, Stops
from edgec.link.frame import Frame, FrameReader
from edgec.link.trace_limits import TraceLimits

Connect = Callable[..., LinkClient]


def run_and_check(client: LinkClient, seed: int, runs: int) -> None:
    random = np.random.default_rng(seed)
    large = random.integers(0, 256, LARGE_BYTES, dtype=np.uint8)
    small = random.integers(0, 255, SMALL_BYTES, dtype=np.uint8)
    client.write_input(0, large.tobytes())
    client.write_input(1, small.tobytes())
    done = client.run()
    assert (done.status, done.runs, done.fewest) == (0, 1, 1000)
    found = np.frombuffer(client.read(Kind.OUTPUT, 0, LARGE_BYTES), np.uint8)
    assert np.array_equal(found, 3 * large + np.resize(small, LARGE_BYTES))
    # The model counts its runs: a repeated request must not run it again.
    assert int.from_bytes(client.read(Kind.OUTPUT, 1, 4), "little") == runs


def test_run_on_a_good_line(connect: Connect) -> None:
    client = connect()
    identity = client.hello()
    assert (identity.inputs, identity.outputs, identity.chunk) == (2, 2, 256)
    client.expect_model(identity, "fake", MODEL_HASH, "test")
    assert client.selftest() == 0
    for number in range(3):
        run_and_check(client, number, number + 1)
    assert client.run(5).runs == 5
    assert client.selftest() == -5
    assert client.reset() == 0
    run_and_check(client, 9, 1)
    assert client.tensor_bytes(Kind.INPUT, 1) == SMALL_BYTES
    assert client.echo(bytes(200)) == bytes(200)
    assert client.stack().used_bytes == 345
    assert client.counts.repeated == client.counts.damaged == 0


@pytest.mark.parametrize("seed", range(4))
def test_one_percent_of_bad_bytes(connect: Connect, seed: int) -> None:
    client = connect(0.01, seed)
    client.hello()
    client.reset()
    for number in range(5):
        run_and_check(client, number, number + 1)
    assert client.counts.repeated > 100


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_late_answers(device: MemoryDevice, monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Answers that come long after they were given up, beside damaged ones, in simulated time."""
    clock = Clock()
    monkeypatch.setattr(exchange_module, "time", clock)
    monkeypatch.setattr(client_module, "time", clock)
    draw = random.Random(5)
    random.seed(5)  # of the client's first sequence number, which decides what bytes go wrong
    # One in five is late by more than a request is waited for at first.
    line = PacedLine(device, clock, lambda: draw.choice([0.0, 0.01, 0.02, 0.05, 1.5]))
    client = LinkClient(BadLine(line, share, 9))
    client.hello(60.0)
    client.reset()
    for number in range(3):
        run_and_check(client, number, number + 1)
    assert client.counts.strange > 10  # answers to what had been asked again
    assert client.counts.repeated > 10


def test_progress_reaches_the_end_once(connect: Connect) -> None:
    client = connect(0.005)
    client.hello()
    seen: list[tuple[int, int]] = []
    client.write_input(0, bytes(LARGE_BYTES), lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and seen[-1] == (LARGE_BYTES, LARGE_BYTES)
    seen.clear()
    client.read(Kind.INPUT, 0, LARGE_BYTES, lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and seen[-1] == (LARGE_BYTES, LARGE_BYTES)


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_traced_run_shows_every_event(connect: Connect, share: float) -> None:
    client = connect(share)
    client.hello()
    client.reset()
    client.write_input(0, bytes(i % 251 for i in range(LARGE_BYTES)))
    client.write_input(1, bytes(SMALL_BYTES))
    events: list[tuple[Stopped, bytes]] = []
    done = client.traced_run(lambda stop, data: events.append((stop, data)))
    assert [(stop.id, stop.row, stop.data_bytes) for stop, _ in events] == [
        (0, 0, 0),
        (2, 0, 3000),
        (2, 1, 2000),
        (1, 0, 0),
        (3, 0, 4),
    ]
    # The time spent in stops is not the model's.
    assert [stop.ticks for stop, _ in events] == [250, 250, 250, 1000, 1000]
    assert done.fewest == 1000
    value = b"".join(data for stop, data in events if stop.id == 2)
    assert value == bytes(3 * (i % 251) % 256 for i in range(LARGE_BYTES))
    assert events[-1][1] == b"\1\0\0\0"


@pytest.mark.parametrize(
    ("bytes_of", "events", "message"),
    [
        ({2: 5000, 3: 4}, 5, None),
        ({2: 4999, 3: 4}, 5, "5,000 bytes of the trace id 2, the project says 4,999"),
        ({2: 5000}, 5, "4 bytes of the trace id 3, the project says 0"),
        ({2: 5000, 3: 4}, 4, "more than the 4 trace events"),
    ],
)
def test_sizes_are_checked_before_memory_is_taken(
    connect: Connect, bytes_of: dict[int, int], events: int, message: str | None
) -> None:
    client = connect()
    client.hello()
    seen: list[tuple[int, int]] = []

    def run() -> None:
        client.traced_run(
            lambda stop, data: seen.append((stop.id, len(data))),
            limits=TraceLimits(bytes_of, events),
        )

    if message is None:
        run()
        assert len(seen) == events
        return
    with pytest.raises(errors.WrongSize, match=message):
        run()
    assert all(sum(n for i, n in seen if i == id_) <= bytes_of.get(id_, 0) for id_, _ in seen)


def test_a_device_that_claims_gigabytes_is_an_error(connect: Connect, monkeypatch) -> None:
    client = connect()
    client.hello()
    unpack = commands.unpack_state

    def claim(data: bytes) -> object:
        state = unpack(data)
        return replace(state, data_bytes=0xFFFFFFFF) if isinstance(state, Stopped) else state

    monkeypatch.setattr("edgec.link.client.unpack_state", claim)
    with pytest.raises(errors.WrongSize, match="4,294,967,295 bytes"):
        client.traced_run(lambda stop, data: None, limits=TraceLimits({2: 5000, 3: 4}, 5))


def test_stops_are_chosen_by_kind_and_id(connect: Connect) -> None:
    client = connect()
    client.hello()
    seen: list[int] = []
    client.traced_run(lambda stop, _: seen.append(stop.id), stops=Stops.STEPS)
    assert seen == [0, 1]
    seen.clear()
    client.traced_run(
        lambda stop, _: seen.append(stop.id), stops=Stops.VALUES, first_id=3, last_id=3
    )
    assert seen == [3]


def test_hello_ends_a_run_left_standing(connect: Connect) -> None:
    client = connect(0.01, 7)
    client.hello()
    client.reset()

    def give_up(stop: Stopped, data: bytes) -> None:
        with pytest.raises(errors.Refused, match="is paused"):
            client.run()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.traced_run(give_up)
    client.hello()
    assert client.run().runs == 1
    assert int.from_bytes(client.read(Kind.OUTPUT, 1, 4), "little") == 2


def test_untraced_program_refuses_stops(connect: Connect) -> None:
    client = connect(traced=False)
    assert not client.hello().has_trace
    with pytest.raises(errors.Refused, match="built without it"):
        client.traced_run(lambda stop, data: None)


def test_refusals_are_named(connect: Connect) -> None:
    client = connect()
    client.hello()
    with pytest.raises(errors.Refused, match=r"'write'.*exceeds the tensor"):
        client.write_input(1, bytes(6))
    with pytest.raises(errors.Refused, match="no such input") as caught:
        client.read(Kind.OUTPUT, 7, 1)
    assert caught.value.code == 3
    client.write_input(1, b"\xff")
    assert client.run(4).status == -1
    assert client.run(4).runs == 1  # stops at the first failure


def test_wrong_model_is_named(connect: Connect) -> None:
    client = connect()
    identity = client.hello()
    with pytest.raises(errors.WrongModel, match="the model 'fake', not 'kws'"):
        client.expect_model(identity, "kws", MODEL_HASH, "test")
    with pytest.raises(errors.WrongModel, match="the board 'test', not 'stm32'"):
        client.expect_model(identity, "fake", MODEL_HASH, "stm32")
    with pytest.raises(errors.WrongModel, match="another build"):
        client.expect_model(identity, "fake", 1, "test")


def hear(answer: Callable[[bytes], bytes]) -> LinkClient:
    return LinkClient(ScriptedTransport(answer))


def random_bytes(data: bytes) -> bytes:
    return np.random.default_rng(5).bytes(40).replace(b"\0", b"\x80")


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (lambda data: b"", errors.SilentDevice, "nothing arrives"),
        (lambda data: b"Booting Zephyr\r\n", errors.ForeignFirmware, "Booting Zephyr"),
        (lambda data: b"uart:~$ " * (data[:2] == b"\r\n"), errors.ForeignFirmware, "uart:~$"),
        (lambda data: b"m-ready\r\n" * (b"%" in data), errors.ForeignFirmware, "MLPerf Tiny"),
        (random_bytes, errors.WrongBaudRate, "wrong baud rate"),
        (lambda data: data, errors.LoopedBack, "echoes the host"),
        (lambda data: Frame(0x81, 1, version=0xE2).pack(), errors.WrongVersion, "version 2"),
    ],
)
def test_what_is_wrong_is_told_apart(
    answer: Callable[[bytes], bytes], kind: type[errors.LinkError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        hear(answer).hello(patience_s=0.3)
    assert words in caught.value.render()
    assert caught.value.hint
    assert type(caught.value) is kind


def test_device_that_falls_silent(device: MemoryDevice) -> None:
    alive = True

    def answer(data: bytes) -> bytes:
        return device.feed(data) if alive else b""

    client = LinkClient(ScriptedTransport(answer), patience_s=0.3)
    client.hello()
    alive = False
    with pytest.raises(errors.LinkLost, match="has not answered"):
        client.echo(b"a")
    with pytest.raises(RunFailed, match="did not finish"):
        client.run(timeout_s=0.3)


def test_damaged_report_is_answered_by_a_repetition(device: MemoryDevice) -> None:
    """One damaged request costs no timeout: the device says so at once."""
    sent = []

    def answer(data: bytes) -> bytes:
        sent.append(data)
        spoilt = data[:5] + bytes([data[5] ^ 1]) + data[6:]
        return device.feed(spoilt if len(sent) == 2 else data)

    client = LinkClient(ScriptedTransport(answer))
    client.hello()
    assert client.echo(b"abc") == b"abc"
    assert client.counts.reported == client.counts.repeated == 1
    assert sent[1] == sent[2]


def test_restart(device: MemoryDevice) -> None:
    before = device.restarts
    client = LinkClient(ScriptedTransport(device.feed))
    client.hello()
    client.restart()
    assert device.restarts == before + 1


def test_command_zero_is_unknown_before_anything_was_done(device: MemoryDevice) -> None:
    """No answer is kept yet that a number could ask for again."""
    device.feed(Frame(1, 7).pack())
    (answer,) = FrameReader().feed(device.feed(Frame(0, 0).pack()))
    assert answer is not None and answer.data == b"\1"


def test_senseless_answers_are_named() -> None:
    def answer(data: bytes) -> bytes:
        replies = b""
        for frame in FrameReader().feed(data):
            assert frame is not None
            replies += Frame(frame.type | 0x80, frame.sequence, b"\0\1\2").pack()
        return replies

    client = hear(answer)
    with pytest.raises(errors.BadAnswer, match="makes no sense"):
        client.hello()
    with pytest.raises(errors.BadAnswer):
        client.run()
    with pytest.raises(errors.BadAnswer):
        client.read(Kind.OUTPUT, 0, 10)
    with pytest.raises(errors.BadAnswer):
        client.stack()
