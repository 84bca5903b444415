"""Requests and their answers over a stream that loses, changes and delays bytes.

1. A request is repeated until its answer arrives. It counts as lost when its time has run out, when
   the device or this end reports damage, or when a later one is answered, since a device answers in
   order.
2. A repeated command keeps its sequence number, so that it acts once. A chunk of a transfer gets a
   new number and a new size: chunks shrink while frames are lost and grow while they are not.
3. Only silence gives up: nothing from the device for `patience_s` seconds, however often asked; or
   a minute of reports of damage and late answers without an answer that counts.
4. After `prove`, requests carry seals, and an answer without its seal is ignored.
"""

from __future__ import annotations

import random
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from edgec.link.commands import Code, Command
from edgec.link.errors import BadAnswer, DeviceFault, LinkLost, NotProven, Refused, WrongVersion
from edgec.link.fault import FAULT_BYTES, find_fault
from edgec.link.frame import ANSWER, DAMAGED_TYPE, VERSION, VERSION_BYTE, Frame, FrameReader
from edgec.link.seal import NONCE_BYTES, SealedSession
from edgec.link.transport import Transport

# Delimiters, stuffing, header and crc of a frame, and the code of an answer.
_FRAME_BYTES = 14
_LEAST_CHUNK = 16
# Frames of a loss rate of one in two carry most (see docs/serial_protocol.md on chunks), so a
# loss and an answer change the size by the same factor.
_CHUNK_STEP = 1.4
_MOST_WINDOW = 4.0
_LEAST_WAIT_S = 0.015
_MOST_WAIT_S = 2.0
_HEARD_BYTES = 200
_MOST_GIVEN_UP = 256
_MOST_TROUBLE_S = 60.0

_MEANINGS: dict[int, str] = {
    Code.UNKNOWN: "it does not know this command",
    Code.LENGTH: "the request has a wrong length",
    Code.INDEX: "the model has no such input or output",
    Code.RANGE: "the data exceeds the tensor, or the tensor does not exist",
    Code.STOPPED: "a traced run is paused",
    Code.NOT_STOPPED: "no traced run is paused at this event",
    Code.UNSUPPORTED: "its program was built without it",
    Code.VERSION: "it speaks another version of the protocol",
    Code.LOCKED: "it has a key; the request has no valid seal, or was sent before",
}
_UNSEALED = (Command.HELLO, Command.CHALLENGE)


@dataclass
class Counts:
    """Frames on a link so far; `damaged` and `reported` were damaged on arrival here and there,
    `strange` answer no open request, such as second answers.
    """

    sent: int = 0
    repeated: int = 0
    answered: int = 0
    damaged: int = 0
    reported: int = 0
    strange: int = 0


@dataclass
class _Pending:
    command: Command
    number: int
    packed: bytes
    start: int
    length: int
    sent_at: float
    expires: float
    answer_bytes: int
    tries: int = 1


class Exchange:
    """One conversation over a transport. Not for several threads at once."""

    def __init__(self, transport: Transport, *, patience_s: float = 8.0) -> None:
        self.transport = transport
        self.patience_s = patience_s
        self.counts = Counts()
        self.heard = b""
        self._latest = b""
        self.looped_back = False
        self.limit_chunk(64)
        self._reader = FrameReader()
        # A frame has its lower 16 bits; seals are of all 32.
        self._number = random.randrange(0x10000)
        self._session: SealedSession | None = None
        self._pending: dict[int, _Pending] = {}
        # When the latest chunks were sent that were taken for lost, by their numbers.
        self._given_up: dict[int, float] = {}
        self._round_trip_s = 0.1
        self._deviation_s = 0.05
        self._window = _MOST_WINDOW
        # When the device last showed that it is there, though nothing was answered.
        self._alive = 0.0

    def limit_chunk(self, most: int) -> None:
        """Take `most` as the largest chunk of a transfer."""
        self._most_chunk = most
        self._chunk = float(most)

    def ask(
        self,
        command: Command,
        data: bytes = b"",
        *,
        answer_bytes: int = 0,
        patience_s: float | None = None,
        expect_s: float = 0.0,
    ) -> bytes:
        """Return the data of the answer, without its code.

        `answer_bytes` is about how long the answer is, `expect_s` how long the device works on
        it. Raises Refused for a code other than 0, LinkLost when no answer comes.
        """
        result = b""

        def make(start: int, length: int) -> tuple[bytes, int]:
            return data, answer_bytes

        def take(start: int, answer: bytes) -> None:
            nonlocal result
            result = answer

        self._converse(command, 0, make, take, patience_s, expect_s)
        return result

    def prove(self, key: bytes) -> None:
        """Begin a session that only holders of the 16 bytes `key` take part in.

        Raises NotProven when the device does not hold it.
        """
        self._session = None
        self._number &= 0xFFFF
        nonce = secrets.token_bytes(NONCE_BYTES)
        answer = self.ask(Command.CHALLENGE, nonce, answer_bytes=2 * NONCE_BYTES)
        if len(answer) != 2 * NONCE_BYTES:
            raise BadAnswer(Command.CHALLENGE, answer)
        session = SealedSession(key, nonce, answer[:NONCE_BYTES])
        if not secrets.compare_digest(session.proof, answer[NONCE_BYTES:]):
            raise NotProven(
                f"the device at {self.transport.name} does not hold the project's key",
                hint="flash the project that edgec built; or somebody answers in its place",
            )
        self._session = session

    def forget_session(self) -> None:
        """The device has restarted, or will: it knows no session then."""
        self._session = None
        self._number &= 0xFFFF

    def transfer(
        self,
        command: Command,
        total: int,
        make: Callable[[int, int], tuple[bytes, int]],
        take: Callable[[int, bytes], None],
    ) -> None:
        """Do `total` bytes of a tensor in chunks, in any order.

        `make(start, length)` returns the data of the request for a chunk and the number of bytes of
        its answer; `take(start, answer)` is called once for each chunk.
        """
        if total:
            self._converse(command, total, make, take, None, 0.0)

    def _converse(
        self,
        command: Command,
        total: int,
        make: Callable[[int, int], tuple[bytes, int]],
        take: Callable[[int, bytes], None],
        patience_s: float | None,
        expect_s: float,
    ) -> None:
        """Send requests until all of `total` is answered; a total of 0 is one whole request."""
        patience = self.patience_s if patience_s is None else patience_s
        work: deque[tuple[int, int]] = deque([(0, total)])
        self._pending.clear()
        progress = time.monotonic()
        self._alive = progress
        while work or self._pending:
            while work and len(self._pending) < int(self._window):
                start, rest = work.popleft()
                length = min(rest, int(self._chunk))
                if length < rest:
                    work.appendleft((start + length, rest - length))
                self._send(command, *make(start, length), start, length, expect_s)
            soonest = min(pending.expires for pending in self._pending.values())
            data = self.transport.read(max(0.0, min(soonest - time.monotonic(), 0.5)))
            for frame in self._receive(data):
                answered = self._pending.pop(frame.sequence)
                self._measure(answered)
                progress = time.monotonic()
                take(answered.start, self._check_code(answered.command, frame.data))
            now = time.monotonic()
            for sequence, pending in list(self._pending.items()):
                if pending.expires <= now:
                    self._lose(sequence, pending, work, expect_s)
            if now - max(progress, self._alive) > patience or now - progress > max(
                patience, _MOST_TROUBLE_S
            ):
                raise LinkLost(
                    f"{self.transport.name} has not answered for {now - progress:.0f} s",
                    details=(f"the last request was {command.name.lower()}", str(self.counts)),
                    hint="is the board still connected, has its program crashed?",
                )

    def _send(
        self,
        command: Command,
        data: bytes,
        answer_bytes: int,
        start: int,
        length: int,
        expect_s: float,
    ) -> None:
        number = self._number = (self._number + 1) & 0xFFFFFFFF
        if self._session is not None and command not in _UNSEALED:
            data = self._session.seal(command, number, data)
        packed = Frame(command, number & 0xFFFF, data).pack()
        now = time.monotonic()
        expected = answer_bytes + _FRAME_BYTES
        pending = _Pending(command, number, packed, start, length, now, 0.0, expected)
        self._pending[number & 0xFFFF] = pending
        pending.expires = now + self._wait(pending, expect_s)
        self.counts.sent += 1
        self.transport.write(packed)

    def _wait(self, pending: _Pending, expect_s: float) -> float:
        """Return how long to wait for an answer, longer with every try."""
        wait = self._round_trip_s + 4 * self._deviation_s
        if self.transport.baud is not None:
            waiting = sum(len(p.packed) + p.answer_bytes for p in self._pending.values())
            wait += 10.0 * waiting / self.transport.baud
        wait = max(wait, _LEAST_WAIT_S) + 1.25 * expect_s
        return min(wait * 1.5 ** min(pending.tries - 1, 64), max(_MOST_WAIT_S, 2 * wait))

    def _measure(self, answered: _Pending) -> None:
        """Learn from an answer: how long the way is, and that frames of this size arrive."""
        self.counts.answered += 1
        if answered.tries == 1:
            self._measure_way(answered.sent_at)
        if answered.length >= int(self._chunk):
            self._chunk = min(self._chunk * _CHUNK_STEP, float(self._most_chunk))
        self._window = min(self._window + 0.25, _MOST_WINDOW)

    def _measure_way(self, sent_at: float) -> None:
        """Learn how long a request and its answer take, by the smoothing of TCP (RFC 6298)."""
        taken = time.monotonic() - sent_at
        self._deviation_s += (abs(taken - self._round_trip_s) - self._deviation_s) / 4
        self._round_trip_s += (taken - self._round_trip_s) / 8

    def _lose(
        self, sequence: int, pending: _Pending, work: deque[tuple[int, int]], expect_s: float
    ) -> None:
        """Repeat requests that were not answered in time."""
        self.counts.repeated += 1
        self._window = max(self._window / 2, 1.0)
        if pending.length:
            del self._pending[sequence]
            self._given_up[sequence] = pending.sent_at
            if len(self._given_up) > _MOST_GIVEN_UP:
                del self._given_up[next(iter(self._given_up))]
            work.appendleft((pending.start, pending.length))
            if pending.length >= int(self._chunk) / 2:
                self._chunk = max(self._chunk / _CHUNK_STEP, float(_LEAST_CHUNK))
            # A slow answer must not repeatedly count as lost.
            self._deviation_s = min(self._deviation_s * 1.25, _MOST_WAIT_S / 4)
            return
        pending.tries += 1
        pending.expires = time.monotonic() + self._wait(pending, expect_s)
        self.transport.write(pending.packed)

    def _receive(self, data: bytes) -> list[Frame]:
        """Return the answers to pending requests; see to everything else that arrived."""
        if len(self.heard) < _HEARD_BYTES:
            self.heard += data[: _HEARD_BYTES - len(self.heard)]
        self._latest = self._latest[-FAULT_BYTES:] + data
        fault = find_fault(self._latest.decode("ascii", "replace"))
        if fault is not None:
            self._latest = b""
            raise DeviceFault(self.transport.name, fault)
        answers: list[Frame] = []
        for frame in self._reader.feed(data):
            if frame is None:
                self.counts.damaged += 1
                self._hurry()
            elif frame.version != VERSION_BYTE:
                raise WrongVersion(
                    f"{self.transport.name} speaks version {frame.version - 0xE0} of the link's "
                    f"protocol, this edgec speaks {VERSION}",
                    hint="build the project again with this edgec and flash it",
                )
            elif frame.type == DAMAGED_TYPE:
                self.counts.reported += 1
                self._alive = time.monotonic()
                self._hurry()
            elif (answer := self._answer(frame)) is not None:
                frame = answer
                if all(frame.sequence != other.sequence for other in answers):
                    answers.append(frame)
                for sequence, pending in self._pending.items():
                    if sequence == frame.sequence:
                        break
                    pending.expires = 0.0
            else:
                self.counts.strange += 1
                sent_at = self._given_up.pop(frame.sequence, None)
                if sent_at is not None and frame.type & ANSWER:
                    self._alive = time.monotonic()
                    self._measure_way(sent_at)  # it was not lost, only late
                self.looped_back |= not frame.type & ANSWER
        return answers

    def _answer(self, frame: Frame) -> Frame | None:
        """The frame without its seal, if it answers a pending request. Raises NotProven."""
        pending = self._pending.get(frame.sequence)
        if pending is None or frame.type != pending.command | ANSWER:
            return None
        if self._session is None or pending.command in _UNSEALED:
            return frame
        data = self._session.unseal(frame.type, pending.number, frame.data)
        if data is None and frame.data == bytes([Code.LOCKED]):
            raise NotProven(
                f"the device at {self.transport.name} no longer knows this session",
                hint="it has restarted, or another host has begun a session: start again",
            )
        return None if data is None else replace(frame, data=data)

    def _hurry(self) -> None:
        """Let the oldest request run out of time."""
        for pending in self._pending.values():
            pending.expires = 0.0
            return

    def _check_code(self, command: Command, data: bytes) -> bytes:
        code = data[0] if data else int(Code.LENGTH)
        if code != Code.OK:
            raise Refused(command.name.lower(), code, _MEANINGS.get(code, "unknown reason"))
        return data[1:]
