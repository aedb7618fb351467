"""Copies that wait for their time on our own disk, where the broker has no ``$delayed``.

Times are milliseconds since the machine started, an argument like the name of that start (``boot``): what waits over a
reboot waits its whole delay once more, so never too short. Two consumers may share a file, as when one takes over from
the other.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

from gateway.consumer.message import Outgoing
from gateway.mqtt import packets
from gateway.mqtt.decode import Decoder, check_topic_name
from gateway.mqtt.encode import encode_publish
from gateway.mqtt.errors import PacketError
from gateway.mqtt.packets import V5, Properties, Publish
from gateway.mqtt.properties import decode_properties, encode_properties
from gateway.synced import synced

_BUSY_S: Final = 2.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS copies (
    id INTEGER PRIMARY KEY, due_ms INTEGER NOT NULL, delay_ms INTEGER NOT NULL, boot TEXT NOT NULL, frame BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS due ON copies (due_ms);
CREATE TABLE IF NOT EXISTS damaged (id INTEGER PRIMARY KEY, frame BLOB);
"""


@final
class JournalError(Exception):
    """The file cannot be used, read or written; the text names it.

    ``is_busy``: another process is in the middle of writing to it, so trying again helps.
    """

    def __init__(self, text: str, is_busy: bool = False) -> None:
        super().__init__(text)
        self.is_busy: bool = is_busy


@final
class Waiting(NamedTuple):
    """A copy and when it is due."""

    id: int
    message: Outgoing


@final
class Journal:
    """One file. All methods belong to one thread, the first that calls ``open``, and raise JournalError."""

    def __init__(self, path: Path, boot: str) -> None:
        self.damaged: int = 0  # rows that made no sense and were put into a table of their own
        self._path, self._boot = path, boot
        self._database: sqlite3.Connection | None = None

    def open(self, now_ms: int) -> str:
        """Open, made anew where there is none; returns what had to be set aside, for the log."""
        try:
            return self._open(now_ms, "")
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # not the file's fault
                raise _named(f"{self._path}: cannot be used as a journal", error) from None
            aside = self._set_aside()
            return self._open(now_ms, f"{self._path}: damaged ({error}), set aside as {aside.name}")

    def _open(self, now_ms: int, note: str) -> str:
        database = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
        database.text_factory = bytes  # a row that somebody else wrote must not fail before it is looked at
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            database.executescript(_SCHEMA)
            database.execute(
                "UPDATE copies SET due_ms = ? + delay_ms, boot = ? WHERE boot <> ?", (now_ms, self._boot, self._boot)
            )
        except BaseException:
            database.close()
            raise
        self._database = database
        return note

    def _set_aside(self) -> Path:
        number = 1
        while (aside := self._path.with_name(f"{self._path.name}.damaged-{number}")).exists():
            number += 1
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        return self._path.rename(aside)

    def add(self, copies: Sequence[tuple[Outgoing, int]], now_ms: int) -> None:
        """(message, delay in ms) of each; on disk when this returns, all of them or none."""
        rows = [(now_ms + delay_ms, delay_ms, self._boot, _frame(message)) for message, delay_ms in copies]
        with self._using() as database, synced(self._path.parent):
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany("INSERT INTO copies (due_ms, delay_ms, boot, frame) VALUES (?, ?, ?, ?)", rows)
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def due(self, now_ms: int, limit: int) -> list[Waiting]:
        """The first ``limit`` that are due, in their order."""
        with self._using() as database:
            rows = database.execute(
                "SELECT id, frame FROM copies WHERE due_ms <= ? ORDER BY due_ms, id LIMIT ?", (now_ms, limit)
            ).fetchall()
        return [Waiting(id, message) for id, frame in rows if (message := self._read(id, frame)) is not None]

    def _read(self, id: int, frame: bytes) -> Outgoing | None:
        message = _message(frame)
        if message is None:
            self.damaged += 1
            with self._using() as database:
                database.execute("INSERT INTO damaged (frame) VALUES (?)", (frame,))
                database.execute("DELETE FROM copies WHERE id = ?", (id,))
        return message

    def next_due_ms(self) -> int | None:
        """When the first is due; None with an empty journal."""
        with self._using() as database:
            found: tuple[int | None] = database.execute("SELECT min(due_ms) FROM copies").fetchone()
        return found[0]

    def remove(self, ids: Sequence[int]) -> None:
        """They are published."""
        with self._using() as database:
            database.executemany("DELETE FROM copies WHERE id = ?", [(id,) for id in ids])

    def postpone(self, id: int, due_ms: int) -> None:
        """It could not be published."""
        with self._using() as database:
            database.execute("UPDATE copies SET due_ms = ? WHERE id = ?", (due_ms, id))

    def count(self) -> int:
        """Copies that wait."""
        with self._using() as database:
            found: tuple[int] = database.execute("SELECT count(*) FROM copies").fetchone()
        return found[0]

    def close(self) -> None:
        """Nothing is lost by not closing."""
        if self._database is not None:
            self._database.close()
            self._database = None

    @contextlib.contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        assert self._database is not None, "not open"
        try:
            yield self._database
        except (sqlite3.Error, OSError) as error:
            raise _named(str(self._path), error) from None


def _named(where: str, error: sqlite3.Error | OSError) -> JournalError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more exactly which
    return JournalError(f"{where}: {error}", code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))


def _frame(message: Outgoing) -> bytes:
    """As a PUBLISH of MQTT 5.0, which holds all there is to a message."""
    encoded = encode_properties(message.properties, packets.PUBLISH)
    skip = 1  # the length field
    while encoded[skip - 1] & 0x80:
        skip += 1
    return encode_publish(V5, message.topic.encode(), message.payload, message.qos, False, False, 1, encoded[skip:])


def _message(frame: bytes) -> Outgoing | None:
    """None for what makes no sense."""
    try:
        decoder = Decoder(0, V5)
        decoder.feed(frame)
        publish = decoder.next()
        if not isinstance(publish, Publish) or decoder.buffered:
            return None
        properties: Properties | None = None
        if publish.props or publish.expiry >= 0:
            properties = decode_properties(publish.props, 0, len(publish.props), packets.PUBLISH)
            properties.message_expiry_interval = publish.expiry
        return Outgoing(check_topic_name(publish.topic), publish.payload, publish.qos, properties)
    except (PacketError, TypeError):
        return None
