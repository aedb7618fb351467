"""A certificate authority, and servers on loopback that speak as much as a test needs."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trustme

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Start = Callable[..., Awaitable[int]]


@pytest.fixture
def ca(tmp_path: Path) -> trustme.CA:
    """Its certificate is the file ``ca.pem``."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return made


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """``await start(serve, tls=None)`` gives the port of a server that runs to the end of the test."""
    async with AsyncExitStack() as stack:

        async def begin(serve: Serve, tls: ssl.SSLContext | None = None) -> int:
            async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                try:
                    await serve(reader, writer)
                except (ConnectionError, asyncio.IncompleteReadError):
                    pass
                finally:
                    writer.close()

            server = await asyncio.start_server(one, "127.0.0.1", 0, ssl=tls)
            stack.callback(server.close)
            port: int = server.sockets[0].getsockname()[1]
            return port

        yield begin


def server_tls(ca: trustme.CA, name: str = "localhost") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    return context
