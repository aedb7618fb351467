"""A store under the sending half: what is on disk before what is sent, and after a restart."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.link.keeping import Change
from gateway.link.terms import LostError
from tests.unit.gateway.link.test_sending import Kept, Outgoing, turns


async def until(true: Callable[[], bool]) -> None:
    for _ in range(20_000):
        if true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not happen")


async def settled(kept: Kept, count: int) -> None:
    await until(lambda: len(kept.changes) >= count)
    await turns(20)


async def test_what_is_on_disk_is_sent_and_not_before() -> None:
    kept = Kept()
    out = Outgoing(outbox=kept)
    out.connect()
    done = await out.send(2)
    assert out.wire.taken() == []
    await settled(kept, 1)
    frame = out.wire.taken()
    assert frame == ["340700017400010078"]
    assert kept.changes == [Change(1, bytes.fromhex(frame[0]))]
    out.sending.on_pubrec(1, 0)
    assert out.wire.taken() == []
    await settled(kept, 2)
    assert out.wire.taken() == ["62020001"]
    assert kept.changes[1] == Change(1, None, True)
    out.sending.on_pubcomp(1, 0)
    assert await done == 0
    await out.sending.close()
    assert kept.changes[2] == Change(1, None) and kept.closed


async def test_a_restart_takes_up_packet_ids_and_states() -> None:
    first, second = bytes.fromhex("320700017400010031"), bytes.fromhex("340700017400020032")
    out = Outgoing(outbox=Kept([(1, first, False), (2, second, True)]))
    assert out.sending.under_way == 2
    fresh = await out.send(payload=b"3")
    out.connect(present=True)
    await until(lambda: len(out.wire.packets) == 3)
    assert out.wire.taken() == ["62020002", "3a0700017400010031", "320700017400030033"]
    out.sending.on_puback(3, 0)
    assert await fresh == 0
    await out.sending.close()


async def test_a_restart_without_the_session_sends_as_new() -> None:
    kept = Kept([(2, bytes.fromhex("340700017400020032"), True)])
    out = Outgoing(outbox=kept)
    out.connect(present=False)
    assert out.wire.taken() == [], "the store must forget first that it was released"
    await settled(kept, 1)
    assert out.wire.taken() == ["340700017400020032"]
    assert kept.changes[0] == Change(2, bytes.fromhex("340700017400020032"))
    await out.sending.close()


async def test_a_connection_that_comes_while_the_store_writes_sends_once() -> None:
    kept = Kept()
    out = Outgoing(outbox=kept)
    await out.send()
    out.connect()
    await settled(kept, 1)
    assert out.wire.taken() == ["320700017400010078"]
    await out.sending.close()


async def test_a_store_that_fails_fails_the_message() -> None:
    kept = Kept()
    kept.error = OSError("no space left")
    out = Outgoing(outbox=kept)
    out.connect()
    done = await out.send()
    with pytest.raises(LostError, match="no space left"):
        await done
    assert out.wire.taken() == [] and out.ids.used == set()
    kept.error = None
    await out.send()
    await settled(kept, 1)
    assert len(out.wire.taken()) == 1
    await out.sending.close()
