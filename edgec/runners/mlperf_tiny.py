"""The host's end of the MLPerf Tiny device protocol (docs/mlperf_tiny.md)."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from edgec.errors import RunFailed
from edgec.link.transport import Transport, TransportOwner

READY = "m-ready"
#: The most bytes of input in one command, as the official runner sends them.
LOAD_BYTES = 31

_COMMAND_TIMEOUT_S = 5.0
_INFER_TIMEOUT_S = 30.0
_LAP = re.compile(r"^m-lap-us-(\d+)$")
_RESULTS = re.compile(r"^m-results-\[(.*)\]$")
_LAP_LIMIT = 1 << 32


@dataclass(frozen=True)
class Inference:
    """What one `infer` said: microseconds of all its measured runs, and the results."""

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

    def wait_for_start(self) -> list[str]:
        """Return what the device says when it starts, which it does only once."""
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
        """Return the benchmark's name of the model."""
        for line in self.command("profile"):
            if line.startswith("m-model-["):
                return line.removeprefix("m-model-[").removesuffix("]")
        raise RunFailed(f"{self._transport.name} does not name its model")

    def load(self, data: bytes) -> None:
        """Fill the input buffer."""
        self.command(f"db load {len(data)}")
        lines: list[str] = []
        for at in range(0, len(data), LOAD_BYTES):
            lines = self.command(f"db {data[at : at + LOAD_BYTES].hex()}")
        if "m-load-done" not in lines:
            raise RunFailed(
                f"{self._transport.name} did not take {len(data)} bytes", details=tuple(lines)
            )

    def infer(self, runs: int = 1, warmups: int = 0) -> Inference:
        """Run the model on the buffer."""
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
        """Return the lines up to the one that says ready."""
        lines: list[str] = []
        end = time.monotonic() + timeout_s * self._patience
        while True:
            while b"\n" in self._arrived:
                line, self._arrived = self._arrived.split(b"\n", 1)
                # Hosts ignore zero bytes, which a line that starts up may give.
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
