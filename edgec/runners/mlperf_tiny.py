"""The host's end of the MLPerf Tiny device protocol (docs/mlperf_tiny.md)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgec.boards.board import Board
from edgec.errors import RunFailed
from edgec.link.ports import find_port
from edgec.link.transport import SerialTransport, Transport, TransportOwner
from edgec.runners.pool import Device
from edgec.runners.qemu import QemuProcess

READY = "m-ready"
#: The most bytes of input in one command, as the official runner sends them.
LOAD_BYTES = 31

_COMMAND_TIMEOUT_S = 5.0
_INFER_TIMEOUT_S = 30.0
_QUIET_S = 0.25
_LAP = re.compile(r"^m-lap-us-(\d+)$")
_RESULTS = re.compile(r"^m-results-\[(.*)\]$")
_LAP_LIMIT = 1 << 32


#: Runs of a measured inference; in emulation all runs are equal.
_RUNS = {"qemu": 10, "serial": 100}
_WARMUPS = 2
#: An emulated board is slower than its own clock says.
_EMULATOR_PATIENCE = 20.0
_DEFAULT_BAUD = 115200


@dataclass(frozen=True)
class Inference:
    """The answer to one `infer`: microseconds of all its measured runs, and the results."""

    microseconds: int
    runs: int
    results: tuple[float, ...]


class MlperfDevice(TransportOwner):
    """A device that speaks the protocol.

    Every method raises RunFailed when the device is silent or answers with an error,
    PortUnavailable when it has gone. `patience` multiplies all times, for slow emulators.
    """

    def __init__(self, transport: Transport, *, patience: float = 1.0) -> None:
        super().__init__(transport)
        self._patience = patience
        self._arrived = b""

    def synchronize(self) -> None:
        """Synchronize with a device that is running already and may be in the middle of a line."""
        self._transport.write(b"%")
        self._lines("a first word", _COMMAND_TIMEOUT_S)
        # A board may also have restarted when its port was opened, and say so.
        while self._transport.read(_QUIET_S * self._patience):
            pass
        self._arrived = b""

    def wait_for_start(self) -> list[str]:
        """Return the device's text at start-up, which it sends only once."""
        return self._lines("start", 4 * _COMMAND_TIMEOUT_S)

    def command(self, text: str, timeout_s: float = _COMMAND_TIMEOUT_S) -> list[str]:
        """Send one command and return the lines of its answer, without the last."""
        self._transport.write(f"{text}%".encode("ascii"))
        lines = self._lines(text, timeout_s)
        wrong = [line for line in lines if line.startswith("e-")]
        if wrong:
            raise RunFailed(f"{self._transport.name} refuses '{text[:40]}'", details=tuple(wrong))
        return lines

    def model_id(self) -> str:
        for line in self.command("profile"):
            if line.startswith("m-model-["):
                return line.removeprefix("m-model-[").removesuffix("]")
        raise RunFailed(f"{self._transport.name} does not name its model")

    def load(self, data: bytes) -> None:
        self.command(f"db load {len(data)}")
        lines: list[str] = []
        for at in range(0, len(data), LOAD_BYTES):
            lines = self.command(f"db {data[at : at + LOAD_BYTES].hex()}")
        if "m-load-done" not in lines:
            raise RunFailed(
                f"{self._transport.name} did not take {len(data)} bytes", details=tuple(lines)
            )

    def infer(self, runs: int = 1, warmups: int = 0) -> Inference:
        lines = self.command(f"infer {runs} {warmups}", _INFER_TIMEOUT_S)
        laps = [int(found[1]) for line in lines if (found := _LAP.match(line))]
        results = [found[1] for line in lines if (found := _RESULTS.match(line))]
        if len(laps) != 2 or len(results) != 1:
            raise RunFailed(
                f"{self._transport.name} answers 'infer' without two times and one result",
                details=tuple(lines[-8:]),
            )
        values = tuple(float(word) for word in results[0].split(","))
        # The device's counter has 32 bits.
        return Inference((laps[1] - laps[0]) % _LAP_LIMIT, runs, values)

    def _lines(self, what: str, timeout_s: float) -> list[str]:
        """Return the lines up to the ready line."""
        lines: list[str] = []
        end = time.monotonic() + timeout_s * self._patience
        while True:
            while b"\n" in self._arrived:
                line, self._arrived = self._arrived.split(b"\n", 1)
                # Hosts ignore zero bytes, which a line may send at power-up.
                text = line.replace(b"\0", b"").decode("ascii", "replace").strip("\r")
                if READY in text:
                    return lines
                lines.append(text)
            left = end - time.monotonic()
            if left <= 0:
                heard = lines[-4:] + ([repr(self._arrived[:60])] if self._arrived else [])
                raise RunFailed(
                    f"{self._transport.name} is not ready {timeout_s * self._patience:g} s after "
                    f"'{what[:40]}'",
                    details=tuple(heard),
                    hint="is a program of `edgec build --harness mlperf-tiny` on it?",
                )
            self._arrived += self._transport.read(min(left, 0.5))


@dataclass(frozen=True)
class Firmware:
    """The benchmark's program of a model: `elf` for emulators, `id` as the device says it."""

    board: Board
    elf: Path
    id: str


@contextmanager
def open_device(board: Board, elf: Path | None, device: Device) -> Iterator[MlperfDevice]:
    """Start an emulator with `elf`, or open the port of a board that holds its program."""
    if device.engine == "qemu":
        assert elf is not None
        with QemuProcess(board, elf) as process:
            assert process.transport is not None
            found = MlperfDevice(process.transport, patience=_EMULATOR_PATIENCE)
            found.wait_for_start()
            yield found
        return
    baud = board.link.baud if board.link is not None else _DEFAULT_BAUD
    with MlperfDevice(SerialTransport(device.port or find_port(board), baud)) as found:
        found.synchronize()
        yield found


def identify(board: Board, device: Device, share: Iterable[None]) -> list[str]:
    """Say, as a share of a pool, which model the board at a port holds."""
    with open_device(board, None, device) as found:
        return [found.model_id() for _ in share]


def judge(
    firmware: Firmware, device: Device, share: Iterable[tuple[bytes, ...]]
) -> list[tuple[tuple[float, ...], ...]]:
    """Run a share of samples, each of one or more inputs; returns the results of each input."""
    with open_device(firmware.board, firmware.elf, device) as found:
        _check_model(firmware, found)
        answers = []
        for inputs in share:
            results = []
            for data in inputs:
                found.load(data)
                results.append(found.infer(1, 0).results)
            answers.append(tuple(results))
        return answers


def measure(firmware: Firmware, device: Device, share: Iterable[bytes]) -> list[tuple[str, float]]:
    """Time inferences on a share of inputs: the engine, and microseconds of one inference."""
    with open_device(firmware.board, firmware.elf, device) as found:
        _check_model(firmware, found)
        times = []
        for data in share:
            found.load(data)
            timed = found.infer(_RUNS[device.engine], _WARMUPS)
            times.append((device.engine, timed.microseconds / timed.runs))
        return times


def _check_model(firmware: Firmware, device: MlperfDevice) -> None:
    held = device.model_id()
    if held != firmware.id:
        raise RunFailed(
            f"the device holds the model {held}, not {firmware.id}",
            hint="flash the firmware that `edgec build --harness mlperf-tiny` makes",
        )
