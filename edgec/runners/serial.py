"""The serial engine: a real board, its program already flashed, behind a serial port."""

from __future__ import annotations

from edgec.errors import LinkError, RunFailed
from edgec.link.client import LinkClient
from edgec.link.commands import Identity
from edgec.link.transport import SerialTransport
from edgec.runners.engine import Project, StepCost
from edgec.runners.on_link import LinkModel, LinkSession

_DEFAULT_BAUD = 115200


class SerialSession(LinkSession):
    """A session on a real board. One program is on it: the traced one runs everything.

    Without `port`, the only serial port of this computer is taken.
    """

    engine = "serial"

    def __init__(self, project: Project, port: str | None) -> None:
        super().__init__(project)
        board = project.board
        baud = board.link.baud if board is not None and board.link is not None else _DEFAULT_BAUD
        self._client = LinkClient(SerialTransport(port or _only_port(), baud))
        try:
            self._plain = LinkModel(self._client, self.manifest)
        except BaseException:
            self.close()
            raise

    def _open(self, trace: bool) -> LinkModel:
        assert self._plain is not None  # opened with the session
        return self._plain

    def _cost(self, ticks: int, identity: Identity) -> StepCost:
        cycles = round(ticks * identity.clock_hz / identity.ticks_hz)
        return StepCost(None, cycles)

    def close(self) -> None:
        """Close the port."""
        self._client.close()


def _only_port() -> str:
    """Return the name of the one serial port there is. Raises RunFailed or LinkError."""
    from serial.tools import list_ports

    ports = sorted(list_ports.comports())
    if not ports:
        raise LinkError(
            "this computer has no serial port",
            hint="plug the board in; `edgec doctor` lists ports and permissions",
        )
    if len(ports) > 1:
        raise RunFailed(
            "there are several serial ports",
            details=tuple(f"{port.device}  {port.description}" for port in ports),
            hint="choose one with --port",
        )
    device: str = ports[0].device
    return device
