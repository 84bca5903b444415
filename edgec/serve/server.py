"""Runs the explorer's server on the loopback interface until Ctrl-C."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgec.errors import EdgecError
from edgec.serve.app import App
from edgec.serve.builds import Builds
from edgec.serve.guard import Guard

#: Seconds within which a request arrives whole, and connections that are open at a time.
REQUEST_SECONDS = 60.0
MOST_CONNECTIONS = 100


def serve(builds: Builds, port: int, most_bytes: int, ready: Callable[[str], None]) -> None:
    """Serve until a signal, which is raised again once all is ended.

    port: 0 takes a free one. most_bytes: of an upload. ready: called with the address, which has
    the token. Raises EdgecError for a port that is not free.
    """
    listener = _listen(port)
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    token = secrets.token_urlsafe(24)
    app = App(builds, most_bytes)
    config = uvicorn.Config(
        Guard(app.routes, host, token), http=Connection, log_level="warning", access_log=False,
        lifespan="off", server_header=False, ws="none", timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = _Server(config, app)
    ready(f"http://{host}/{token}/")
    try:
        server.run(sockets=[listener])
    finally:
        builds.stop()
        listener.close()


class Connection(H11Protocol):
    """A connection that is closed where it sends nothing, or a request that never ends."""

    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        self._wait_for_request()

    def handle_events(self) -> None:
        super().handle_events()
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()

    def _wait_for_request(self) -> None:
        """Wait for an incomplete request, limited from its first byte on."""
        if self.cycle is not None and not (self.cycle.response_complete or self.cycle.more_body):
            self._stop_waiting()
        elif self._closing is None:
            self._closing = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None


class _Server(uvicorn.Server):
    """Ends the streams to open pages before it waits for them."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.is_closing = True
        await super().shutdown(sockets)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()  # so that a browser that is fast waits, and is not refused
    except OSError as problem:
        listener.close()
        raise EdgecError(
            f"cannot listen on port {port}: {problem.strerror}", hint="choose another --serve-port"
        ) from None
    return listener
