"""A TCP proxy between a client and a broker that reads every packet that passes, and can hold the line at any of them.

``trace`` shows what passed as short lines: ``in`` is what the broker sent, ``out`` what the client did. A delivery is
``d1``, ``d2`` ... in the order in which they came, a message of the client ``c1``, ``c2`` ...; acknowledgements carry
the name of what they answer.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final, Self, final

from tests import wire_format as mqtt
from tests.wire_format import NAMES, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet

RETRY_COUNT: Final = "x-ruststream-retry-count"
_ACKS: Final = (PUBACK, PUBREC, PUBREL, PUBCOMP)

Gate = Callable[[str, Packet], bool]
"""(its line in the trace, packet) -> whether it may pass; one that may not ends the connection there and then."""


def _abort(writers: "tuple[asyncio.StreamWriter, ...]", _: object) -> None:
    for writer in writers:
        writer.transport.abort()


@final
class Recorder:
    """Listens on ``port`` of 127.0.0.1 for clients of the broker on ``target``."""

    def __init__(self, target: int, version: int = 5) -> None:
        self.port = 0
        self.trace: list[str] = []
        self.packets: dict[str, Packet] = {}  # the PUBLISHes by name
        self.gate: Gate | None = None
        self.connections = 0
        self._target, self._version = target, version
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._counts = {"d": 0, "c": 0}
        self._names: dict[tuple[str, int], str] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        self._names.clear()
        for direction, source, sink in (("out", reader, back), ("in", there, writer)):
            task = asyncio.ensure_future(self._carry(direction, source, sink))
            self._tasks.add(task)
            task.add_done_callback(partial(_abort, (writer, back)))
        self.trace.append("connect")

    async def _carry(self, direction: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        buffer = bytearray()
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                buffer += data
                while (size := mqtt.frame_size(buffer)) and len(buffer) >= size:
                    frame = bytes(buffer[:size])
                    del buffer[:size]
                    if not self._passes(direction, frame):
                        await sink.drain()
                        sink.close()
                        return
                    sink.write(frame)
            await sink.drain()

    def _passes(self, direction: str, frame: bytes) -> bool:
        kind = frame[0] >> 4
        if kind != PUBLISH and kind not in _ACKS:
            return True
        packet = mqtt.parse(frame, self._version)
        line = self._line(direction, packet)
        self.trace.append(line)
        return self.gate is None or self.gate(line, packet)

    def _line(self, direction: str, packet: Packet) -> str:
        side = "d" if direction == "in" else "c"
        if packet.type == PUBLISH:
            self._counts[side] += 1
            name = f"{side}{self._counts[side]}"
            self._names[side, packet["pid"]] = name
            self.packets[name] = packet
            count = dict(value for key, value in packet.props if key == mqtt.USER_PROPERTY).get(RETRY_COUNT)
            shown = "" if count is None else f" #{count}"
            return f"{direction} PUBLISH {packet['topic']}{shown}{' DUP' if packet['dup'] else ''} {name}"
        # PUBACK, PUBREC and PUBCOMP go against their PUBLISH, PUBREL goes with it
        answered = side if packet.type == PUBREL else {"d": "c", "c": "d"}[side]
        return f"{direction} {NAMES[packet.type]} {self._names.get((answered, packet['pid']), '?')}"

    def of(self, *names: str) -> list[str]:
        """The lines about these messages, without the names."""
        return [line.rpartition(" ")[0] for line in self.trace if line.rpartition(" ")[2] in names]
