"""What a start leaves out because it fails its checksum, and says so."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from gateway.core.batch import Batch
from tests.unit.gateway.store.opened import Opened

Open = Callable[..., Opened]


def test_a_blob_that_fails_its_checksum_is_left_out_and_named(opened: Open, path: Path) -> None:
    one, batch = opened(), Batch(1)
    batch.segment_id, batch.segment_last, batch.targets = 50, 59, b"t" * 80
    batch.cursors = {5: b"c" * 200, 6: b"d"}
    batch.retained = {"a": b"1", "plant/7": b"r" * 200}
    batch.wills = {"press-4": b"w", "press-5": b""}
    batch.bridge = {"birth 1 t": b"b", "birth 2 t": b"c"}
    batch.delayed = {4: b"d", 5: b"e"}
    assert one.commit(batch) is None
    batch = Batch(2)
    batch.segment_id, batch.segment_last = 60, 60
    assert one.commit(batch) is None
    one.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE cursor SET state = zeroblob(200) WHERE sid = 5")
    connection.execute("UPDATE retained SET data = zeroblob(200) WHERE topic = 'plant/7'")
    connection.execute("UPDATE will SET data = 'text' WHERE client_id = 'press-4'")
    connection.execute("UPDATE bridge SET crc = 5 WHERE key = 'birth 1 t'")
    connection.execute("UPDATE delayed SET crc = 5 WHERE id = 4")
    connection.execute("UPDATE segment SET targets = zeroblob(80) WHERE id = 50")
    connection.commit()
    connection.close()
    snapshot = opened().snapshot
    assert snapshot.cursors == {6: b"d"}
    assert snapshot.retained == [("a", b"1")]
    assert snapshot.wills == [("press-5", b"")]
    assert list(snapshot.bridge) == [("birth 2 t", b"c")]
    assert snapshot.delayed == [(5, b"e")]
    assert snapshot.segments == [(60, 60, b"")]
    assert snapshot.damage == [
        "the queue position of session 5 was damaged and is lost",
        "the retained message of 'plant/7' was damaged and is lost",
        "the will of 'press-4' was damaged and is lost",
        "the Sparkplug record of 'birth 1 t' was damaged and is lost",
        "delayed message 4 was damaged and is lost",
        "messages 50 to 59 were damaged and are lost",
    ]
