"""Runs the explorer's server on the loopback interface until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable

import uvicorn

from edgec.errors import EdgecError
from edgec.serve.app import App
from edgec.serve.builds import Builds
from edgec.serve.guard import Guard


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
        Guard(app.routes, host, token), log_level="warning", access_log=False, lifespan="off",
        server_header=False, ws="none", timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = _Server(config, app)
    ready(f"http://{host}/{token}/")
    try:
        server.run(sockets=[listener])
    finally:
        builds.stop()
        listener.close()


class _Server(uvicorn.Server):
    """Ends what is sent to open pages before it waits for them."""

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
