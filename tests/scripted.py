"""A broker that a test plays by hand: a real listener, packets as bytes."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Self, final

CONNECT, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, DISCONNECT = (
    1, 3, 4, 5, 6, 7, 8, 10, 12, 14
)  # fmt: skip
CONNACK = "20 03 00 00 00"
RESUMED = "20 03 01 00 00"
CONNACK_4 = "20 02 00 00"
WAIT_S = 60.0


@final
class Peer:
    """One connection that the client made; all that it sent is in ``seen``, packet by packet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self.seen: list[bytes] = []
        self.version = version
        self._reader, self._writer = reader, writer

    async def packet(self) -> bytes:
        """The next one. Raises IncompleteReadError at the end."""
        async with asyncio.timeout(WAIT_S):
            frame = await self._reader.readexactly(2)
            while frame[-1] & 0x80:
                frame += await self._reader.readexactly(1)
            left = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(frame[1:]))
            frame += await self._reader.readexactly(left)
        self.seen.append(frame)
        return frame

    async def until(self, kind: int) -> bytes:
        """The next of a packet type; what comes before it is only seen."""
        while True:
            frame = await self.packet()
            if frame[0] >> 4 == kind:
                return frame

    async def over(self) -> None:
        """Read to the client's end."""
        try:
            while True:
                await self.packet()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass

    def send(self, *packets: str | bytes) -> None:
        """Bytes, or hexadecimal ones."""
        for packet in packets:
            self._writer.write(bytes.fromhex(packet) if isinstance(packet, str) else packet)

    async def greet(self, connack: str = "") -> bytes:
        """Take the CONNECT and answer it."""
        connect = await self.until(CONNECT)
        self.send(connack or (CONNACK if self.version == 5 else CONNACK_4))
        return connect

    async def nothing(self) -> None:
        """The client has sent nothing more, as its answer to a ping of ours cannot tell: a short silence does."""
        try:
            async with asyncio.timeout(0.1):
                frame = await self._reader.readexactly(1)
        except TimeoutError:
            return
        raise AssertionError(f"it sent {frame.hex()}")

    def cut(self) -> None:
        self._writer.transport.abort()


@final
class Scripted:
    """A listener; each script plays one connection, in their order, and its failure is the test's."""

    def __init__(
        self,
        *scripts: Callable[[Peer], Awaitable[None]],
        version: int = 5,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = 0
        self.peers: list[Peer] = []
        self._scripts = list(scripts)
        self._version = version
        self._tls = tls
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def played(self) -> None:
        """All scripts that began are over. Raises what the first of them raised."""
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._scripts:
            writer.transport.abort()
            return
        peer = Peer(reader, writer, self._version)
        self.peers.append(peer)
        self._tasks.append(asyncio.ensure_future(self._play(self._scripts.pop(0), peer, writer)))

    async def _play(
        self, script: Callable[[Peer], Awaitable[None]], peer: Peer, writer: asyncio.StreamWriter
    ) -> None:  # fmt: skip
        try:
            await script(peer)
        finally:
            writer.close()
