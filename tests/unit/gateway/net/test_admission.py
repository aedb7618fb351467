import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator
from typing import cast

import pytest

from gateway.core.limits import Limits
from gateway.core.router import Router
from gateway.net.admission import THREADS, Admission
from gateway.net.connection import Connection, Turn
from tests import wire_format as mqtt


class Rig:
    """Connections over socket pairs; ``verify`` is what the test says."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.router = Router(Limits(), None, 0, 1)
        self.turn = Turn(self.router, lambda: 0, loop.call_soon, self.after, lambda peer, error: None)
        self.admission = Admission(self.turn)
        self.most = 0
        self._lock = threading.Lock()
        self._now = 0

    def after(self, now: int) -> None:
        self.admission.run()

    def verify(self, username: str, password: bytes) -> bool:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.02)
        with self._lock:
            self._now -= 1
        if username == "breaks":
            raise RuntimeError("of the password file")
        return (username, password) == ("ann", b"secret")

    async def connack(
        self, anonymous: bool, username: str | None = None, password: str | None = None, version: int = 4
    ) -> int:
        """The reason code of the CONNACK."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        connection = Connection(self.turn, "peer", anonymous)
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: cast(asyncio.Protocol, connection), theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(mqtt.connect("", version, username=username, password=password))
        async with asyncio.timeout(5):
            answer = await reader.read(4)
        writer.close()
        await writer.wait_closed()
        if not answer:
            raise ConnectionResetError
        assert answer[0] == 0x20
        return answer[3]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    yield made
    made.admission.close()


async def test_without_users_the_rule_of_the_listener_holds_for_all(rig: Rig) -> None:
    assert await rig.connack(True) == 0
    assert await rig.connack(True, "ann", "any") == 0
    assert await rig.connack(False) == 5
    assert await rig.connack(False, "ann", "any") != 0
    assert await rig.connack(False, version=5) == 0x87


async def test_with_users_a_name_must_be_right_everywhere(rig: Rig) -> None:
    rig.admission.verify = rig.verify
    for anonymous in (True, False):
        assert await rig.connack(anonymous, "ann", "secret") == 0
        assert await rig.connack(anonymous, "ann", "wrong") in (4, 5)
        assert await rig.connack(anonymous, "ann", "wrong", version=5) == 0x86
        assert await rig.connack(anonymous, "breaks", "x") in (4, 5)
    assert await rig.connack(True) == 0
    assert await rig.connack(False) == 5


async def test_many_at_once_share_the_threads(rig: Rig) -> None:
    rig.admission.verify = rig.verify
    codes = await asyncio.gather(*(rig.connack(False, "ann", "secret") for _ in range(20)))
    assert codes == [0] * 20
    assert rig.most == THREADS


async def test_after_close_nobody_gets_in(rig: Rig) -> None:
    rig.admission.close()
    with pytest.raises(ConnectionResetError):
        await rig.connack(True)
