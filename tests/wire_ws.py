"""A blocking socket that speaks WebSocket, for ``Wire``: the frames are made here, not by the broker's library."""

import os
import socket
import struct
from typing import Self, final

CONTINUATION, BINARY, CLOSE, PING, PONG = 0, 2, 8, 9, 10


@final
class WebSocketSocket:
    """The methods of a socket that ``Wire`` uses; each ``sendall`` is a message, in frames of ``cut`` bytes."""

    def __init__(self, sock: socket.socket, cut: int = 1 << 20) -> None:
        self.sock = sock
        self.cut = cut
        self._got = bytearray()

    @classmethod
    def open(cls, sock: socket.socket, cut: int = 1 << 20, path: str = "/mqtt") -> Self:
        """After the handshake."""
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade"]
        lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]
        sock.sendall("\r\n".join([*lines, "Sec-WebSocket-Protocol: mqtt", "", ""]).encode())
        made = cls(sock, cut)
        while b"\r\n\r\n" not in made._got:
            more = sock.recv(4096)
            assert more, "closed during the handshake"
            made._got += more
        head, _, rest = bytes(made._got).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        made._got = bytearray(rest)
        return made

    def sendall(self, data: bytes) -> None:
        parts = [data[start : start + self.cut] for start in range(0, len(data), self.cut)] or [b""]
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            self._frame((BINARY if number == 0 else CONTINUATION) | (0x80 if last else 0), part)

    def recv(self, size: int) -> bytes:
        """The payload of the next frame of data, b"" when the other side closes."""
        while True:
            frame = self._take()
            if frame is None:
                more = self.sock.recv(262_144)
                if not more:
                    return b""
                self._got += more
                continue
            opcode, payload = frame
            if opcode == CLOSE:
                self._frame(0x80 | CLOSE, payload)
                return b""
            if opcode == PING:
                self._frame(0x80 | PONG, payload)
            elif payload:
                return payload

    def settimeout(self, seconds: float) -> None:
        self.sock.settimeout(seconds)

    def shutdown(self, how: int) -> None:
        self.sock.shutdown(how)

    def close(self) -> None:
        self.sock.close()

    def _frame(self, head: int, payload: bytes) -> None:
        size, mask = len(payload), os.urandom(4)
        if size < 126:
            length = bytes([0x80 | size])
        elif size < 65536:
            length = bytes([0x80 | 126]) + struct.pack("!H", size)
        else:
            length = bytes([0x80 | 127]) + struct.pack("!Q", size)
        key = int.from_bytes(mask * (size // 4 + 1), "big") >> (8 * (4 - size % 4))
        masked = (int.from_bytes(payload, "big") ^ key).to_bytes(size, "big")
        self.sock.sendall(bytes([head]) + length + mask + masked)

    def _take(self) -> tuple[int, bytes] | None:
        data = self._got
        if len(data) < 2:
            return None
        size, at = data[1], 2
        if size == 126:
            size, at = int.from_bytes(data[2:4], "big"), 4
        elif size == 127:
            size, at = int.from_bytes(data[2:10], "big"), 10
        if len(data) < at + size:
            return None
        payload = bytes(data[at : at + size])
        opcode = data[0] & 0x0F
        del data[: at + size]
        return opcode, payload
