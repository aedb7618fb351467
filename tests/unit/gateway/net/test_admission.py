import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import cast

import pytest

from gateway.core.limits import Limits
from gateway.core.router import Router
from gateway.net.admission import THREADS, Admission
from gateway.net.connection import Connection, Turn
from gateway.net.flapping import Flapping
from gateway.net.throttle import Failures
from tests import wire_format as mqtt
from tests.waiting import until


class Rig:
    """Connections over socket pairs; ``verify`` is what the test says."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.router = Router(Limits(), None, 0, 1)
        self.turn = Turn(self.router, lambda: 0, loop.call_soon, self.after, lambda peer, error: None)
        self.admission = Admission(self.turn)
        self.most = 0
        self.asked: list[str] = []  # the users whose passwords were hashed
        self._lock = threading.Lock()
        self._now = 0

    def after(self, now: int) -> None:
        self.admission.run()

    def verify(self, username: str, password: bytes) -> bool:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.asked.append(username)
        time.sleep(0.02)
        with self._lock:
            self._now -= 1
        if username == "breaks":
            raise RuntimeError("of the password file")
        return (username, password) == ("ann", b"secret")

    async def connack(
        self, anonymous: bool, username: str | None = None, password: str | None = None, version: int = 4,
        peer: str = "10.0.0.1:5000", client_id: str = "",
    ) -> int:  # fmt: skip
        """The reason code of the CONNACK."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        connection = Connection(self.turn, peer, anonymous)
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: cast(asyncio.Protocol, connection), theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(mqtt.connect(client_id, version, username=username, password=password))
        async with asyncio.timeout(60):
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
    codes = await asyncio.gather(*(rig.connack(False, f"x{number}", "wrong") for number in range(20)))
    assert codes == [4] * 20
    assert len(rig.asked) == 20
    assert rig.most == THREADS


async def test_after_close_nobody_gets_in(rig: Rig) -> None:
    rig.admission.close()
    with pytest.raises(ConnectionResetError):
        await rig.connack(True)


async def test_a_login_is_hashed_once_until_users_change(rig: Rig) -> None:
    verify = rig.verify
    rig.admission.verify = verify
    for _ in range(3):
        assert await rig.connack(False, "ann", "secret") == 0
    assert await rig.connack(False, "ann", "wrong") == 4
    assert await rig.connack(False, "annsecret", "") == 4
    assert rig.asked == ["ann", "ann", "annsecret"]
    rig.admission.forget()
    assert await rig.connack(False, "ann", "secret") == 0
    assert rig.asked == ["ann", "ann", "annsecret", "ann"]


async def test_what_was_right_under_users_of_before_is_not_remembered(rig: Rig) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(username: str, password: bytes) -> bool:
        started.set()
        return go_on.wait(60)

    rig.admission.verify = slow
    login = asyncio.create_task(rig.connack(False, "ann", "old"))
    await asyncio.to_thread(started.wait, 60)
    rig.admission.forget()
    rig.admission.verify = rig.verify
    go_on.set()
    assert await login == 0
    assert await rig.connack(False, "ann", "old") == 4


@pytest.mark.parametrize(("version", "reason"), [(4, 3), (5, 0x9F)])
async def test_wrong_passwords_from_one_address_are_refused_unseen(rig: Rig, version: int, reason: int) -> None:
    rig.admission.verify = rig.verify
    rig.admission.failures = Failures(3)
    assert await rig.connack(False, "ann", "secret") == 0
    wrong = 4 if version == 4 else 0x86
    codes = [await rig.connack(False, "eve", "wrong", version) for _ in range(6)]
    assert codes == [wrong] * 3 + [reason] * 3
    assert rig.asked == ["ann", "eve", "eve", "eve"]
    codes = [await rig.connack(False, f"guess{i}", "wrong", version) for i in range(13)]
    assert codes == [wrong] * 12 + [reason]
    assert await rig.connack(False, "ann", "secret", version) == 0, "who was in before comes in again"
    assert await rig.connack(False, "new", "secret", version) == reason
    assert await rig.connack(False, "x", "wrong", version, peer="10.0.0.2:5000") == wrong
    assert await rig.connack(True, None, None, version) == 0


async def test_a_flood_of_wrong_passwords_costs_few_hashes(rig: Rig) -> None:
    rig.admission.verify = rig.verify
    rig.admission.failures = Failures(3)
    codes = await asyncio.gather(*(rig.connack(False, "x", "wrong") for _ in range(40)))
    assert sorted(set(codes)) == [3, 4]
    assert len(rig.asked) <= 3 + THREADS


async def test_those_who_waited_are_refused_one_in_each_turn_of_the_loop(rig: Rig) -> None:
    """Live messages come in between; each turn that touched the router asks for the next, which must not add up."""
    go = threading.Event()
    rig.admission.verify = lambda _username, _password: not go.wait(60)
    rig.admission.failures = Failures(1)
    logins = [asyncio.create_task(rig.connack(False, "x", "wrong")) for _ in range(40)]
    waiting = rig.admission._waiting
    await until(lambda: len(waiting) == 40 - THREADS)
    go.set()
    left = [len(waiting)]
    while waiting:
        await asyncio.sleep(0)
        left.append(len(waiting))
    assert max(before - after for before, after in pairwise(left)) == 1
    assert set(await asyncio.gather(*logins)) == {3, 4}


@pytest.mark.parametrize(("version", "reason"), [(4, 5), (5, 0x8A)])
async def test_who_is_banned_is_refused_before_any_password(rig: Rig, version: int, reason: int) -> None:
    rig.admission.verify = rig.verify
    rig.admission.banned = lambda host, client_id, user: host == "10.0.0.9" or client_id == "bad" or user == "eve"
    assert await rig.connack(True, None, None, version, client_id="bad") == reason
    assert await rig.connack(False, "eve", "any", version) == reason
    assert await rig.connack(False, "ann", "secret", version, peer="10.0.0.9:1") == reason
    assert rig.asked == []
    assert await rig.connack(False, "ann", "secret", version, client_id="good") == 0


async def test_clients_that_share_a_password_cost_few_hashes(rig: Rig) -> None:
    """After a power cut they all come at once, before any of them is known."""
    rig.admission.verify = rig.verify
    codes = await asyncio.gather(*(rig.connack(False, "ann", "secret") for _ in range(150)))
    assert codes == [0] * 150
    assert len(rig.asked) <= THREADS


async def test_who_comes_and_goes_is_kept_out_and_named(rig: Rig) -> None:
    rig.admission.flapping = Flapping(3, 1000, 5000)
    for peer in ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2"):
        assert await rig.connack(True, client_id="a", version=5, peer=peer) == 0
    assert await rig.connack(True, client_id="a", version=5, peer="10.0.0.2:2") == 0x8A
    (alarm,) = rig.router.take_alarms()
    assert "a has connected more than 3 times within 1 s, the last time from 10.0.0.1:2 and 10.0.0.2:2" in alarm
    assert await rig.connack(True, client_id="a", version=5) == 0x8A
    assert await rig.connack(True, client_id="b", version=5) == 0
    assert rig.admission.flapping.lift("a", 0)
    assert await rig.connack(True, client_id="a", version=5) == 0


async def test_only_who_is_let_in_counts(rig: Rig) -> None:
    """Else anybody could keep a client out by its name."""
    rig.admission.verify = rig.verify
    rig.admission.flapping = Flapping(3, 1000, 5000)
    for _ in range(10):
        assert await rig.connack(False, "ann", "wrong", client_id="a", version=5) == 0x86
    assert await rig.connack(False, "ann", "secret", client_id="a", version=5) == 0
    for _ in range(10):
        assert await rig.connack(True, client_id="", version=5) == 0
