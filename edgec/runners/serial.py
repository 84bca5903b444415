"""The serial engine: a real board, its program already flashed, at a serial port."""

from __future__ import annotations

from edgec.link.client import LinkClient
from edgec.link.commands import Identity
from edgec.link.ports import find_port
from edgec.link.seal import project_key
from edgec.link.transport import SerialTransport
from edgec.runners.engine import Project, RunCost, Transfer
from edgec.runners.on_link import LinkModel, LinkSession

_DEFAULT_BAUD = 115200


class SerialSession(LinkSession):
    """A session on a real board. It holds one program, so the traced one runs everything.

    Without `port`, the board's port is searched for (`edgec.link.ports`).
    """

    engine = "serial"

    def __init__(
        self, project: Project, port: str | None, transfer: Transfer | None = None
    ) -> None:
        super().__init__(project)
        board = project.board
        baud = board.link.baud if board is not None and board.link is not None else _DEFAULT_BAUD
        self._client = LinkClient(SerialTransport(port or find_port(board), baud))
        try:
            self._models[False] = LinkModel(
                self._client, self.manifest, transfer=transfer, key=project_key(project.project)
            )
        except BaseException:
            self.close()
            raise

    def _open(self, trace: bool) -> LinkModel:
        return self._models[False]  # opened with the session

    def _cost(self, ticks: int, identity: Identity) -> RunCost:
        cycles = round(ticks * identity.clock_hz / identity.ticks_hz)
        return RunCost(None, cycles)

    def close(self) -> None:
        self._client.close()
