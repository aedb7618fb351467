"""Connections on a transport that only notes what it is told, with the real core behind them."""

import asyncio
from collections.abc import Callable
from typing import cast, final

import pytest

from gateway.core.limits import Limits
from gateway.core.router import Router
from gateway.net.connection import AWAKE_TURNS, CLOSE_MS, LUCK_MAX, READ_BYTES_MAX, TRY_TURNS, Connection, Turn
from tests import wire_format as mqtt

PING = b"\xc0\0"


@final
class Transport:
    """The network, faked: takes all bytes at once, or holds them while ``stuck``."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.unsent = 0
        self.stuck = False
        self.reading = True
        self.ended = False
        self.closed = False
        self.aborted = False
        self.broken = False

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self.high, self.low = high, low

    def write(self, data: bytes) -> None:
        if self.broken:
            raise RuntimeError("of the transport")
        self.writes.append(data)
        if self.stuck:
            self.unsent += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def is_aborted(self) -> bool:
        return self.aborted

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.closed

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


@final
class Loop:
    """One event loop turn at a time; the disk is as fast as light."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.now = 1000
        self.router = Router(limits or Limits(), None, self.now, 1)
        self.soon: list[Callable[[], None]] = []
        self.faults: list[Exception] = []
        self.admit = True
        self.commits = True
        self.turn = Turn(self.router, lambda: self.now, self.soon.append, self.after, self.on_fault)

    def on_fault(self, peer: str, error: Exception) -> None:
        self.faults.append(error)

    def after(self, now: int) -> None:
        if self.admit:
            for client in self.router.take_auth():
                self.router.on_authenticated(client, True, self.now)
                self.turn.touch()
        if self.commits and (batch := self.router.take_batch(self.now)) is not None:
            self.router.on_committed(batch.number, self.now)
            self.turn.touch()

    def run(self) -> int:
        """Run turns until nothing is left to do; the number of turns."""
        turns = 0
        while self.soon:
            turns += 1
            assert turns < 50, "the loop never comes to rest"
            due, self.soon[:] = list(self.soon), []
            assert len(due) == 1, "the output is run once a turn"
            due[0]()
        return turns

    def open(self) -> tuple[Connection, Transport]:
        connection, transport = Connection(self.turn, "peer:1", True), Transport()
        connection.connection_made(cast(asyncio.Transport, transport))
        return connection, transport

    def connect(self, client_id: str, version: int = 4) -> tuple[Connection, Transport]:
        connection, transport = self.open()
        connection.data_received(mqtt.connect(client_id, version))
        self.run()
        assert transport.writes[0][0] == 0x20
        transport.writes.clear()
        return connection, transport

    def lose(self, connection: Connection) -> None:
        connection.connection_lost(None)
        self.run()


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_many_packets_of_one_turn_are_one_write(loop: Loop) -> None:
    sender, _ = loop.connect("sender")
    reader, transport = loop.connect("reader")
    reader.data_received(mqtt.subscribe([("t", 0)], 1))
    loop.run()
    transport.writes.clear()
    sender.data_received(mqtt.publish("t", b"1") + mqtt.publish("t", b"2"))
    sender.data_received(mqtt.publish("t", b"3"))
    assert transport.writes == []
    loop.run()
    assert transport.writes == [mqtt.publish("t", b"1") + mqtt.publish("t", b"2") + mqtt.publish("t", b"3")]


def test_packets_may_come_byte_by_byte(loop: Loop) -> None:
    connection, transport = loop.open()
    for byte in mqtt.connect("slow", 4) + mqtt.frame(0xC0, b""):
        connection.data_received(bytes([byte]))
    loop.run()
    assert b"".join(transport.writes) == b"\x20\x02\0\0\xd0\0"


def test_while_authentication_is_open_nothing_more_is_read(loop: Loop) -> None:
    loop.admit = False
    connection, transport = loop.open()
    connection.data_received(mqtt.connect("early", 4) + mqtt.frame(0xC0, b""))
    loop.run()
    assert not transport.is_reading()
    assert transport.writes == []
    loop.admit = True
    loop.turn.touch()
    loop.run()
    assert transport.is_reading()
    assert b"".join(transport.writes) == b"\x20\x02\0\0\xd0\0"


def test_a_last_word_is_flushed_and_the_peer_may_close_first(loop: Loop) -> None:
    connection, transport = loop.connect("five", 5)
    connection.data_received(b"\x30\xff\xff\xff\xff")
    loop.run()
    assert transport.writes[0][0] == 0xE0
    assert transport.ended
    assert not transport.closed
    connection.data_received(b"more of the same")
    loop.run()
    assert len(transport.writes) == 1
    assert connection.eof_received() is False
    loop.lose(connection)
    assert loop.turn.lingering == {}
    assert loop.turn.open_connections == 0
    assert loop.faults == []


def test_without_a_last_word_it_closes_at_once(loop: Loop) -> None:
    connection, transport = loop.connect("four", 4)
    connection.data_received(mqtt.disconnect(4))
    loop.run()
    assert transport.writes == []
    assert transport.closed


def test_a_peer_that_does_not_take_its_last_word_is_aborted(loop: Loop) -> None:
    connection, transport = loop.connect("five", 5)
    connection.data_received(b"\x30\xff\xff\xff\xff")
    loop.run()
    loop.turn.sweep(loop.now + CLOSE_MS - 1)
    assert not transport.is_aborted()
    loop.turn.sweep(loop.now + CLOSE_MS)
    assert transport.is_aborted()
    loop.lose(connection)


def test_a_lost_connection_is_told_to_the_core_once(loop: Loop) -> None:
    connection, _ = loop.connect("gone")
    assert loop.router.status(loop.now)["connections"] == 1
    loop.lose(connection)
    assert loop.router.status(loop.now)["connections"] == 0
    assert loop.faults == []


def test_a_reader_that_is_behind_gets_the_rest_when_it_can(loop: Loop) -> None:
    sender, _ = loop.connect("sender")
    reader, transport = loop.connect("reader")
    reader.data_received(mqtt.subscribe([("t", 0)], 1))
    loop.run()
    transport.writes.clear()
    transport.stuck = True
    for _ in range(30):
        sender.data_received(mqtt.publish("t", b"x" * 100_000))
        loop.run()
    assert len(transport.writes) < 25  # about a megabyte, the rest waits in its queue
    transport.stuck = False
    transport.unsent = 0
    reader.resume_writing()
    loop.run()
    assert sum(map(len, transport.writes)) == 30 * len(mqtt.publish("t", b"x" * 100_000))


def test_a_defect_costs_its_connection_only(loop: Loop) -> None:
    breaks, transport = loop.connect("breaks")
    other, healthy = loop.connect("other")
    for connection in (breaks, other):
        connection.data_received(mqtt.subscribe([("t", 0)], 1))
    loop.run()
    healthy.writes.clear()
    transport.broken = True
    other.data_received(mqtt.publish("t", b"to both"))
    loop.run()
    assert [str(error) for error in loop.faults] == ["of the transport"]
    assert transport.is_aborted()
    assert healthy.writes == [mqtt.publish("t", b"to both")]


def test_one_that_floods_waits_for_the_next_turn(loop: Loop) -> None:
    connection, transport = loop.connect("flood")
    connection.data_received(PING * (READ_BYTES_MAX // 4))
    assert transport.is_reading()
    connection.data_received(PING * (READ_BYTES_MAX // 4))
    assert not transport.is_reading()
    loop.run()
    assert transport.is_reading()
    connection.data_received(PING)
    assert transport.is_reading()


def test_who_does_not_read_its_answers_is_read_no_further() -> None:
    limits = Limits()
    limits.out_high_bytes, limits.max_packet_bytes = 10_000, 1_000
    loop = Loop(limits)
    connection, transport = loop.connect("deaf")
    transport.stuck = True
    for _ in range(100):
        if transport.is_reading():
            connection.data_received(PING * 500)
            loop.run()
    assert 21_000 < transport.get_write_buffer_size() < 23_000
    assert not transport.is_reading()
    transport.stuck = False
    transport.unsent = 0
    connection.resume_writing()
    loop.run()
    assert transport.is_reading()


def exchange(loop: Loop, connection: Connection, empty: int) -> int:
    """A packet, its turn, then ``empty`` more if the loop wants them; the number that it took of these."""
    connection.data_received(PING)
    loop.soon.pop()()
    taken = 0
    while taken < empty and loop.soon:
        taken += 1
        loop.soon.pop()()
    return taken


def test_the_loop_stays_awake_for_who_answers_within_a_few_turns(loop: Loop) -> None:
    connection, _ = loop.connect("one")
    before = [exchange(loop, connection, 3) for _ in range(TRY_TURNS)]
    assert sorted(set(before)) == [0, 3], "tried, and left again"
    for _ in range(LUCK_MAX):
        assert exchange(loop, connection, 3) == 3
    assert exchange(loop, connection, AWAKE_TURNS + 5) == AWAKE_TURNS, "then it sleeps"
    assert loop.soon == []


def test_the_loop_sleeps_when_staying_awake_does_not_pay(loop: Loop) -> None:
    connection, _ = loop.connect("slow")
    taken = [exchange(loop, connection, AWAKE_TURNS + 5) for _ in range(4 * TRY_TURNS)]
    assert sorted(set(taken)) == [0, AWAKE_TURNS]
    assert taken.count(AWAKE_TURNS) == 4
    exchange(loop, connection, 0)  # the tries fall on those that pay
    for _ in range(10 * TRY_TURNS):  # half of the waits pay
        exchange(loop, connection, AWAKE_TURNS + 5)
        taken.append(exchange(loop, connection, 3))
    assert 0 < taken.count(3) < 2 * TRY_TURNS
