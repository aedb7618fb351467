"""An ASGI application asked without a socket."""

import asyncio
import urllib.parse
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message


class Said(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


def scope(
    path: str = "/", method: str = "GET", headers: Mapping[str, str] | None = None, client: str = "127.0.0.1",
    server: str = "127.0.0.1", body: bytes = b"",
) -> dict[str, Any]:  # fmt: skip
    """Of a request to this path, which may have a query."""
    bare, _, query = path.partition("?")
    given = {"host": "127.0.0.1:8080", **(headers or {})}
    if body:
        given |= {"content-length": str(len(body)), "content-type": "application/x-www-form-urlencoded"}
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": urllib.parse.unquote(bare), "raw_path": bare.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": (client, 50_000), "server": (server, 8080), "state": {},
    }  # fmt: skip


async def called(app: ASGIApp, path: str = "/", body: bytes = b"", unfinished: bool = False, **more: Any) -> Said:
    """The whole answer to one request; ``unfinished``: more of its body is to come, and never does."""
    sent: list[Message] = []
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": unfinished}]

    async def receive() -> Message:
        if parts:
            return parts.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope(path, body=body, **more), receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    text = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return Said(start["status"], headers, text.decode())


def call(app: ASGIApp, path: str = "/", body: bytes = b"", **more: Any) -> Said:
    return asyncio.run(called(app, path, body, **more))
