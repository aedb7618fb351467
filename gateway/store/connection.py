"""Opening a connection the way the store needs it, and what an SQLite error means."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

Connect = Callable[[], sqlite3.Connection]

PAGE_BYTES: Final = 4096
DAMAGED: Final = "database damaged"  # how such a reason begins
LOST: Final = "database gone"  # likewise
# a net only: the writer checkpoints earlier, between two commits instead of inside one
_AUTOCHECKPOINT_PAGES: Final = 4096
_WAL_KEPT_BYTES: Final = 8 * 1024 * 1024  # a log file that one huge commit blew up is cut back to this
_BUSY_S: Final = 2.0  # somebody inspects the file with another program

_DAMAGE_CODES: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR))
_DAMAGE_EXTENDED: Final = frozenset((
    sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS,
    sqlite3.SQLITE_IOERR_DATA,
))  # fmt: skip


def connect(path: Path, durability: str, cache_bytes: int) -> sqlite3.Connection:
    """A connection in autocommit mode on a WAL database, which is created if need be.

    ``durability``: "fsync" = every commit is synced before it returns, "os" = only checkpoints are.
    Raises sqlite3.Error.
    """
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        if connection.execute("PRAGMA page_count").fetchone()[0] == 0:  # on an old file the second would be a write
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'fsync' else 'NORMAL'}")
        connection.execute(f"PRAGMA cache_size = -{max(cache_bytes // 1024, 64)}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_AUTOCHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        connection.execute("PRAGMA temp_store = MEMORY")
        # on in some builds: it writes every page of a deleted message once more, full of zeros
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is damaged, rather than locked, full or not to be opened."""
    code = getattr(error, "sqlite_errorcode", None)
    # no code: Python's own complaint about the data, as text that is not UTF-8
    return code is None or code & 0xFF in _DAMAGE_CODES or code in _DAMAGE_EXTENDED


def is_corrupt(error: BaseException) -> bool:
    """Whether SQLite itself found the file to be damaged."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def one_line(error: BaseException) -> str:
    """The reason in one line, full disks named as such."""
    text = " ".join(str(error).split()) or type(error).__name__
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_FULL:
        return f"disk full: {text}"
    if is_corrupt(error):
        return f"{DAMAGED}: {text}"
    name = getattr(error, "sqlite_errorname", "")
    return f"{text} ({name})" if name else text
