"""A relay in front of a broker that keeps what passes, and breaks or stops it when asked. It may speak TLS to the
side that dials."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Self, final

from tests import wire_format as mqtt

_READ_BYTES: Final = 262_144
_PATIENCE_S: Final = 30.0
CRASH_WINDOWS: Final = 4


class Passed(NamedTuple):
    """One connection, in the order in which it was made."""

    upwards: list[bytes]  # payloads of the PUBLISHes at QoS > 0 that the broker was sent
    acknowledged: list[bytes]  # of them, those that it acknowledged with success


@final
class _Link:
    def __init__(self) -> None:
        self.up = bytearray()
        self.down = bytearray()
        self.writers: list[asyncio.StreamWriter] = []

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


@final
class Relay:
    """Runs on a thread of its own from ``start`` to ``close``; the calls are for other threads.

    ``inside`` is entered by that thread, so that its sockets may belong to a network namespace.
    """

    def __init__(
        self, host: str, broker_port: int, tls: ssl.SSLContext | None = None,
        inside: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:  # fmt: skip
        self.host, self.port = host, 0
        self._broker_port, self._tls, self._inside = broker_port, tls, inside
        self._links: list[_Link] = []
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()  # cleared while it is frozen
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self.clients: list[str] = []  # common names of the certificates shown

    def start(self) -> Self:
        self._thread.start()
        assert self._ready.wait(_PATIENCE_S), "the relay does not listen"
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)

    def cut(self) -> None:
        """Every connection breaks."""
        self._loop.call_soon_threadsafe(self._cut)

    def freeze(self, frozen: bool) -> None:
        """While it is frozen nothing passes, and connections are accepted all the same."""
        self._loop.call_soon_threadsafe(self._open.clear if frozen else self._open.set)

    @property
    def dials(self) -> int:
        return len(self._links)

    def passed(self) -> list[Passed]:
        """All that has passed, taken apart."""
        found: list[Passed] = self._call(self._all())
        return found

    # on its thread

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    def _run(self) -> None:
        with self._inside():
            asyncio.set_event_loop(self._loop)
            self._loop.run_until_complete(self._listen())
            self._loop.run_forever()
            self._loop.close()

    async def _listen(self) -> None:
        self._open.set()
        self._server = await asyncio.start_server(self._accept, self.host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self._ready.set()

    async def _stop(self) -> None:
        self._server.close()
        self._cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _cut(self) -> None:
        for link in self._links:
            link.abort()

    async def _all(self) -> list[Passed]:
        return [taken_apart(bytes(link.up), bytes(link.down)) for link in self._links]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        link = _Link()
        self._links.append(link)
        link.writers.append(writer)
        if (shown := writer.get_extra_info("peercert")) is not None:
            self.clients.append(dict(pair[0] for pair in shown["subject"]).get("commonName", ""))
        try:
            await self._open.wait()
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
            link.writers.append(to_broker)
            await asyncio.gather(self._pump(reader, to_broker, link.up), self._pump(from_broker, writer, link.down))
        except OSError:
            pass
        finally:
            link.abort()
            self._tasks.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
        while data := await reader.read(_READ_BYTES):
            await self._open.wait()
            kept += data
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # the other half ends too


def taken_apart(up: bytes, down: bytes) -> Passed:
    version, passed = 0, Passed([], [])
    waiting: dict[int, list[bytes]] = {}  # by packet id, which is another message's once the first is acknowledged
    for raw in _frames(up):
        if not version:
            version = raw[raw.index(b"MQTT") + 4]
        elif raw[0] >> 4 == mqtt.PUBLISH and raw[0] & 6:
            packet = mqtt.parse(raw, version)
            waiting.setdefault(packet["pid"], []).append(packet["payload"])
            passed.upwards.append(packet["payload"])
    for raw in _frames(down):
        if raw[0] >> 4 == mqtt.PUBACK:
            packet = mqtt.parse(raw, version)
            payload = waiting[packet["pid"]].pop(0)
            if packet.fields.get("code", 0) < 0x80:
                passed.acknowledged.append(payload)
    return passed


def faults(passed: Sequence[Passed], count: int, window: int, again: int, kills: int = 0) -> list[str]:
    """Broken promises to a broker that was sent the numbers below ``count``, one line each.

    ``window``: what may be in flight, and so come twice, whenever a connection ends. ``again``: what the publisher sent
    twice, which is none of the uplink's doing. ``kills``, of the gateway: each repeats what was acknowledged while the
    last commits were under way, too.
    """
    found: list[str] = []
    acknowledged = {int(payload) for one in passed for payload in one.acknowledged}
    if lost := sorted(set(range(count)) - acknowledged):
        found.append(f"lost: {lost[:10]} ({len(lost)} of {count})")
    came = [int(payload) for one in passed for payload in one.upwards]
    first = list(dict.fromkeys(came))
    if first != sorted(first):
        at = next(index for index in range(1, len(first)) if first[index] < first[index - 1])
        found.append(f"out of order: {first[max(at - 3, 0) : at + 5]}")
    connections = sum(1 for one in passed if one.upwards)
    twice = len(came) - len(first)
    how = f"{again} sent twice by the publisher, {kills} kills of the gateway"
    print(f"{count} messages, {connections} connections, {twice} duplicates, {how}")
    if twice > window * (max(connections - 1, 0) + CRASH_WINDOWS * kills) + again:
        found.append(f"{twice} duplicates over {connections} connections, of which {again} are the publisher's")
    return found


def _frames(data: bytes) -> list[bytes]:
    """The whole packets."""
    found, at = [], 0
    while size := mqtt.frame_size(data[at : at + 5]):
        if at + size > len(data):
            break
        found.append(data[at : at + size])
        at += size
    return found
