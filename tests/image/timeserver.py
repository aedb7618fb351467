"""A time server on loopback port 123, whose time is what the test says: all that systemd-timesyncd wants of one."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Final

SINCE_1900_S: Final = 2_208_988_800
ERA_S: Final = 1 << 32  # in which 32 bits of seconds begin anew, in 2036
_SERVER: Final = 0b00_100_100  # no leap second, version 4, a server
_ALIKE_S: Final = 1 << 16  # root delay and dispersion count in these parts of a second


@contextlib.contextmanager
def time_server(seconds: float) -> Iterator[list[float]]:
    """Unix time ``seconds`` now, and goes on from there; yields when it was asked (monotonic)."""
    assert seconds + SINCE_1900_S < ERA_S, "the time protocol's own count begins anew before that"
    begun = time.monotonic()
    asked: list[float] = []
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 123))
    sock.settimeout(0.2)
    ending = threading.Event()

    def answer() -> None:
        while not ending.is_set():
            try:
                question, peer = sock.recvfrom(512)
            except TimeoutError:
                continue
            now = _stamp(seconds + time.monotonic() - begun)
            head = struct.pack("!BBbbII4s", _SERVER, 1, 6, -20, _ALIKE_S >> 10, _ALIKE_S >> 10, b"TEST")
            sock.sendto(head + now + question[40:48] + now + now, peer)
            asked.append(time.monotonic())

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield asked
    finally:
        ending.set()
        thread.join()
        sock.close()


def _stamp(seconds: float) -> bytes:
    whole = int(seconds)
    return struct.pack("!II", whole + SINCE_1900_S, int((seconds - whole) * ERA_S))
