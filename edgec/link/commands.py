"""Contents of the commands and their answers. Names and numbers as on the protocol's page."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from edgec.link.errors import BadAnswer


class Command(IntEnum):
    HELLO = 0x01
    PORT = 0x02
    ECHO = 0x03
    WRITE = 0x04
    READ = 0x05
    RUN = 0x06
    CONTINUE = 0x07
    STACK = 0x08
    SELFTEST = 0x09
    RESET = 0x0A
    RESTART = 0x0B
    CHALLENGE = 0x0C


class Code(IntEnum):
    """Result codes, the first byte of every answer."""

    OK = 0
    UNKNOWN = 1
    LENGTH = 2
    INDEX = 3
    RANGE = 4
    STOPPED = 5
    NOT_STOPPED = 6
    UNSUPPORTED = 7
    VERSION = 8
    LOCKED = 9


class Kind(IntEnum):
    """The object of a port or read command."""

    INPUT = 0
    OUTPUT = 1
    TRACE = 2


class Stops(IntFlag):
    """Events at which a run pauses."""

    NOWHERE = 0
    VALUES = 1
    STEPS = 2


class TickUnit(IntEnum):
    """The unit of the device's clock."""

    TIME = 0
    CYCLES = 1
    INSTRUCTIONS = 2


_HELLO = struct.Struct("<6BHIII")
_PORT = struct.Struct("<BB")
_WRITE = struct.Struct("<BI")
_READ = struct.Struct("<BBIH")
_RUN = struct.Struct("<HBII")
_CONTINUE = struct.Struct("<IB")
_STACK = struct.Struct("<III")
_STATUS = struct.Struct("<i")
_SIZE = struct.Struct("<I")
_DONE = struct.Struct("<iHIQQQ")
_STOPPED = struct.Struct("<IIIIQ")

LAST_ID = 0xFFFFFFFF
"""The largest trace id: `RUN` with ids 0 to LAST_ID looks at all of them."""


@dataclass(frozen=True)
class Identity:
    version: int
    abi: int
    tick_unit: TickUnit
    inputs: int
    outputs: int
    has_trace: bool
    has_selftest: bool
    has_reset: bool
    has_key: bool
    chunk: int
    model_hash: int
    clock_hz: int
    ticks_hz: int
    board: str
    model: str
    edgec_version: str


@dataclass(frozen=True)
class Done:
    """A run that has ended. Ticks are of one inference, less `overhead`, the clock's own cost."""

    status: int
    runs: int
    overhead: int
    fewest: int
    most: int
    all_ticks: int


@dataclass(frozen=True)
class Stopped:
    """A paused traced run. `data_bytes` may be read; `ticks` since the run began."""

    event: int
    id: int
    row: int
    data_bytes: int
    ticks: int


@dataclass(frozen=True)
class Stack:
    """Most bytes of stack used since start-up, bytes there are, and losses of the receiver."""

    used_bytes: int
    size_bytes: int
    receiver_losses: int


def pack_port(kind: Kind, index: int) -> bytes:
    return _PORT.pack(kind, index)


def pack_write(index: int, offset: int, data: bytes) -> bytes:
    return _WRITE.pack(index, offset) + data


def pack_read(kind: Kind, index: int, offset: int, length: int) -> bytes:
    return _READ.pack(kind, index, offset, length)


def pack_run(count: int, stops: Stops, first_id: int = 0, last_id: int = LAST_ID) -> bytes:
    return _RUN.pack(count, stops, first_id, last_id)


def pack_continue(event: int, stops: Stops) -> bytes:
    return _CONTINUE.pack(event, stops)


def unpack_identity(data: bytes) -> Identity:
    """Read the answer of hello, without its code. Raises BadAnswer."""
    try:
        version, abi, unit, inputs, outputs, flags, chunk, model_hash, clock_hz, ticks_hz = (
            _HELLO.unpack_from(data)
        )
        board, model, edgec_version, rest = data[_HELLO.size :].split(b"\0")
        if rest or not chunk or not ticks_hz:
            raise ValueError("empty fields")
        return Identity(
            version=version,
            abi=abi,
            tick_unit=TickUnit(unit),
            inputs=inputs,
            outputs=outputs,
            has_trace=bool(flags & 1),
            has_selftest=bool(flags & 2),
            has_reset=bool(flags & 4),
            has_key=bool(flags & 8),
            chunk=chunk,
            model_hash=model_hash,
            clock_hz=clock_hz,
            ticks_hz=ticks_hz,
            board=board.decode("utf-8", "replace"),
            model=model.decode("utf-8", "replace"),
            edgec_version=edgec_version.decode("utf-8", "replace"),
        )
    except (struct.error, ValueError) as error:
        raise BadAnswer(Command.HELLO, data) from error


def unpack_size(data: bytes) -> int:
    size: int = _exactly(_SIZE, Command.PORT, data)[0]
    return size


def unpack_stack(data: bytes) -> Stack:
    return Stack(*_exactly(_STACK, Command.STACK, data))


def unpack_status(command: Command, data: bytes) -> int:
    """Read the ec_status that selftest or reset answer."""
    status: int = _exactly(_STATUS, command, data)[0]
    return status


def unpack_state(data: bytes) -> Done | Stopped:
    """Read the run state that run and continue answer."""
    if data[:1] == b"\0":
        return Done(*_exactly(_DONE, Command.RUN, data[1:]))
    if data[:1] == b"\1":
        return Stopped(*_exactly(_STOPPED, Command.RUN, data[1:]))
    raise BadAnswer(Command.RUN, data)


def _exactly(layout: struct.Struct, command: Command, data: bytes) -> tuple[int, ...]:
    if len(data) != layout.size:
        raise BadAnswer(command, data)
    return layout.unpack(data)
