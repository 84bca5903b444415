"""Who may talk to the explorer's server: this computer's browser, with the token, from its page.

A page of the web can send requests to a loopback address. It knows no token; its requests name
another origin; and where it made its own name lead to this computer, they name another host.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Nothing is loaded from elsewhere, no page frames this one, nobody keeps it.
HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Lets requests through whose host, origin and token are right, and adds headers to answers.

    host: "127.0.0.1:PORT"; the same port by the name localhost is also this server. The token is
    the first part of every path, and is not passed on.
    """

    def __init__(self, app: ASGIApp, host: str, token: str) -> None:
        self._app, self._token = app, token
        self._hosts = {host, host.replace("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for key, value in HEADERS.items():
                    headers.setdefault(key, value)
            await send(message)

        status = self._refusal(scope)
        if status:
            answer = PlainTextResponse({403: "forbidden", 404: "not found"}[status], status)
            await answer(scope, receive, send_with_headers)
            return
        path = "/" + scope["path"].split("/", 2)[2]
        await self._app({**scope, "path": path, "raw_path": None}, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> int:
        """The status to answer with; 0 lets the request through."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:
            return 403
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return 403
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403
        parts = scope["path"].split("/", 2)
        given = parts[1].encode() if len(parts) == 3 else b""
        return 0 if secrets.compare_digest(given, self._token.encode()) else 404
