"""What waits in the database for one session or shared group, read beside a gateway that serves, or without one.

The database is some milliseconds behind: what its receiver has just acknowledged may still be shown.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, final
from zlib import crc32

from gateway.core.message import Message, Segment
from gateway.core.model import LANE
from gateway.core.part import Part
from gateway.core.record import (
    Corrupt,
    SessionState,
    StoredTarget,
    unpack_segment_targets,
    unpack_state,
)
from gateway.store.connection import one_line

SESSION: Final = 0
GROUP: Final = 1


@final
class QueueError(Exception):
    """One line: there is no such queue, or the database cannot be read."""


class Waiting(NamedTuple):
    """A message that is not acknowledged. ``qos`` as it is delivered; times in gateway ms, ``expires`` 0 = never."""

    message: Message
    qos: int
    since: int
    expires: int


def waiting(database: Path, client_id: str) -> Iterator[Waiting]:
    """The messages of a session, or of a group by its name "$share/GROUP/FILTER", the oldest first. QueueError."""
    if not database.is_file():
        raise QueueError(f"{database}: there is no database")
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)) as db:
            db.execute("BEGIN")
            yield from _waiting(db, database, client_id)
    except sqlite3.Error as error:
        raise QueueError(f"{database}: {one_line(error)}") from error


def _waiting(db: sqlite3.Connection, database: Path, client_id: str) -> Iterator[Waiting]:
    row = db.execute("SELECT sid FROM session WHERE client_id = ?", (client_id,)).fetchone()
    if row is None:
        raise QueueError(f"{client_id}: no session or group of this name in {database}")
    own: int = row[0]
    states = {sid: _state(crc, state) for sid, crc, state in db.execute("SELECT sid, crc, state FROM cursor")}
    segments = db.execute("SELECT id, targets_crc, targets FROM segment ORDER BY id")
    for segment_id, targets_crc, targets in segments:
        if crc32(targets) != targets_crc:
            continue
        try:
            _, since, _, sets = unpack_segment_targets(targets)
            if any(target.sid % LANE == own for one in sets for target in one.targets):
                yield from _of_segment(db, segment_id, own, states, since)
        except Corrupt:
            continue  # the gateway reports and counts it when it comes to read it


def _of_segment(
    db: sqlite3.Connection, segment_id: int, own: int, states: dict[int, SessionState], since: int
) -> Iterator[Waiting]:
    records_crc, records = db.execute("SELECT records_crc, records FROM segment WHERE id = ?", (segment_id,)).fetchone()
    if crc32(records) != records_crc:
        return
    for entry in Part(Segment(segment_id), records).all() or ():
        target = _owed(entry.message.seq, entry.targets, own, states)
        if target is not None:
            message = entry.message
            yield Waiting(message, min(message.qos, target.qos), since, message.deadline)


def _owed(seq: int, targets: list[StoredTarget], own: int, states: dict[int, SessionState]) -> StoredTarget | None:
    for target in targets:
        if target.sid % LANE == own:
            state = states.get(target.sid)
            if state is None or (seq > state.cursor and seq not in state.ahead):
                return target
    return None


def _state(crc: int, data: bytes) -> SessionState:
    try:
        return unpack_state(data) if crc32(data) == crc else SessionState()
    except Corrupt:
        return SessionState()
