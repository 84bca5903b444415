"""The explorer server's requests: the page, an upload, the current state, and a stop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from edgec.report.explore import render_explore
from edgec.serve.builds import Builds, Busy

SUFFIXES = (".tflite", ".onnx", ".pt2")
#: Models that one run of the server takes.
MOST_UPLOADS = 200
#: Seconds between looks at the builds, and between messages where nothing changes.
_LOOK, _BEAT = 0.1, 1.0


class App:
    """The routes. Every upload is a file in a folder of its own, which the builds remove."""

    def __init__(self, builds: Builds, most_bytes: int) -> None:
        self._builds, self._most_bytes = builds, most_bytes
        self._numbers = itertools.count(1)
        self._receiving = False
        self.is_closing = False
        self.routes = Starlette(routes=[
            Route("/", self.page),
            Route("/models", self.upload, methods=["POST"]),
            Route("/events", self.events),
            Route("/stop", self.stop, methods=["POST"]),
        ])  # fmt: skip

    async def page(self, request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline';"
            " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        text = render_explore({"model": "", "points": []}, live=True, nonce=nonce)
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    async def upload(self, request: Request) -> Response:
        name = safe_name(request.query_params.get("name", ""))
        if name is None:
            return _refuse(415, f"a model file ends in {', '.join(SUFFIXES)}")
        number = next(self._numbers)
        if number > MOST_UPLOADS:
            return _refuse(429, f"this server has taken {MOST_UPLOADS} files: start it again")
        if self._receiving:
            return _refuse(409, "another model is being sent")
        self._receiving = True
        try:
            path = self._builds.folder / f"upload_{number}" / name
            return await self._receive(request, name, path)
        finally:
            self._receiving = False

    async def _receive(self, request: Request, name: str, path: Path) -> Response:
        try:
            path.parent.mkdir()
            if not await _store(request, path, self._most_bytes):
                return _refuse(413, f"the file is larger than {self._most_bytes:,} bytes")
            self._builds.start(name, path)
        except (Busy, ClientDisconnect, OSError) as problem:
            with contextlib.suppress(OSError):
                path.unlink()
            if isinstance(problem, OSError):
                return _refuse(507, f"the file cannot be kept: {problem.strerror}")
            is_busy = isinstance(problem, Busy)
            return _refuse(*((409, str(problem)) if is_busy else (400, "it did not arrive whole")))
        return JSONResponse({"model": name})

    async def events(self, request: Request) -> Response:
        return StreamingResponse(self._changes(request), media_type="text/event-stream")

    async def _changes(self, request: Request) -> AsyncIterator[str]:
        """The state whenever it changes, and once a second; points only where they are new."""
        version, told = -1, 0.0
        loop = asyncio.get_running_loop()
        while not self.is_closing and not await request.is_disconnected():
            now = self._builds.snapshot()
            if now["version"] == version:
                now["points"] = None
            if now["version"] != version or loop.time() - told >= _BEAT:
                version, told = now["version"], loop.time()
                yield f"event: state\ndata: {json.dumps(now)}\n\n"
            if now["state"] != "building":
                return
            await asyncio.sleep(_LOOK)

    async def stop(self, request: Request) -> Response:
        await asyncio.to_thread(self._builds.stop)
        return JSONResponse({})


def safe_name(name: str) -> str | None:
    """A file name of letters, digits and `. _ -`; None unless it ends as models do."""
    found = re.sub(r"[^A-Za-z0-9._-]", "_", name.replace("\\", "/").rsplit("/", 1)[-1])
    stem = found.lstrip(".")[-100:]
    return stem if stem.lower().endswith(SUFFIXES) and stem.lower() not in SUFFIXES else None


async def _store(request: Request, path: Path, most_bytes: int) -> bool:
    """Write the body to `path`; False, and no file, if it is longer than `most_bytes`."""
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > most_bytes:
        return False
    size = 0
    with path.open("wb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > most_bytes:
                break
            file.write(chunk)
    if size > most_bytes:
        path.unlink()
    return size <= most_bytes


def _refuse(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status)
