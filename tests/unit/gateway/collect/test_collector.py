"""The collector's batches, without a broker: deliveries as they would come, a file that obeys the test."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from gateway.client import Properties
from gateway.collect.collector import Collector, Identity
from gateway.collect.files import FileError, Row
from gateway.link.deliveries import Incoming
from gateway.mqtt import packets
from gateway.mqtt.encode import make_publish
from gateway.mqtt.properties import encode_properties

WAIT_S = 60.0


class Answers:
    def __init__(self) -> None:
        self.packets = 0

    def put(self, data: bytes) -> None:
        self.packets += 1

    def put_puback(self, packet_id: int) -> None:
        self.packets += 1


class Memory:
    """A file that can be held up and can fail."""

    def __init__(self) -> None:
        self.batches: list[list[Row]] = []
        self.go = Event()
        self.go.set()
        self.failures = 0

    def open(self) -> None: ...

    def write(self, rows: Sequence[Row]) -> int:
        assert self.go.wait(WAIT_S)
        if self.failures:
            self.failures -= 1
            raise FileError("disk full")
        self.batches.append(list(rows))
        return len(rows)

    def close(self) -> None: ...


class Rig:
    def __init__(self, batch: int = 100, count: int | None = None) -> None:
        self.file = Memory()
        self.said: list[str] = []
        self.collector = Collector(self.file, batch, self.said.append, count)
        self.answers = Answers()
        self.incoming = Incoming(5, 65535, self.collector.deliver)
        self.incoming.connected(self.answers, False)
        self.running = asyncio.ensure_future(self.collector.run())
        self.comes = 0

    def come(self, count: int, props: bytes = b"") -> None:
        for _ in range(count):
            self.comes += 1
            self.incoming.on_publish(make_publish("t", b"%d" % self.comes, 1, packet_id=self.comes, props=props))

    async def until(self, answers: int) -> None:
        for _ in range(20_000):
            if self.answers.packets >= answers:
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"{self.answers.packets} answers, not {answers}")

    async def stop(self) -> None:
        self.collector.stop()
        async with asyncio.timeout(WAIT_S):
            await self.running


async def test_nothing_is_acknowledged_before_it_is_stored_and_a_batch_gathers_meanwhile() -> None:
    rig = Rig()
    rig.file.go.clear()
    rig.come(1)
    await asyncio.sleep(0.1)
    rig.come(250)
    await asyncio.sleep(0.05)
    assert rig.answers.packets == 0
    rig.file.go.set()
    await rig.until(251)
    assert [len(batch) for batch in rig.file.batches] == [1, 100, 100, 50]
    await rig.stop()
    assert rig.collector.totals.stored == 251


async def test_a_brokers_window_is_a_batch() -> None:
    """Two batches wait in vain for more than ten, the others do not."""
    rig = Rig()
    loop = asyncio.get_running_loop()
    waits = []
    for number in range(1, 8):
        began = loop.time()
        rig.come(10)
        await rig.until(10 * number)
        waits.append(loop.time() - began >= 0.02)
    assert waits[:2] == [True, True]
    assert [len(batch) for batch in rig.file.batches] == [10] * 7
    assert rig.collector._goal == 10
    rig.come(25)
    await rig.until(95)
    assert rig.collector._goal == 100
    await rig.stop()


async def test_a_stop_stores_what_was_taken_and_takes_no_more() -> None:
    rig = Rig()
    rig.come(3)
    rig.collector.stop()
    rig.come(2)
    await rig.stop()
    assert rig.answers.packets == 3
    assert [row.payload for batch in rig.file.batches for row in batch] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("count", [0, 2])
async def test_a_count_leaves_the_rest_to_the_broker(count: int) -> None:
    rig = Rig(count=count)
    rig.come(5)
    if count:
        async with asyncio.timeout(WAIT_S):
            await rig.running
    assert rig.answers.packets == count
    await rig.stop()


async def test_a_file_that_cannot_be_written_is_tried_again_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.collect.collector._AGAIN_S", 0.01)
    rig = Rig()
    rig.file.failures = 3
    rig.come(2)
    await rig.until(2)
    assert rig.said == ["disk full; trying again, the broker keeps what comes", "the file can be written again"]
    await rig.stop()


async def test_what_a_row_keeps() -> None:
    said = Properties()
    said.content_type, said.response_topic, said.correlation_data = "a/b", "r", b"\x01\xff"
    said.payload_format_indicator = 1
    said.user_properties = [("forebay-id", "12"), ("forebay-received", "1000"), ("k", "1"), ("k", "2")]
    rig = Rig()
    rig.come(1, encode_properties(said, packets.PUBLISH)[1:])
    rig.come(1)
    await rig.until(2)
    await rig.stop()
    first, second = rig.file.batches[0]
    assert first.properties == {
        "user": [["forebay-id", "12"], ["forebay-received", "1000"], ["k", "1"], ["k", "2"]],
        "content_type": "a/b", "response_topic": "r", "correlation_data": "01ff", "payload_format": 1,
    }  # fmt: skip
    assert (first.ingest, second.ingest, second.properties) == ("12/1000", "", {})
    assert rig.collector.totals.lag_ms == first.received - 1000


@pytest.mark.parametrize(("id", "received"), [("x", "1000"), ("1", "x"), ("1", "9" * 5000), ("9" * 21, "1")])
async def test_user_properties_that_only_look_like_an_ingest_id(id: str, received: str) -> None:
    said = Properties()
    said.user_properties = [("forebay-id", id), ("forebay-received", received)]
    rig = Rig()
    encoded = encode_properties(said, packets.PUBLISH)
    rig.come(1, encoded[2 if encoded[0] & 0x80 else 1 :])
    await rig.until(1)
    await rig.stop()
    assert rig.file.batches[0][0].ingest == "" and rig.collector.totals.lag_ms == -1


def test_a_client_id_for_the_life_of_the_output(tmp_path: Path) -> None:
    first = Identity(tmp_path / "m.db")
    client_id = first.take()
    assert client_id.startswith("collect-") and len(client_id) == 44
    with pytest.raises(FileError, match=r"m\.db\.id: another collector uses it"):
        Identity(tmp_path / "m.db").take()
    first.release()
    again = Identity(tmp_path / "m.db")
    assert again.take() == client_id
    again.release()
    assert Identity(tmp_path / "n.db").take() != client_id
    (tmp_path / "m.db.id").write_bytes(b"\xff")
    with pytest.raises(FileError, match="expected a client id"):
        Identity(tmp_path / "m.db").take()
    with pytest.raises(FileError, match=r"no/m\.db\.id: cannot be written"):
        Identity(tmp_path / "no" / "m.db").take()
