"""Copies: at once, through the broker, through the journal."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.consumer.copies import DELAYED_MAX_S, Copies
from gateway.consumer.journal import Journal
from gateway.consumer.message import Outgoing
from gateway.mqtt.packets import Properties
from tests.unit.gateway.consumer.rig import Peer, said
from tests.waiting import until

COPY = Outgoing("t", b"x", 1)


class Clock:
    ms = 1000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
async def peer() -> Peer:
    return Peer()


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def copies(peer: Peer, clock: Clock, tmp_path: Path) -> AsyncIterator[Copies]:
    made = Copies(peer.publish, tmp_path / "j", clock)
    await made.start()
    yield made
    await made.close()


def topics(peer: Peer) -> list[str]:
    return [message.topic for message in peer.published]


async def test_a_copy_at_once_is_safe_when_the_broker_has_it(copies: Copies, peer: Peer, tmp_path: Path) -> None:
    peer.open.clear()
    making = asyncio.ensure_future(copies.make(COPY, 0))
    await until(lambda: peer.log)
    assert not making.done()
    peer.open.set()
    assert await making
    assert topics(peer) == ["t"]
    assert not (tmp_path / "j").exists()


async def test_a_broker_that_is_full_for_a_while_is_asked_again(copies: Copies, peer: Peer) -> None:
    peer.codes = [0x97, 0x80, 0x83, 0]
    assert await copies.make(COPY, 0)
    assert topics(peer) == ["t"] * 4


@pytest.mark.parametrize("code", [0x87, 0x90, 0x95, 0x99])
async def test_a_broker_that_refuses_is_not_asked_again(
    copies: Copies, peer: Peer, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    peer.codes = [code]
    assert not await copies.make(COPY, 0)
    assert said(caplog.records) == [f"the broker refuses a copy to t (reason code 0x{code:02x})"]


async def test_what_nobody_reads_is_told(copies: Copies, peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    peer.codes = [0x10]
    assert await copies.make(COPY, 0)
    assert said(caplog.records) == ["nobody subscribes to t: what is published there is gone"]


@pytest.mark.parametrize(("delay_s", "topic"), [(5, "$delayed/5/t"), (0.2, "$delayed/1/t"), (1.01, "$delayed/2/t")])
async def test_the_broker_delays_where_it_can(
    copies: Copies, peer: Peer, delay_s: float, topic: str, tmp_path: Path
) -> None:
    copies.through_broker = True
    assert await copies.make(COPY, delay_s)
    assert topics(peer) == [topic]
    assert not (tmp_path / "j").exists()


async def test_without_it_the_journal_has_it_on_disk_first(
    copies: Copies, peer: Peer, clock: Clock, tmp_path: Path
) -> None:
    assert await copies.make(COPY, 0.2)
    assert topics(peer) == []
    beside = Journal(tmp_path / "j", "")
    beside.open(clock.ms)
    assert copies.journaled == beside.count() == 1
    clock.ms += 200
    await until(lambda: topics(peer) == ["t"])
    await until(lambda: beside.count() == 0)


@pytest.mark.parametrize("code", [0x90, 0x97, 0x87])
async def test_what_the_broker_does_not_delay_waits_in_the_journal(copies: Copies, peer: Peer, code: int) -> None:
    copies.through_broker = True
    peer.codes = [code]
    assert await copies.make(COPY, 60)
    assert copies.journaled == 1
    assert await copies.make(COPY, DELAYED_MAX_S + 1.0)
    assert topics(peer) == ["$delayed/60/t"]
    assert copies.journaled == 2


async def test_many_at_once_are_one_commit(copies: Copies, clock: Clock, peer: Peer) -> None:
    assert all(await asyncio.gather(*[copies.make(COPY._replace(payload=b"%d" % i), 1) for i in range(500)]))
    assert copies.journaled == 500
    clock.ms += 1000
    await until(lambda: len(peer.published) == 500)
    assert [message.payload for message in peer.published] == [b"%d" % i for i in range(500)]


async def test_what_an_earlier_run_left_is_taken_up(peer: Peer, clock: Clock, tmp_path: Path) -> None:
    first = Copies(peer.publish, tmp_path / "j", clock)
    assert await first.make(COPY, 5)
    await first.close()
    second = Copies(peer.publish, tmp_path / "j", clock)
    await second.start()
    assert second.journaled == 1
    assert topics(peer) == []
    clock.ms += 5000
    await until(lambda: topics(peer) == ["t"])
    await until(lambda: second.journaled == 0)
    await second.close()


async def test_what_is_refused_stays_in_the_journal(
    copies: Copies, peer: Peer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    peer.codes = [0x87, 0x87, 0]
    for _ in range(2):
        assert await copies.make(COPY, 0.001)
    clock.ms += 1
    await until(lambda: len(peer.published) == 2)
    assert copies.journaled == 2

    def is_empty_later() -> bool:
        clock.ms += 30_000
        return copies.journaled == 0

    await until(is_empty_later)
    assert len(peer.published) == 4
    assert all("it stays in the journal" in line for line in said(caplog.records))


async def test_a_journal_that_cannot_be_written_keeps_nothing(
    peer: Peer, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copies = Copies(peer.publish, tmp_path / "none" / "j", clock)
    assert not await copies.make(COPY, 1)
    assert "cannot be kept" in said(caplog.records)[0]
    (tmp_path / "none").mkdir()
    assert await copies.make(COPY, 1)
    await copies.close()


async def test_a_journal_that_another_process_has_locked_is_waited_for(
    peer: Peer, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Copies(peer.publish, tmp_path / "j", clock)
    assert await first.make(COPY, 5)
    await first.close()
    other = sqlite3.connect(tmp_path / "j", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    copies = Copies(peer.publish, tmp_path / "j", clock)
    await copies.start()
    assert "database is locked; tried again" in said(caplog.records)[0]
    making = asyncio.ensure_future(copies.make(COPY._replace(topic="u"), 5))
    cancelled = asyncio.ensure_future(copies.make(COPY._replace(topic="v"), 5))
    await asyncio.sleep(0)
    cancelled.cancel()
    other.execute("COMMIT")
    other.close()
    assert await making
    clock.ms += 5000
    await until(lambda: sorted(topics(peer)) == ["t", "u"])
    await copies.close()


async def test_a_copy_that_cannot_be_sent_does_not_end_the_others(
    clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[str] = []

    async def publish(message: Outgoing) -> int:
        if message.topic == "t":
            raise ValueError("no")
        sent.append(message.topic)
        return 0

    copies = Copies(publish, tmp_path / "j", clock)
    for topic in ("t", "u"):
        assert await copies.make(COPY._replace(topic=topic), 1)
    clock.ms += 1000
    await until(lambda: sent == ["u"])
    await until(lambda: copies.journaled == 1)
    assert await copies.make(COPY._replace(topic="v"), 1)
    clock.ms += 1000
    await until(lambda: sent == ["u", "v"])
    assert "it stays in the journal" in said(caplog.records)[0]
    await copies.close()


async def test_a_damaged_journal_is_told(
    peer: Peer, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "j").write_bytes(b"x" * 5000)
    copies = Copies(peer.publish, tmp_path / "j", clock)
    with caplog.at_level(logging.ERROR):
        await copies.start()
    assert "set aside" in said(caplog.records)[0]
    assert await copies.make(COPY, 1)
    await copies.close()


async def test_the_life_of_a_message_runs_while_its_copy_is_in_the_journal(
    copies: Copies, peer: Peer, clock: Clock
) -> None:
    properties = Properties()
    properties.message_expiry_interval = 100
    assert await copies.make(COPY._replace(properties=properties), 40.5)
    clock.ms += 41_000
    await until(lambda: peer.published)
    found = peer.published[0].properties
    assert found is not None
    assert found.message_expiry_interval == 60


async def test_a_topic_that_is_too_long_for_the_broker_to_delay_waits_in_the_journal(
    copies: Copies, peer: Peer, clock: Clock
) -> None:
    copies.through_broker = True
    assert await copies.make(COPY._replace(topic="t" * 65_535), 1)
    assert (peer.published, copies.journaled) == ([], 1)
    clock.ms += 1000
    await until(lambda: topics(peer) == ["t" * 65_535])


async def test_a_delay_that_no_clock_reaches_is_no_safe_copy_and_holds_up_nobody(
    copies: Copies, caplog: pytest.LogCaptureFixture
) -> None:
    assert not await copies.make(COPY, 2.0**70)
    assert "a copy to t cannot be kept" in caplog.text
    assert await copies.make(COPY, 5)
    assert copies.journaled == 1
