"""The host's end of a link: one method for each thing a device can be asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from edgec.errors import RunFailed
from edgec.link.commands import (
    LAST_ID,
    Command,
    Done,
    Identity,
    Kind,
    Stack,
    Stopped,
    Stops,
    pack_continue,
    pack_port,
    pack_read,
    pack_run,
    pack_write,
    unpack_identity,
    unpack_size,
    unpack_stack,
    unpack_state,
    unpack_status,
)
from edgec.link.errors import BadAnswer, LinkLost, NotProven, WrongModel, explain_silence
from edgec.link.exchange import Counts, Exchange
from edgec.link.trace_limits import TraceLimits
from edgec.link.transport import Transport, TransportOwner

Progress = Callable[[int, int], None]
"""Called with the bytes done and all bytes of a transfer."""

# Approximate size of the answers: hello with its texts, and a run state.
_HELLO_BYTES = 80
_STATE_BYTES = 40

# An empty line for shells, an empty command for programs of MLPerf Tiny.
_LINE = b"\r\n%"
_LINE_ANSWER_S = 1.0
_MOST_HEARD = 200


class LinkClient(TransportOwner):
    """Asks a device.

    Every method raises LinkLost when no answer comes, Refused when the device says no, and
    PortUnavailable when the port has gone; `counts` says how rough the line was.
    """

    def __init__(self, transport: Transport, *, patience_s: float = 8.0) -> None:
        super().__init__(transport)
        self._exchange = Exchange(transport, patience_s=patience_s)

    @property
    def counts(self) -> Counts:
        return self._exchange.counts

    def hello(self, patience_s: float = 4.0) -> Identity:
        """Find out who is there; also ends a traced run that another host left.

        Raises SilentDevice, LoopedBack, ForeignFirmware, WrongBaudRate or WrongVersion, by the
        bytes received instead of an answer.
        """
        exchange = self._exchange
        exchange.heard, exchange.looped_back = b"", False
        try:
            data = exchange.ask(Command.HELLO, answer_bytes=_HELLO_BYTES, patience_s=patience_s)
        except LinkLost as lost:
            exchange.heard = exchange.heard or self._coax()
            raise explain_silence(
                exchange.heard, exchange.looped_back, self._transport.name, patience_s
            ) from lost
        identity = unpack_identity(data)
        exchange.limit_chunk(identity.chunk)
        return identity

    def _coax(self) -> bytes:
        """The text of a program that answers only in lines of text; b"" for none."""
        self._transport.write(_LINE)
        heard = self._transport.read(_LINE_ANSWER_S)
        more = heard
        while more and len(heard) < _MOST_HEARD:
            more = self._transport.read(_LINE_ANSWER_S / 10)
            heard += more
        return heard[:_MOST_HEARD]

    def expect_model(self, identity: Identity, model: str, model_hash: int, board: str) -> None:
        """Raise WrongModel unless the device holds this build of this model for this board."""
        wanted = (("model", identity.model, model[:40]), ("board", identity.board, board[:40]))
        for what, found, expected in wanted:
            if found != expected:
                raise WrongModel(
                    f"the device at {self._transport.name} holds a program for the {what} "
                    f"'{found}', not '{expected}'",
                    hint="flash the project that edgec built, or choose another port",
                )
        if identity.model_hash != model_hash:
            raise WrongModel(
                f"the device at {self._transport.name} holds another build of '{model}'",
                details=(
                    f"on the device {identity.model_hash:08x} (edgec {identity.edgec_version}), "
                    f"in the project {model_hash:08x}",
                ),
                hint="flash the project that edgec built",
            )

    def prove(self, identity: Identity, key: bytes | None) -> None:
        """Begin a session with the project's key, if it has one.

        Raises NotProven when one end has a key and the other has not, or another.
        """
        name = self._transport.name
        if key is None and identity.has_key:
            raise NotProven(
                f"the device at {name} answers only to projects with its key, and this project has"
                " no key",
                hint="build the project with --link-key and the key that the device has",
            )
        if key is not None and not identity.has_key:
            raise NotProven(
                f"the device at {name} has no key, but the project has one",
                hint="flash the project that edgec built; or somebody answers in its place",
            )
        if key is not None:
            self._exchange.prove(key)

    def echo(self, data: bytes) -> bytes:
        """Return the device's echo of `data`, at most a chunk long."""
        return self._exchange.ask(Command.ECHO, data, answer_bytes=len(data))

    def tensor_bytes(self, kind: Kind, index: int) -> int:
        return unpack_size(self._exchange.ask(Command.PORT, pack_port(kind, index)))

    def write_input(self, index: int, data: bytes, progress: Progress | None = None) -> None:
        """Fill the start of an input with `data`."""
        sizes: dict[int, int] = {}
        done = 0

        def make(start: int, length: int) -> tuple[bytes, int]:
            sizes[start] = length
            return pack_write(index, start, data[start : start + length]), 0

        def take(start: int, answer: bytes) -> None:
            nonlocal done
            done += sizes[start]
            if progress is not None:
                progress(done, len(data))

        self._exchange.transfer(Command.WRITE, len(data), make, take)

    def read(self, kind: Kind, index: int, length: int, progress: Progress | None = None) -> bytes:
        """Return the first `length` bytes of an input, an output or the value stopped at."""
        result = bytearray(length)
        sizes: dict[int, int] = {}
        done = 0

        def make(start: int, size: int) -> tuple[bytes, int]:
            sizes[start] = size
            return pack_read(kind, index, start, size), size

        def take(start: int, answer: bytes) -> None:
            nonlocal done
            if len(answer) != sizes[start]:
                raise BadAnswer(Command.READ, answer)
            result[start : start + len(answer)] = answer
            done += len(answer)
            if progress is not None:
                progress(done, length)

        self._exchange.transfer(Command.READ, length, make, take)
        return bytes(result)

    def run(self, count: int = 1, *, timeout_s: float = 300.0, expect_s: float = 0.0) -> Done:
        """Run `count` inferences on the current inputs; the first failure ends it.

        expect_s: approximate time, before which no request is repeated.
        """
        data = pack_run(count, Stops.NOWHERE)
        state = self._run_state(Command.RUN, data, timeout_s, expect_s)
        if not isinstance(state, Done):
            raise BadAnswer(Command.RUN, b"")
        return state

    def traced_run(
        self,
        visit: Callable[[Stopped, bytes], None],
        *,
        stops: Stops = Stops.VALUES | Stops.STEPS,
        first_id: int = 0,
        last_id: int = LAST_ID,
        timeout_s: float = 300.0,
        progress: Callable[[Stopped, int, int], None] | None = None,
        limits: TraceLimits | None = None,
    ) -> Done:
        """Run once; `visit` gets every trace event and the bytes that can be seen there, after
        `progress` has got the event, the bytes done and all bytes while they came.

        `timeout_s` is for the way from one event to the next. `limits` checks every event before
        its bytes are read.
        """
        data = pack_run(1, stops, first_id, last_id)
        state = self._run_state(Command.RUN, data, timeout_s, 0.0)
        while isinstance(state, Stopped):
            if limits is not None:
                limits.take(state)
            heard = None if progress is None else partial(progress, state)
            seen = self.read(Kind.TRACE, 0, state.data_bytes, heard)
            visit(state, seen)
            data = pack_continue(state.event, stops)
            state = self._run_state(Command.CONTINUE, data, timeout_s, 0.0)
        return state

    def _run_state(
        self, command: Command, data: bytes, timeout_s: float, expect_s: float
    ) -> Done | Stopped:
        started = time.monotonic()
        try:
            answer = self._exchange.ask(
                command, data, answer_bytes=_STATE_BYTES, patience_s=timeout_s, expect_s=expect_s
            )
        except LinkLost as lost:
            raise RunFailed(
                f"the model on {self._transport.name} did not finish in "
                f"{time.monotonic() - started:.0f} s",
                details=lost.details,
                hint="give it more time; or its program crashed: restart the board",
            ) from lost
        return unpack_state(answer)

    def stack(self) -> Stack:
        """Return the stack's high-water mark and how often the receiver lost bytes."""
        return unpack_stack(self._exchange.ask(Command.STACK, answer_bytes=12))

    def selftest(self, *, timeout_s: float = 300.0) -> int:
        return self._status(Command.SELFTEST, timeout_s)

    def reset(self) -> int:
        """Reset the model's state to its initial values; returns the ec_status."""
        return self._status(Command.RESET, self._exchange.patience_s)

    def _status(self, command: Command, patience_s: float) -> int:
        answer = self._exchange.ask(command, answer_bytes=4, patience_s=patience_s)
        return unpack_status(command, answer)

    def restart(self) -> None:
        """Restart the board. Say hello afterwards, and prove the key."""
        self._exchange.ask(Command.RESTART)
        self._exchange.forget_session()
