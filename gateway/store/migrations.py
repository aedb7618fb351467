"""The schema as numbered, additive migrations, and the rule which versions may open a database.

``meta`` carries ``store.schema`` (the newest migration that ran) and ``store.min_reader`` (the oldest version of this
module that still understands the data). A newer schema opens as long as its ``min_reader`` allows it.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from gateway.store.connection import connect
from gateway.store.errors import StoreError
from gateway.store.lock import DirectoryLock

if TYPE_CHECKING:
    from sqlite_utils import Database

KEY_SCHEMA: Final = "store.schema"
KEY_MIN_READER: Final = "store.min_reader"


def _first(db: "Database") -> None:
    # no affinity for the value: integers stay integers, text stays text
    db.create_table("meta", {"key": str, "value": bytes}, pk="key")
    # targets stand before records: a start reads them without walking the overflow chain of the records
    db.create_table(
        "segment",
        {"id": int, "last": int, "targets_crc": int, "records_crc": int, "targets": bytes, "records": bytes},
        pk="id",
    )
    db.create_table("session", {"sid": int, "client_id": str, "kind": int, "expiry_s": int, "deadline": int}, pk="sid")
    db.table("session").create_index(["client_id", "kind"], unique=True)
    db.create_table("cursor", {"sid": int, "crc": int, "state": bytes}, pk="sid")
    # two-column keys without a rowid: one b-tree and so one page written for each change
    db.execute(
        "CREATE TABLE subscription (sid INTEGER NOT NULL, filter TEXT NOT NULL, options INTEGER, identifier INTEGER,"
        " PRIMARY KEY (sid, filter)) WITHOUT ROWID"
    )
    db.execute(
        "CREATE TABLE counter (sid INTEGER NOT NULL, name TEXT NOT NULL, value INTEGER,"
        " PRIMARY KEY (sid, name)) WITHOUT ROWID"
    )
    db.execute("CREATE TABLE retained (topic TEXT NOT NULL PRIMARY KEY, crc INTEGER, data BLOB) WITHOUT ROWID")
    db.execute("CREATE TABLE will (client_id TEXT NOT NULL PRIMARY KEY, crc INTEGER, data BLOB) WITHOUT ROWID")


# with it came records that say when a message was ingested, which the first version would misread
def _bridge(db: "Database") -> None:
    db.execute("CREATE TABLE bridge (key TEXT NOT NULL PRIMARY KEY, crc INTEGER, data BLOB) WITHOUT ROWID")


# with it came runs of targets, which the versions before would misread
def _delayed(db: "Database") -> None:
    db.create_table("delayed", {"id": int, "crc": int, "data": bytes}, pk="id")


# migration N is MIGRATIONS[N - 1]; each with the oldest version that can still read and write what it leaves
MIGRATIONS: Final[list[tuple[Callable[["Database"], None], int]]] = [(_first, 1), (_bridge, 2), (_delayed, 3)]
SCHEMA: Final = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the database up to date, each migration in a transaction of its own.

    Raises StoreError when a newer version of the program has closed the file to this one.
    """
    have, min_reader = versions(connection)
    if min_reader > SCHEMA:
        raise StoreError(
            f"{path}: written by a newer version (schema {have}, readable from schema {min_reader} on;"
            f" this version knows {SCHEMA})"
        )
    if have >= SCHEMA:
        return
    from sqlite_utils import Database  # 4 MB that most starts need not have

    db = Database(connection, execute_plugins=False)
    for number in range(have + 1, SCHEMA + 1):
        step, oldest = MIGRATIONS[number - 1]
        with db.atomic():
            step(db)
            db.table("meta").upsert_all(
                [{"key": KEY_SCHEMA, "value": number}, {"key": KEY_MIN_READER, "value": oldest}], pk="key"
            )


def create(path: Path) -> None:
    """Make a new database in a process that need not keep what that takes; one that is there is not touched.

    What goes wrong is left to who opens it next, who can say it better.
    """
    if path.exists():
        return  # it may be damaged, which opening it would hide from a start
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = DirectoryLock(path.parent / "forebay.lock")
    except (OSError, StoreError):
        return
    try:
        with closing(connect(path, "fsync", 0)) as connection:
            migrate(connection, path)
    except (sqlite3.Error, StoreError):
        pass
    finally:
        lock.release()


def min_reader_of(path: Path) -> int:
    """The oldest schema whose program can read this database, 0 where there is none. Raises StoreError."""
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            return versions(connection)[1]
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from None


def versions(connection: sqlite3.Connection) -> tuple[int, int]:
    """(schema, min_reader) of the database; (0, 0) when it is empty.

    Raises sqlite3.DatabaseError when there are tables, but not ours.
    """
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return 0, 0
    found: dict[str, object] = {}
    if "meta" in tables:
        found = dict(
            connection.execute("SELECT key, value FROM meta WHERE key IN (?, ?)", (KEY_SCHEMA, KEY_MIN_READER))
        )
    schema, min_reader = found.get(KEY_SCHEMA), found.get(KEY_MIN_READER)
    if not isinstance(schema, int) or not isinstance(min_reader, int):
        raise sqlite3.DatabaseError("no schema version in it")
    return schema, min_reader
