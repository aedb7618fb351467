"""A Batch as the parameters of ONE SQL statement, so that a commit is one call into SQLite however many rows it has.

Each call into SQLite gives the interpreter lock up and has to win it back from an event loop that may never idle.
So the rows go as JSON arrays of [key, offset, length, crc] over one packed blob into a view whose trigger distributes
them; in autocommit mode that one statement is the whole transaction.
"""

import json
import sqlite3
from collections.abc import Mapping
from typing import Final
from zlib import crc32

from gateway.core.batch import Batch

Parameters = tuple[int | bytes | str | None, ...]

_COLUMNS: Final = (
    "segment_id, segment_last, targets_crc, records_crc, targets, records, dead, gone, sessions, cursors,"
    " unsubscribed, subscriptions, unretained, retained, unwilled, wills, unbridged, bridge, undelayed,"
    " delayed, counters, meta, packed"
)


def _fields(numbers: str) -> str:
    return ", ".join(f"json_extract(value, '$[{number}]')" for number in numbers)


_BLOB: Final = "substr(NEW.packed, json_extract(value, '$[1]') + 1, json_extract(value, '$[2]'))"

# deletes stand before the inserts of the same table: a batch may remove what was and put something new
_STEPS: Final = (
    "DELETE FROM segment WHERE id IN (SELECT value FROM json_each(NEW.dead))",
    "INSERT OR REPLACE INTO segment (id, last, targets_crc, records_crc, targets, records)"
    " SELECT NEW.segment_id, NEW.segment_last, NEW.targets_crc, NEW.records_crc, NEW.targets, NEW.records"
    " WHERE NEW.segment_id > 0",
    "DELETE FROM session WHERE sid IN (SELECT value FROM json_each(NEW.gone))",
    "DELETE FROM cursor WHERE sid IN (SELECT value FROM json_each(NEW.gone))",
    "DELETE FROM subscription WHERE sid IN (SELECT value FROM json_each(NEW.gone))",
    "DELETE FROM counter WHERE sid IN (SELECT value FROM json_each(NEW.gone))",
    "INSERT OR REPLACE INTO session (sid, client_id, kind, expiry_s, deadline)"
    f" SELECT {_fields('01234')} FROM json_each(NEW.sessions)",
    f"INSERT OR REPLACE INTO cursor (sid, crc, state) SELECT {_fields('03')}, {_BLOB} FROM json_each(NEW.cursors)",
    f"DELETE FROM subscription WHERE (sid, filter) IN (SELECT {_fields('01')} FROM json_each(NEW.unsubscribed))",
    "INSERT OR REPLACE INTO subscription (sid, filter, options, identifier)"
    f" SELECT {_fields('0123')} FROM json_each(NEW.subscriptions)",
    "DELETE FROM retained WHERE topic IN (SELECT value FROM json_each(NEW.unretained))",
    f"INSERT OR REPLACE INTO retained (topic, crc, data) SELECT {_fields('03')}, {_BLOB} FROM json_each(NEW.retained)",
    "DELETE FROM will WHERE client_id IN (SELECT value FROM json_each(NEW.unwilled))",
    f"INSERT OR REPLACE INTO will (client_id, crc, data) SELECT {_fields('03')}, {_BLOB} FROM json_each(NEW.wills)",
    "DELETE FROM bridge WHERE key IN (SELECT value FROM json_each(NEW.unbridged))",
    f"INSERT OR REPLACE INTO bridge (key, crc, data) SELECT {_fields('03')}, {_BLOB} FROM json_each(NEW.bridge)",
    "DELETE FROM delayed WHERE id IN (SELECT value FROM json_each(NEW.undelayed))",
    f"INSERT OR REPLACE INTO delayed (id, crc, data) SELECT {_fields('03')}, {_BLOB} FROM json_each(NEW.delayed)",
    f"INSERT OR REPLACE INTO counter (sid, name, value) SELECT {_fields('012')} FROM json_each(NEW.counters)",
    f"INSERT OR REPLACE INTO meta (key, value) SELECT {_fields('01')} FROM json_each(NEW.meta)",
)

APPLY: Final = f"INSERT INTO apply ({_COLUMNS}) VALUES ({', '.join('?' * len(_COLUMNS.split(',')))})"


def prepare(connection: sqlite3.Connection) -> None:
    """Make the view and its trigger; both are temporary, so that no file carries them."""
    nulls = ", ".join("NULL" for _ in _COLUMNS.split(","))
    connection.execute(f"CREATE TEMP VIEW apply ({_COLUMNS}) AS SELECT {nulls}")
    connection.execute(f"CREATE TEMP TRIGGER apply_batch INSTEAD OF INSERT ON apply BEGIN {'; '.join(_STEPS)}; END")


def parameters(batch: Batch) -> Parameters:
    """The parameters for APPLY."""
    packed: list[bytes] = []
    cursors, used = _pack(batch.cursors, packed, 0)
    retained, used = _pack(batch.retained, packed, used)
    wills, used = _pack(batch.wills, packed, used)
    bridge, used = _pack(batch.bridge, packed, used)
    delayed, used = _pack(batch.delayed, packed, used)
    return (
        batch.segment_id,
        batch.segment_last,
        crc32(batch.targets),
        crc32(batch.records),
        batch.targets,
        batch.records,
        _rows(batch.dead_segments),
        _rows(batch.gone),
        _rows(batch.sessions),
        _rows(cursors),
        _rows(batch.unsubscribed),
        _rows(batch.subscriptions),
        _rows([topic for topic, data in batch.retained.items() if data is None]),
        _rows(retained),
        _rows([client_id for client_id, data in batch.wills.items() if data is None]),
        _rows(wills),
        _rows([key for key, data in batch.bridge.items() if data is None]),
        _rows(bridge),
        _rows([id for id, data in batch.delayed.items() if data is None]),
        _rows(delayed),
        _rows(batch.counters),
        _rows(list(batch.meta.items())),
        b"".join(packed),
    )


def _pack(
    blobs: Mapping[int, bytes | None] | Mapping[str, bytes | None], packed: list[bytes], used: int
) -> tuple[list[tuple[int | str, int, int, int]], int]:
    rows: list[tuple[int | str, int, int, int]] = []
    for key, blob in blobs.items():
        if blob is not None:
            rows.append((key, used, len(blob), crc32(blob)))
            packed.append(blob)
            used += len(blob)
    return rows, used


def _rows(rows: object) -> str | None:
    # NULL: json_each yields no row and parses nothing
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")) if rows else None
