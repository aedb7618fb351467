"""What waits for one, read from the database of a gateway that serves."""

from pathlib import Path

import pytest

from gateway.store.queues import QueueError, waiting
from tests.harness import Broker
from tests.wire import Wire

DATABASE = "forebay.db"


def found(broker: Broker, name: str) -> list[tuple[bytes, int]]:
    return [(one.message.payload, one.qos) for one in waiting(broker.data_dir / DATABASE, name)]


def test_of_a_session_of_a_group_and_of_priorities(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", {"mqtt.mqueue_priorities": "a/alarm=200"}) as broker:
        for name, filter in (("all", "#"), ("one", "b"), ("member", "$share/g/b")):
            with Wire.connect(broker.port, name, clean=False) as wire:
                wire.subscribe(filter, qos=1)
        with Wire.connect(broker.port, "pub") as wire:
            for topic in ("a/alarm", "b", "a/alarm", "b"):
                wire.publish_done(topic, topic.encode(), qos=2)
        assert found(broker, "all") == [(b"a/alarm", 1), (b"b", 1), (b"a/alarm", 1), (b"b", 1)]
        assert found(broker, "one") == [(b"b", 1)] * 2
        assert found(broker, "$share/g/b") == [(b"b", 2)] * 2, "a member decides"
        assert found(broker, "member") == []
        with Wire.connect(broker.port, "one", clean=False) as wire:
            wire.take(2)
            wire.ping()
        assert broker.sigterm() == 0
    assert found(broker, "one") == [], "read without a gateway, too"
    assert len(found(broker, "all")) == 4


def test_no_such_queue_and_no_database(tmp_path: Path) -> None:
    with pytest.raises(QueueError, match="there is no database"):
        list(waiting(tmp_path / DATABASE, "x"))
    with Broker(tmp_path / "data"):
        pass
    with pytest.raises(QueueError, match="x: no session or group"):
        list(waiting(tmp_path / "data" / DATABASE, "x"))
    (tmp_path / DATABASE).write_bytes(b"no database at all, but long enough to look at")
    with pytest.raises(QueueError, match="damaged"):
        list(waiting(tmp_path / DATABASE, "x"))
