"""Expiry over restarts of the process and of the machine, with clocks that are synchronised or not, or jump.

The broker runs in memory, on the clocks of a machine that the test turns.
"""

from collections.abc import Iterator
from typing import final

import pytest

from gateway.store.clock import Reading, offset_at_start, stamp
from tests.conformance.client import Client
from tests.conformance.peer import MemoryHost, Peer
from tests.memory import MemoryBroker

SECOND = 1000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
JUMPS = [14 * DAY, -365 * DAY]


@final
class Machine:
    """Clocks, and the broker on them: gateway time is the uptime and an offset that each start works out."""

    def __init__(self) -> None:
        self.boot, self.synced = 1, True
        self.uptime, self.wall = 40_000, 1_800_000_000_000
        self.broker = MemoryBroker()
        self.offset = self.broker.now - self.uptime

    def pass_time(self, milliseconds: int) -> None:
        """The broker serves."""
        self.broker.advance(milliseconds)
        self.uptime += milliseconds
        self.wall += milliseconds

    def save_stamp(self) -> None:
        self.broker.store.meta.update(stamp(self._reading(), self.offset))

    def restart(self, away: int = 0, *, machine: bool = False) -> None:
        """kill -9, and a start ``away`` ms later; of the whole machine, whose uptime then starts anew."""
        self.wall += away
        self.uptime += away
        if machine:
            self.boot += 1
            self.uptime = 7 * SECOND
        self.offset = offset_at_start(self.broker.store.meta, self._reading())
        self.broker.now = self.uptime + self.offset
        self.broker.crash()

    def _reading(self) -> Reading:
        return Reading(f"boot-{self.boot}", self.uptime, self.wall, self.synced)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def peer(machine: Machine) -> Iterator[Peer]:
    made = Peer(MemoryHost(machine.broker), "c")
    yield made
    made.close()


def queue(peer: Peer, machine: Machine, seconds: int) -> None:
    """A message, a retained message, a session and a will that all have so many seconds left."""
    watcher = peer.connect("watcher", expiry=0xFFFFFFFF)
    watcher.subscribe("c/w", qos=1)
    watcher.drop()
    away = peer.connect("away", expiry=0xFFFFFFFF)
    away.subscribe("c/t", qos=1)
    away.drop()
    publisher = peer.connect("p")
    publisher.put("c/t", b"message", message_expiry_interval=seconds)
    publisher.put("c/r", b"retained", retain=True, message_expiry_interval=seconds)
    peer.connect("brief", expiry=seconds).drop()
    mortal = peer.connect(
        "mortal", expiry=100_000_000, will=("c/w", b"gone", 1, False, {"will_delay_interval": seconds})
    )
    mortal.drop()
    machine.save_stamp()
    machine.broker.advance(0)


def look(client: Client, seconds: int) -> list[bytes]:
    """Payloads that come, each with these seconds left (0: none of them tells)."""
    found = client.take_all()
    for got in found:
        assert not seconds or abs(got.props["message_expiry_interval"] - seconds) <= 2
    return [got.payload for got in found]


def check(peer: Peer, left: int) -> None:
    """Everything of ``queue`` has ``left`` seconds; all is over when that is not above 0."""
    there = left > 0
    assert look(peer.connect("away", clean=False, expiry=0xFFFFFFFF), max(left, 0)) == [b"message"] * there
    looks = peer.connect("looks")
    looks.subscribe("c/r")
    assert look(looks, max(left, 0)) == [b"retained"] * there
    names = {row["client_id"] for row in sessions(peer)}
    assert ("c-brief" in names) is there
    watcher = peer.connect("watcher", clean=False, expiry=0xFFFFFFFF)
    assert look(watcher, 0) == [b"gone"] * (not there)


def sessions(peer: Peer) -> list[dict[str, object]]:
    assert isinstance(peer.host, MemoryHost)
    broker = peer.host.broker
    return list(broker.router.sessions(broker.now))


@pytest.mark.parametrize("jump", JUMPS)
def test_a_wall_clock_that_jumps_while_it_serves(peer: Peer, machine: Machine, jump: int) -> None:
    queue(peer, machine, 100)
    machine.wall += jump
    machine.save_stamp()
    machine.pass_time(60 * SECOND)
    machine.wall -= 2 * jump
    machine.restart(20 * SECOND)
    machine.pass_time(10 * SECOND)
    check(peer, 10)


@pytest.mark.parametrize("jump", [0, *JUMPS])
@pytest.mark.parametrize("away", [50, 95, 101, 500])
@pytest.mark.parametrize("synced", [False, True])
def test_within_a_boot_expiry_is_exact(peer: Peer, machine: Machine, jump: int, away: int, synced: bool) -> None:
    """Whatever the wall clock says, and whether anybody vouches for it: the time away counts, no more and no less."""
    queue(peer, machine, 100)
    machine.synced = synced
    machine.wall += jump
    machine.restart(away * SECOND)
    machine.pass_time(500)
    check(peer, 100 - away)


@pytest.mark.parametrize("restarts", [1, 5])
def test_time_goes_on_over_many_restarts(peer: Peer, machine: Machine, restarts: int) -> None:
    queue(peer, machine, 1000)
    for _ in range(restarts):
        machine.wall += JUMPS[0]
        machine.restart(100 * SECOND)
        machine.pass_time(50 * SECOND)
    check(peer, 1000 - 150 * restarts)


@pytest.mark.parametrize("away", [100, 3500, 3700, 20 * 86_400])
def test_a_machine_with_true_clocks_counts_the_time_it_was_off(peer: Peer, machine: Machine, away: int) -> None:
    queue(peer, machine, 3600)
    machine.restart(away * SECOND, machine=True)
    machine.pass_time(500)
    check(peer, 3600 - away)


@pytest.mark.parametrize("jump", [0, *JUMPS])
@pytest.mark.parametrize("before", [False, True])
def test_an_unsure_clock_never_shortens(peer: Peer, machine: Machine, jump: int, before: bool) -> None:
    """Not synchronised when the stamp was saved, or at the start: the time off counts nothing, messages are kept."""
    machine.synced = not before
    queue(peer, machine, 3600)
    machine.pass_time(600 * SECOND)
    machine.save_stamp()
    machine.synced = before
    machine.wall += jump
    machine.restart(5 * HOUR, machine=True)
    machine.pass_time(600 * SECOND)
    check(peer, 2400)


def test_a_clock_that_went_back_counts_nothing(peer: Peer, machine: Machine) -> None:
    queue(peer, machine, 3600)
    machine.wall -= 365 * DAY
    machine.restart(5 * HOUR, machine=True)
    machine.pass_time(600 * SECOND)
    check(peer, 3000)


def test_what_passed_since_the_last_stamp_is_all_that_a_dead_machine_forgets(peer: Peer, machine: Machine) -> None:
    queue(peer, machine, 3600)
    machine.synced = False
    machine.pass_time(1000 * SECOND)
    machine.save_stamp()
    machine.pass_time(60 * SECOND)
    machine.restart(5 * HOUR, machine=True)
    check(peer, 2600)


@pytest.mark.parametrize("kind", ["process", "machine"])
def test_a_session_that_was_connected_has_all_of_its_expiry_before_it(peer: Peer, machine: Machine, kind: str) -> None:
    """Nobody knows when its connection ended: from the start on."""
    peer.connect("online", expiry=100)
    machine.pass_time(1000 * SECOND)
    machine.save_stamp()
    machine.restart(1000 * SECOND, machine=kind == "machine")
    machine.pass_time(95 * SECOND)
    assert "c-online" in {row["client_id"] for row in sessions(peer)}
    machine.pass_time(6 * SECOND)
    assert "c-online" not in {row["client_id"] for row in sessions(peer)}
