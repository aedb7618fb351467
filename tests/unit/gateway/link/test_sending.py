"""The sending half, by the bytes that would be written."""

import asyncio
from collections.abc import Sequence

import pytest

from gateway.link.keeping import Change
from gateway.link.sending import Sending
from gateway.link.terms import LostError, Peer, RefusedError
from gateway.mqtt.packets import Properties

PEER = Peer()


class Ids:
    def __init__(self) -> None:
        self.used: set[int] = set()

    def next_id(self) -> int:
        free = next(number for number in range(1, 65536) if number not in self.used)
        self.used.add(free)
        return free

    def free_id(self, id: int) -> None:
        self.used.discard(id)

    def use(self, id: int) -> None:
        self.used.add(id)


class Written:
    def __init__(self) -> None:
        self.packets: list[str] = []

    def put(self, data: bytes) -> None:
        self.packets.append(data.hex())

    def taken(self) -> list[str]:
        taken, self.packets = self.packets, []
        return taken


class Kept:
    """An outbox in memory, which says when it may write."""

    def __init__(self, rows: Sequence[tuple[int, bytes, bool]] = ()) -> None:
        self.rows = list(rows)
        self.changes: list[Change] = []
        self.error: OSError | None = None
        self.closed = False

    def load(self) -> list[tuple[int, bytes, bool]]:
        return self.rows

    def apply(self, changes: Sequence[Change]) -> None:
        if self.error is not None:
            raise self.error
        self.changes += changes

    def close(self) -> None:
        self.closed = True


class Outgoing:
    def __init__(self, limit: int = 100, outbox: Kept | None = None, version: int = 5) -> None:
        self.ids = Ids()
        self.sending = Sending(version, self.ids, limit, outbox)
        self.wire = Written()

    def connect(self, peer: Peer = PEER, present: bool = False) -> None:
        self.wire = Written()
        self.sending.connected(self.wire, peer, present)

    async def send(self, qos: int = 1, payload: bytes = b"x", retain: bool = False) -> "asyncio.Future[int]":
        return await self.sending.publish("t", payload, qos, retain, None)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("code", [0, 0x10, 0x80, 0x97])
async def test_qos_1_ends_with_the_code_of_its_puback(code: int) -> None:
    out = Outgoing()
    out.connect()
    done = await out.send()
    assert out.wire.taken() == ["320700017400010078"]
    out.sending.on_puback(1, code)
    assert await done == code
    assert out.ids.used == set() and out.sending.under_way == 0


async def test_qos_2_by_its_steps() -> None:
    out = Outgoing()
    out.connect()
    done = await out.send(2)
    assert out.wire.taken() == ["340700017400010078"]
    out.sending.on_pubrec(1, 0x10)
    assert out.wire.taken() == ["62020001"]
    out.sending.on_pubrec(1, 0)
    assert out.wire.taken() == ["62020001"]
    out.sending.on_pubcomp(1, 0)
    assert await done == 0 and out.ids.used == set()


async def test_qos_2_that_the_peer_refuses_is_not_released() -> None:
    out = Outgoing()
    out.connect()
    done = await out.send(2)
    out.wire.taken()
    out.sending.on_pubrec(1, 0x97)
    assert await done == 0x97
    assert out.wire.taken() == [] and out.ids.used == set()


async def test_answers_to_what_we_never_sent() -> None:
    out = Outgoing()
    out.connect()
    out.sending.on_puback(9, 0)
    out.sending.on_pubcomp(9, 0)
    assert out.wire.taken() == []
    out.sending.on_pubrec(9, 0)
    assert out.wire.taken() == ["6203000992"], "the packet id is not known [MQTT-3.6.2.1]"


async def test_qos_0_waits_for_a_connection() -> None:
    out = Outgoing()
    sending = asyncio.ensure_future(out.send(0))
    await turns()
    assert not sending.done()
    out.connect()
    assert await (await sending) == 0
    assert out.wire.taken() == ["30050001740078"]


@pytest.mark.parametrize("maximum", [1, 3])
async def test_the_window_is_the_peers_receive_maximum_and_waits_in_order(maximum: int) -> None:
    out = Outgoing()
    out.connect(PEER._replace(receive_maximum=maximum))
    tasks = [asyncio.ensure_future(out.send(payload=b"%d" % number)) for number in range(8)]
    sent: list[str] = []
    for _ in range(8):
        await turns()
        fresh = out.wire.taken()
        sent += [packet[-2:] for packet in fresh]
        assert out.sending.under_way <= maximum
        out.sending.on_puback(min(out.ids.used), 0)
    assert sent == [f"3{number}" for number in range(8)]
    for task in tasks:
        assert await (await task) == 0


async def test_without_a_connection_as_many_are_taken_as_the_window_holds() -> None:
    out = Outgoing(limit=2)
    first, second = await out.send(payload=b"1"), await out.send(payload=b"2")
    third = asyncio.ensure_future(out.send(payload=b"3"))
    await turns()
    assert not third.done()
    out.connect()
    assert [packet[:2] + packet[-2:] for packet in out.wire.taken()] == ["3231", "3232"], "for the first time: no DUP"
    out.sending.on_puback(1, 0)
    out.sending.on_puback(2, 0)
    assert (await first, await second) == (0, 0)
    await turns()
    assert out.wire.taken() == ["320700017400010033"]
    out.sending.on_puback(1, 0)
    await (await third)


async def test_a_session_that_is_there_gets_it_again_with_dup_and_within_its_window() -> None:
    out = Outgoing()
    out.connect()
    await out.send(payload=b"1")
    await out.send(2, payload=b"2")
    await out.send(2, payload=b"3")
    out.sending.on_pubrec(3, 0)
    out.sending.disconnected()
    out.connect(PEER._replace(receive_maximum=1), present=True)
    assert out.wire.taken() == ["62020003"], "what the peer did not end may hold the one place"
    out.sending.on_pubcomp(3, 0)
    assert out.wire.taken() == ["3a0700017400010031"]
    out.sending.on_puback(1, 0)
    assert out.wire.taken() == ["3c0700017400020032"]
    assert out.sending.again == 2


async def test_a_session_that_is_gone_gets_everything_as_new() -> None:
    out = Outgoing()
    out.connect()
    done = [await out.send(payload=b"1"), await out.send(2, payload=b"2")]
    out.sending.on_pubrec(2, 0)
    out.sending.disconnected()
    out.connect(present=False)
    assert out.wire.taken() == ["320700017400010031", "340700017400020032"]
    out.sending.on_puback(1, 0)
    out.sending.on_pubrec(2, 0)
    out.sending.on_pubcomp(2, 0)
    assert [await one for one in done] == [0, 0]


async def test_a_pubcomp_that_knows_no_packet_id_is_the_end_of_it() -> None:
    out = Outgoing()
    out.connect()
    done = await out.send(2)
    out.sending.on_pubrec(1, 0)
    out.sending.on_pubcomp(1, 0x92)
    assert await done == 0


@pytest.mark.parametrize(
    ("peer", "qos", "retain", "payload", "code"),
    [
        (PEER._replace(maximum_qos=1), 2, False, b"x", 0x9B),
        (PEER._replace(maximum_qos=0), 1, False, b"x", 0x9B),
        (PEER._replace(retain=False), 1, True, b"x", 0x9A),
        (PEER._replace(maximum_packet_bytes=20), 1, False, b"x" * 30, 0x95),
    ],
)
async def test_what_the_peer_said_it_does_not_take(
    peer: Peer, qos: int, retain: bool, payload: bytes, code: int
) -> None:
    out = Outgoing()
    early = await out.send(qos, payload, retain)
    out.connect(peer)
    assert await early == code, "taken before this was known"
    with pytest.raises(RefusedError) as caught:
        await out.send(qos, payload, retain)
    assert caught.value.code == code
    assert out.wire.taken() == [] and out.ids.used == set()


async def test_what_cannot_be_encoded_takes_no_packet_id() -> None:
    out = Outgoing()
    out.connect()
    said = Properties()
    said.session_expiry_interval = 1
    with pytest.raises(ValueError, match="does not belong"):
        await out.sending.publish("t", b"x", 1, False, said)
    for topic in ("", "a/+", "#", "a\0", "t" * 70_000):
        with pytest.raises(ValueError, match="is no topic that can be published to"):
            await out.sending.publish(topic, b"x", 1, False, None)
    with pytest.raises(ValueError, match="variable byte integer"):
        await out.sending.publish("t", bytes(268_435_456), 1, False, None)
    assert out.ids.used == set()
    await out.send()
    assert len(out.wire.taken()) == 1


async def test_properties_are_for_5_0_only() -> None:
    said = Properties()
    said.user_properties = [("a", "1"), ("b", "2")]
    said.message_expiry_interval = 9
    for version, middle in ((5, "13" + "0200000009" + "260001610001" + "31" + "260001620001" + "32"), (4, "")):
        out = Outgoing(version=version)
        out.connect()
        await out.sending.publish("t", b"x", 0, False, said)
        packet = out.wire.taken()[0]
        assert packet[4:] == "000174" + middle + "78", version


async def test_a_full_buffer_holds_everything_back() -> None:
    out = Outgoing()
    out.connect()
    out.sending.blocked(True)
    tasks = [asyncio.ensure_future(out.send(qos)) for qos in (0, 1)]
    await turns()
    assert out.wire.taken() == []
    out.sending.blocked(False)
    for task in tasks:
        await task
    assert len(out.wire.taken()) == 2


async def test_one_that_gives_up_waiting_lets_the_next_go_on() -> None:
    out = Outgoing(limit=1)
    out.connect()
    await out.send()
    tasks = [asyncio.ensure_future(out.send()) for _ in range(3)]
    await turns()
    tasks[0].cancel()
    await turns()
    out.sending.on_puback(1, 0)
    tasks[1].cancel()
    await turns()
    assert tasks[2].done()
    await tasks[2]


async def test_a_close_fails_what_is_open() -> None:
    out = Outgoing(limit=1)
    done = await out.send()
    waiting = asyncio.ensure_future(out.send())
    await turns()
    await out.sending.close()
    for one in (done, waiting):
        with pytest.raises(LostError, match="closed"):
            await one
    assert out.ids.used == set()
    out.connect()
    await out.send()


TOO_LARGE = 0x95
BAD = b"bad"


async def test_a_message_that_ends_connections_is_found_and_set_aside(caplog: pytest.LogCaptureFixture) -> None:
    """The peer does not say which of them it was: afterwards each goes alone."""
    out = Outgoing()
    out.connect()
    payloads = (b"1", BAD, b"3")
    done = [await out.send(payload=payload) for payload in payloads]
    assert len(out.wire.taken()) == 3
    out.sending.on_disconnect(TOO_LARGE)
    out.sending.disconnected()
    out.connect(present=True)
    assert out.wire.taken() == [], "subscriptions are made first, or one of them could be to blame"
    out.sending.ready()
    assert [packet[-2:] for packet in out.wire.taken()] == ["31"]
    late = await out.send(payload=b"4")
    assert out.wire.taken() == []
    out.sending.on_puback(1, 0)
    (packet,) = out.wire.taken()
    assert packet.endswith(BAD.hex()) and packet.startswith("3a"), "with DUP: it was sent before"
    assert not done[1].done()
    out.sending.on_disconnect(TOO_LARGE)
    out.sending.disconnected()
    assert (done[0].result(), done[1].result()) == (0, TOO_LARGE)
    assert "a message to t is set aside: the broker ends the connection over it (packet too large" in caplog.text
    out.connect(present=True)
    out.sending.ready()
    assert [packet[-2:] for packet in out.wire.taken()] == ["33"]
    out.sending.on_puback(3, 0)
    assert [packet[-2:] for packet in out.wire.taken()] == ["34"]
    assert out.sending._suspects == set()
    for number in range(3):
        await out.send(payload=bytes([number]))
    assert len(out.wire.taken()) == 3, "all is as before"
    out.sending.on_puback(4, 0)
    assert late.result() == 0


async def test_an_innocent_one_is_not_blamed_for_a_qos_0_message() -> None:
    out = Outgoing()
    out.connect()
    done = await out.send()
    await out.send(qos=0, payload=BAD)
    out.sending.on_disconnect(TOO_LARGE)
    out.sending.disconnected()
    out.connect(present=True)
    out.sending.ready()
    waiting = asyncio.ensure_future(out.send(qos=0))
    await turns()
    assert not waiting.done(), "nothing else is sent meanwhile"
    out.sending.on_puback(1, 0)
    assert done.result() == 0
    await waiting


@pytest.mark.parametrize("reason", [0x00, 0x8B, 0x8D, 0x97])
async def test_a_connection_that_ends_for_another_reason_makes_no_suspects(reason: int) -> None:
    out = Outgoing()
    out.connect()
    done = [await out.send() for _ in range(3)]
    for _ in range(3):
        out.sending.on_disconnect(reason)
        out.sending.disconnected()
        out.connect(present=True)
        assert len(out.wire.taken()) == 3
    assert not any(one.done() for one in done)


async def test_what_was_not_sent_on_that_connection_is_no_suspect() -> None:
    out = Outgoing()
    out.connect()
    for _ in range(4):
        await out.send()
    out.sending.disconnected()
    out.connect(Peer(receive_maximum=2), present=True)
    assert len(out.wire.taken()) == 2
    out.sending.on_disconnect(TOO_LARGE)
    assert out.sending._suspects == {1, 2}
