import asyncio
import os
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from typing import ClassVar

import pytest
import trustme

from gateway.net import websocket
from gateway.net.websocket import ServerWebSocket, Stream, WebSocketError, dial, origin_allowed

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
WAIT_S = 60


def frame(opcode: int, payload: bytes, fin: bool = True, masked: bool = True) -> bytes:
    """One frame of a client (RFC 6455, 5.2); up to 65,535 bytes."""
    size = len(payload)
    head = bytes([opcode | (0x80 if fin else 0)])
    mask_bit = 0x80 if masked else 0
    head += bytes([mask_bit | size]) if size < 126 else bytes([mask_bit | 126]) + struct.pack("!H", size)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


class Side(asyncio.Protocol):
    """What MQTT would be; keeps what comes."""

    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.data = bytearray()
        self.lost = False
        self.changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, Stream)
        self.stream = transport
        self.changed.set()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.changed.set()

    async def until(self, true: Callable[["Side"], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not true(self):
                self.changed.clear()
                await self.changed.wait()


class Listening:
    """A listening ServerWebSocket; ``sides`` are those that were connected, ``refused`` why others were not."""

    def __init__(self, origins: tuple[str, ...] = ()) -> None:
        self.origins = origins
        self.sides: list[Side] = []
        self.refused: list[str] = []
        self.port = 0

    def make(self) -> ServerWebSocket:
        side = Side()
        self.sides.append(side)
        return ServerWebSocket(side, self.origins, self.refused.append)

    async def start(self, tls: ssl.SSLContext | None = None) -> asyncio.Server:
        server = await asyncio.get_running_loop().create_server(self.make, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        return server


@pytest.fixture
async def listening() -> AsyncIterator[Listening]:
    made = Listening(("http://plant.example",))
    server = await made.start()
    yield made
    for raw in Raw.all:
        raw.writer.close()
    Raw.all.clear()
    server.close()


def request(protocol: str = "mqtt", *lines: str, method: str = "GET", version: str = "13") -> bytes:
    head = [f"{method} /mqtt HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: keep-alive, Upgrade"]
    head += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Sec-WebSocket-Version: {version}"]
    if protocol:
        head.append(f"Sec-WebSocket-Protocol: {protocol}")
    return "\r\n".join([*head, *lines, "", ""]).encode()


class Raw:
    """A client made of bytes; all of them are closed at the end of a test."""

    all: ClassVar[list["Raw"]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.all.append(self)

    @classmethod
    async def connect(cls, port: int) -> "Raw":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    @classmethod
    async def open(cls, port: int) -> "Raw":
        raw = await cls.connect(port)
        assert (await raw.ask(request())).startswith("HTTP/1.1 101 ")
        return raw

    async def ask(self, head: bytes) -> str:
        """The head of the answer to a handshake."""
        self.writer.write(head)
        async with asyncio.timeout(WAIT_S):
            return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def frame(self) -> tuple[int, bytes]:
        async with asyncio.timeout(WAIT_S):
            first, size = await self.reader.readexactly(2)
            assert first & 0x80, "frames are sent whole"
            assert size < 0x80, "a server does not mask"
            if size == 126:
                (size,) = struct.unpack("!H", await self.reader.readexactly(2))
            return first & 0x0F, await self.reader.readexactly(size)

    async def end(self) -> bytes:
        async with asyncio.timeout(WAIT_S):
            return await self.reader.read()


async def test_both_sides_talk(listening: Listening) -> None:
    here = Side()
    stream = await dial(here, "127.0.0.1", listening.port)
    (there,) = listening.sides
    await there.until(lambda side: side.stream is not None)
    big = os.urandom(200_000)
    stream.write(b"hello")
    stream.write(big)
    await there.until(lambda side: len(side.data) == 5 + len(big))
    assert there.data == b"hello" + big
    assert there.stream is not None
    there.stream.write(big)
    await here.until(lambda side: len(side.data) == len(big))
    assert here.data == big
    assert stream.get_extra_info("peername")[1] == listening.port
    stream.close()
    await there.until(lambda side: side.lost)
    await here.until(lambda side: side.lost)
    assert listening.refused == []


async def test_over_tls() -> None:
    authority = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server_side)
    client_side = ssl.create_default_context()
    authority.configure_trust(client_side)
    listening = Listening()
    server = await listening.start(server_side)
    stream = await dial(Side(), "localhost", listening.port, tls=client_side)
    stream.write(b"sealed")
    await listening.sides[0].until(lambda side: side.data == b"sealed")
    assert stream.get_extra_info("ssl_object") is not None
    stream.abort()
    server.close()


async def test_frames_may_be_cut_anywhere_and_have_pings_between(listening: Listening) -> None:
    raw = await Raw.open(listening.port)
    raw.send(frame(BINARY, b"ab", fin=False) + frame(PING, b"are you there"))
    assert await raw.frame() == (PONG, b"are you there")
    for byte in frame(CONTINUATION, b"cd", fin=False) + frame(CONTINUATION, b"", fin=True) + frame(BINARY, b"e" * 300):
        raw.send(bytes([byte]))
    raw.send(frame(PONG, b"of nothing"))
    (side,) = listening.sides
    await side.until(lambda side: len(side.data) == 304)
    assert side.data == b"abcd" + b"e" * 300
    raw.writer.close()
    await side.until(lambda side: side.lost)


async def test_what_a_long_frame_brings_is_handed_on_before_its_end(listening: Listening) -> None:
    """What waits here is bounded by one read, however long a frame says that it is."""
    raw = await Raw.open(listening.port)
    raw.send(b"\x82\xff" + struct.pack("!Q", 1 << 40) + bytes(4) + b"first bytes")
    await listening.sides[0].until(lambda side: side.data == b"first bytes")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(frame(TEXT, b"text"), 1003, id="text [MQTT-6.0.0-1]"),
        pytest.param(frame(BINARY, b"plain", masked=False), 1002, id="not masked"),
        pytest.param(frame(3, b""), 1002, id="opcode of nothing"),
        pytest.param(frame(PING, b"", fin=False), 1002, id="a ping in parts"),
        pytest.param(frame(CONTINUATION, b"?"), 1002, id="goes on with nothing"),
        pytest.param(frame(CLOSE, struct.pack("!H", 1000)), 1000, id="close"),
    ],
)
async def test_what_ends_a_connection(listening: Listening, sent: bytes, code: int) -> None:
    raw = await Raw.open(listening.port)
    raw.send(sent + frame(BINARY, b"after the end"))
    opcode, payload = await raw.frame()
    assert (opcode, struct.unpack("!H", payload[:2])[0]) == (CLOSE, code)
    assert await raw.end() == b""
    (side,) = listening.sides
    await side.until(lambda side: side.lost)
    assert side.data == b""


async def test_a_last_word_is_read_before_the_connection_ends(listening: Listening) -> None:
    raw = await Raw.open(listening.port)
    (side,) = listening.sides
    assert side.stream is not None
    assert side.stream.can_write_eof()
    side.stream.write(b"last")
    side.stream.write_eof()
    side.stream.write(b"too late")
    assert side.stream.is_closing()
    raw.send(frame(BINARY, b"still sending"))
    assert await raw.frame() == (BINARY, b"last")
    assert await raw.frame() == (CLOSE, struct.pack("!H", 1000))
    raw.send(frame(CLOSE, struct.pack("!H", 1000)))
    assert await raw.end() == b""
    await side.until(lambda side: side.lost)


async def test_reading_can_be_paused(listening: Listening) -> None:
    raw = await Raw.open(listening.port)
    (side,) = listening.sides
    assert side.stream is not None
    side.stream.pause_reading()
    raw.send(frame(BINARY, b"held"))
    await raw.writer.drain()
    await asyncio.sleep(0.05)
    assert side.data == b""
    side.stream.resume_reading()
    await side.until(lambda side: side.data == b"held")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(request(""), 400, id="no subprotocol [MQTT-6.0.0-3]"),
        pytest.param(request("chat, superchat"), 400, id="others' subprotocols"),
        pytest.param(request("mqtt", "Origin: http://elsewhere.example"), 403, id="a page of elsewhere"),
        pytest.param(request(version="12"), 426, id="version"),
        pytest.param(request(method="POST"), 400, id="method"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, id="a browser's GET"),
        pytest.param(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00\r\n\r\n", 400, id="MQTT without WebSocket"),
    ],
)
async def test_handshakes_that_are_refused(listening: Listening, head: bytes, status: int) -> None:
    raw = await Raw.connect(listening.port)
    assert (await raw.ask(head)).startswith(f"HTTP/1.1 {status} ")
    assert await raw.end() == b""
    assert len(listening.refused) == 1
    assert listening.sides[0].stream is None
    assert not listening.sides[0].lost


async def test_a_header_that_is_no_text_is_refused(listening: Listening) -> None:
    raw = await Raw.connect(listening.port)
    raw.send(request().replace(b"Protocol: mqtt", b"Protocol: \xff"))
    assert await raw.end() == b""
    assert len(listening.refused) == 1


@pytest.mark.parametrize("protocol", ["mqtt", "mqttv3.1", "chat, mqtt"])
async def test_the_subprotocol_is_answered(listening: Listening, protocol: str) -> None:
    raw = await Raw.connect(listening.port)
    answer = await raw.ask(request(protocol, "Origin: http://plant.example"))
    assert answer.startswith("HTTP/1.1 101 ")
    assert f"sec-websocket-protocol: {protocol.split(', ')[-1]}\r\n" in answer.lower()
    assert "extensions" not in answer.lower()


async def test_who_says_nothing_is_not_waited_for(listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "HANDSHAKE_TIMEOUT_S", 0.05)
    raw = await Raw.connect(listening.port)
    assert await raw.end() == b""
    assert listening.refused == ["no handshake in time"]


async def answering(answer: bytes) -> tuple[asyncio.Server, int]:
    """A server that gives this answer to everything."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP status 404"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "HTTP status 200"),
        (b"", "closed during the handshake"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "Bad HTTP message"),
        (
            b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: bad\r\n\r\n",
            "Bad accept token",
        ),
    ],
)
async def test_servers_that_a_client_does_not_take(answer: bytes, why: str) -> None:
    server, port = await answering(answer)
    here = Side()
    with pytest.raises(WebSocketError, match=why):
        await dial(here, "127.0.0.1", port)
    assert here.stream is None
    server.close()


async def test_the_request_says_what_is_asked_for() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(WebSocketError):
        await dial(Side(), "127.0.0.1", port, path="/broker?x=1", headers=[("Authorization", "Bearer t")])
    head = heads[0].decode()
    assert head.startswith("GET /broker?x=1 HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{port}\r\n" in head
    assert "Sec-WebSocket-Protocol: mqtt\r\n" in head
    assert "Authorization: Bearer t\r\n" in head
    server.close()


@pytest.mark.parametrize(
    ("origin", "host", "origins", "allowed"),
    [
        ("", "gateway:8083", (), True),  # no browser
        ("http://127.0.0.1:8080", "127.0.0.1:8083", (), True),
        ("http://localhost", "localhost:8083", (), True),
        ("https://[fe80::1]:8443", "[fe80::1]:8083", (), True),
        ("http://gateway", "gateway:8083", (), False),  # a name that may lead anywhere tomorrow
        ("http://gateway", "gateway:8083", ("http://gateway",), True),
        ("http://127.0.0.1", "127.0.0.2:8083", (), False),
        ("null", "127.0.0.1:8083", (), False),
        ("http://", "", (), False),
        ("http://[", "127.0.0.1", (), False),
        ("null", "127.0.0.1:8083", ("*",), True),
    ],
)
def test_whose_pages_may_connect(origin: str, host: str, origins: tuple[str, ...], allowed: bool) -> None:
    assert origin_allowed(origin, host, origins) is allowed
