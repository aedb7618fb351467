"""Reads the Snapshot that a start needs: everything but the records of the log."""

import sqlite3
from typing import Final
from zlib import crc32

from gateway.core.batch import Snapshot
from gateway.store.rows import BridgeRows, SegmentRows

READ_SEGMENTS: Final = "SELECT id, records_crc, records FROM segment WHERE id IN (SELECT value FROM json_each(?))"

# the salvage writes this where the records were lost: no crc32 equals it, so that reading reports the loss
NO_RECORDS_CRC: Final = -1


def load(connection: sqlite3.Connection) -> Snapshot:
    """All tables in one consistent read. What fails its checksum is left out, with a line in ``damage``.

    Raises sqlite3.DatabaseError when the file itself is damaged.
    """
    snapshot = Snapshot()
    connection.execute("BEGIN")
    try:
        snapshot.meta = dict(connection.execute("SELECT key, value FROM meta"))
        snapshot.sessions = connection.execute(
            "SELECT sid, client_id, kind, expiry_s, deadline FROM session ORDER BY sid"
        ).fetchall()
        snapshot.subscriptions = connection.execute(
            "SELECT sid, filter, options, identifier FROM subscription ORDER BY sid, filter"
        ).fetchall()
        snapshot.counters = connection.execute("SELECT sid, name, value FROM counter ORDER BY sid, name").fetchall()
        for sid, crc, state in connection.execute("SELECT sid, crc, state FROM cursor ORDER BY sid"):
            if _intact(crc, state):
                snapshot.cursors[sid] = state
            else:
                snapshot.damage.append(f"the queue position of session {sid} was damaged and is lost")
        snapshot.retained = _blobs(connection, "retained", "topic", "retained message", snapshot.damage)
        snapshot.wills = _blobs(connection, "will", "client_id", "will", snapshot.damage)
        snapshot.bridge = _bridge(connection, snapshot.damage)
        for id, crc, data in connection.execute("SELECT id, crc, data FROM delayed ORDER BY id"):
            if _intact(crc, data):
                snapshot.delayed.append((id, data))
            else:
                snapshot.damage.append(f"delayed message {id} was damaged and is lost")
        rows = connection.execute("SELECT id, last, targets_crc, targets FROM segment ORDER BY id")
        segments = SegmentRows()
        snapshot.segments = segments
        for segment_id, last, crc, targets in rows:
            if _intact(crc, targets):
                segments.add(segment_id, last, targets)
            else:
                snapshot.damage.append(f"messages {segment_id} to {last} were damaged and are lost")
    finally:
        connection.execute("ROLLBACK")
    return snapshot


def _blobs(
    connection: sqlite3.Connection, table: str, key: str, what: str, damage: list[str]
) -> list[tuple[str, bytes]]:
    good: list[tuple[str, bytes]] = []
    for name, crc, data in connection.execute(f"SELECT {key}, crc, data FROM {table} ORDER BY {key}"):
        if _intact(crc, data):
            good.append((name, data))
        else:
            damage.append(f"the {what} of {name!r} was damaged and is lost")
    return good


def _bridge(connection: sqlite3.Connection, damage: list[str]) -> BridgeRows:
    bad: set[str] = set()
    for key, crc, data in connection.execute("SELECT key, crc, data FROM bridge ORDER BY key"):
        if not _intact(crc, data):
            damage.append(f"the Sparkplug record of {key!r} was damaged and is lost")
            bad.add(key)
    return BridgeRows(connection, bad)


def _intact(crc: object, data: object) -> bool:
    return isinstance(data, bytes) and crc32(data) == crc


def read_segments(connection: sqlite3.Connection, ids_json: str) -> dict[int, bytes | None]:
    """Records by segment id; None where the checksum does not match. Raises sqlite3.Error."""
    return {
        segment_id: records if _intact(crc, records) else None
        for segment_id, crc, records in connection.execute(READ_SEGMENTS, (ids_json,)).fetchall()
    }
