"""Connections of the explorer's server that send half a request, or nothing, are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed (edgec[serve])")

import uvicorn
from uvicorn.server import ServerState

from edgec.serve import server
from edgec.serve.server import Connection

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Opener = Callable[[], Awaitable[Streams]]


def talk(steps: Callable[[Opener, list[str]], Awaitable[None]]) -> list[str]:
    """Run `steps` with a way to connect; what the server's application heard of each request."""
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            heard.append(message["type"])
            if not message.get("more_body"):
                break
        if message["type"] == "http.request":
            await asyncio.sleep(2 * server.REQUEST_SECONDS)  # a slow answer is no half request
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    async def run() -> None:
        config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
        config.load()
        state = ServerState()
        made = await asyncio.get_running_loop().create_server(
            lambda: Connection(config, state, {}), "127.0.0.1", 0
        )
        host = made.sockets[0].getsockname()
        async with made:
            await asyncio.wait_for(steps(lambda: asyncio.open_connection(*host), heard), 20)

    asyncio.run(run())
    return heard


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 2)


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What arrives before the other side closes the connection, rudely or not."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n"
             b"Content-Length: 9\r\n\r\nhalf", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
             b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"],
    ids=["nothing", "half a head", "half a body", "half a body behind a request"],
)  # fmt: skip
def test_half_a_request_is_closed(sent: bytes) -> None:
    async def steps(connect: Opener, heard: list[str]) -> None:
        reader, writer = await connect()
        writer.write(sent)
        assert (await closed(reader)).count(b"HTTP") == sent.count(
            b"GET / HTTP/1.1\r\nHost: a\r\n\r"
        )
        writer.close()

    half = ["http.request", "http.disconnect"] if b"half" in sent else []
    assert talk(steps) == ["http.request"] * (b"GET" in sent and b"POST" in sent) + half


def test_a_request_that_drips_is_closed_and_a_whole_one_is_answered() -> None:
    async def steps(connect: Opener, heard: list[str]) -> None:
        reader, writer = await connect()
        request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
        for _ in range(2):  # one connection, whose time begins anew
            writer.write(request)
            assert b"204" in await reader.readuntil(b"\r\n\r\n")
        for byte in request[:-4]:
            if reader.at_eof():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
        assert await closed(reader) == b""
        writer.close()

    assert talk(steps) == ["http.request", "http.request"]


def test_more_connections_than_the_most_are_closed() -> None:
    async def steps(connect: Opener, heard: list[str]) -> None:
        opened = [await connect() for _ in range(2)]
        await asyncio.sleep(0)
        server.REQUEST_SECONDS = 9.0
        reader, writer = await connect()
        assert await closed(reader) == b""
        for _, each in (*opened, (reader, writer)):
            each.close()

    talk(steps)
