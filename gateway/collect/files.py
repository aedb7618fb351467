"""Where a collector puts what it took: a SQLite database, or a file of JSON lines. On disk when ``write`` returns."""

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, final

from gateway.synced import synced

_TAIL_BYTES: Final = 8 * 1024 * 1024  # of a file of lines, where what may come again is looked for
_REMEMBERED: Final = 100_000  # ingest ids
_HEAD: Final = b'{"topic": "'  # of a line
_ROWS: Final = 200  # of one SQL statement


class FileError(Exception):
    """The file cannot be read or written; the text names it."""


class Row(NamedTuple):
    """One message; ``received`` in UTC ms, ``ingest`` what a gateway calls it, "" when it does not."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    received: int
    properties: dict[str, Any]
    ingest: str = ""


class File(Protocol):
    """What a collector writes to; all calls come from one thread at a time."""

    def open(self) -> None:
        """Raises FileError."""

    def write(self, rows: Sequence[Row]) -> int:
        """Store them, without those that are there already; how many that were. Raises FileError."""

    def close(self) -> None: ...


@final
class Database:
    """A table ``messages``; a message whose ingest id is there already is not stored twice."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: Any = None

    def open(self) -> None:
        import sqlite3  # here, since other commands do without

        import sqlite_utils

        try:
            connection = sqlite3.connect(self._path, check_same_thread=False)  # one thread at a time
            self._database = database = sqlite_utils.Database(connection)
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            columns = {
                "number": int, "topic": str, "payload": bytes, "qos": int, "retain": int, "received": int,
                "properties": str, "ingest": str,
            }  # fmt: skip
            messages = database.table("messages")
            messages.create(columns, pk="number", if_not_exists=True)
            missing = columns.keys() - messages.columns_dict.keys()
            if missing:
                raise FileError(f"{self._path}: its table messages has no column {', '.join(sorted(missing))}")
            messages.create_index(["ingest"], unique=True, if_not_exists=True)
            messages.create_index(["topic", "received"], if_not_exists=True)
        except FileError:
            raise
        except Exception as error:  # the driver's own kinds
            raise FileError(f"{self._path}: cannot be used as a database: {error}") from None

    def write(self, rows: Sequence[Row]) -> int:
        try:
            with synced(self._path.parent), self._database.atomic():
                before = self._database.conn.total_changes
                self._database.table("messages").insert_all(
                    ({**row._asdict(), "retain": int(row.retain), "properties": _text(row.properties),
                      "ingest": row.ingest or None} for row in rows),
                    ignore=True, batch_size=_ROWS,
                )  # fmt: skip
                return int(self._database.conn.total_changes - before)
        except Exception as error:
            raise FileError(f"{self._path}: cannot be written: {error}") from None

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


@final
class Lines:
    """One JSON object for each message; a payload that is no UTF-8 text is ``payload_base64``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._size = 0
        self._ingested: dict[str, None] = {}

    def open(self) -> None:
        """What a crash left behind the last whole line was never acknowledged: it goes, and comes again."""
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            size = os.fstat(self._file).st_size
            start = max(0, size - _TAIL_BYTES)
            tail = os.pread(self._file, size - start, start)
            end = tail.rfind(b"\n") + 1
            if end == 0 and start:
                raise FileError(f"{self._path}: expected lines, its end is none")
            if not _is_torn(tail[end:]):
                raise FileError(f"{self._path}: expected lines of a collector, its end is {tail[end:][:40]!r}")
            self._size = start + end
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)
        except OSError as error:
            raise FileError(f"{self._path}: cannot be written: {error.strerror}") from None
        for line in tail[:end].splitlines()[1 if start else 0 :]:
            try:
                self._remember(json.loads(line).get("ingest", ""))
            except (ValueError, AttributeError):
                raise FileError(f"{self._path}: expected JSON objects, found {line[:40]!r}") from None

    def write(self, rows: Sequence[Row]) -> int:
        assert self._file is not None
        seen: set[str] = set()
        fresh = [row for row in rows if not row.ingest or self._is_new(row.ingest, seen)]
        data = b"".join([_line(row) for row in fresh])
        try:
            done = 0
            with synced(self._path.parent):
                while done < len(data):
                    done += os.pwrite(self._file, data[done:], self._size + done)
                os.fdatasync(self._file)
        except OSError as error:
            raise FileError(f"{self._path}: cannot be written: {error.strerror}") from None
        self._size += len(data)
        for row in fresh:
            self._remember(row.ingest)
        return len(fresh)

    def _is_new(self, ingest: str, seen: set[str]) -> bool:
        """Neither in the file nor in this batch, whose own is ``seen``."""
        if ingest in self._ingested or ingest in seen:
            return False
        seen.add(ingest)
        return True

    def _remember(self, ingest: str) -> None:
        if ingest:
            self._ingested[ingest] = None
            if len(self._ingested) > _REMEMBERED:
                del self._ingested[next(iter(self._ingested))]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _is_torn(rest: bytes) -> bool:
    """Whether a crash may have left this behind the last whole line; anything else somebody will want to keep."""
    return _HEAD.startswith(rest[: len(_HEAD)]) or not rest.strip(b"\0")


def _line(row: Row) -> bytes:
    said: dict[str, Any] = {"topic": row.topic}
    try:
        said["payload"] = row.payload.decode()
    except UnicodeDecodeError:
        said["payload_base64"] = base64.b64encode(row.payload).decode()
    said |= {"qos": row.qos, "retain": row.retain, "received": row.received, "properties": row.properties}
    if row.ingest:
        said["ingest"] = row.ingest
    return json.dumps(said, ensure_ascii=False).encode() + b"\n"


def _text(properties: dict[str, Any]) -> str:
    return json.dumps(properties, ensure_ascii=False) if properties else "{}"


def file_at(path: Path) -> File:
    """Which kind a path asks for by its ending. Raises FileError."""
    if path.suffix in (".jsonl", ".ndjson"):
        return Lines(path)
    if path.suffix in (".db", ".sqlite", ".sqlite3"):
        return Database(path)
    raise FileError(f"{path}: expected a name that ends in .db, .sqlite, .sqlite3, .jsonl or .ndjson")
