"""Gets what can be read out of a damaged database into a new one, and sets the damaged files aside.

The new database is built beside the damaged one and swapped in by renames, so that a crash on the way loses nothing.
"""

import os
import sqlite3
import struct
import time
from pathlib import Path
from typing import Final

from gateway.store.connection import connect
from gateway.store.harvest import TABLES, Harvest
from gateway.store.migrations import migrate

_WAL_MAGIC: Final = (0x377F0682, 0x377F0683)
_WAL_HEADER_BYTES: Final = 32


def beside(path: Path, ending: str) -> Path:
    """The file of that name with an ending added."""
    return path.with_name(path.name + ending)


def finish_interrupted(path: Path) -> list[str]:
    """Bring a salvage to its end that a crash cut off between its renames; drop one that was not complete."""
    fresh = beside(path, ".new")
    if not fresh.exists():
        return []
    if path.exists():
        for ending in ("", "-wal", "-shm"):
            beside(fresh, ending).unlink(missing_ok=True)
        return []
    os.rename(fresh, path)
    return ["an interrupted salvage was completed"]


def set_aside_unreadable_log(path: Path) -> list[str]:
    """Set a log aside that SQLite would pass over in silence: with a broken header, or beside an empty file."""
    wal = beside(path, "-wal")
    try:
        with wal.open("rb") as file:
            header = file.read(_WAL_HEADER_BYTES)
    except FileNotFoundError:
        return []
    alone = not path.exists() or path.stat().st_size == 0
    if not header or (_wal_header_is_good(header) and not alone):
        return []
    aside = _aside_name(path)
    os.rename(wal, beside(aside, "-wal"))
    what = "a write-ahead log without its database" if alone else "not a write-ahead log"
    return [f"{wal.name}: {what}, the commits in it are lost; set aside as {aside.name}-wal"]


def _wal_header_is_good(header: bytes) -> bool:
    if len(header) < _WAL_HEADER_BYTES or int.from_bytes(header[:4], "big") not in _WAL_MAGIC:
        return False
    # the checksum's byte order is the low bit of the magic; the stored sums are always big-endian
    words = struct.unpack(">6I" if header[3] & 1 else "<6I", header[:24])
    first = second = 0
    for index in range(0, 6, 2):
        first = (first + words[index] + second) & 0xFFFFFFFF
        second = (second + words[index + 1] + first) & 0xFFFFFFFF
    return struct.unpack(">2I", header[24:32]) == (first, second)


def salvage(path: Path, reason: str) -> list[str]:
    """Replace the damaged database by one with the rows that could be read; the lines to report.

    Raises OSError or sqlite3.Error when there is no room for the new one; then the damaged one is still in place.
    """
    fresh = beside(path, ".new")
    for ending in ("", "-wal", "-shm"):
        beside(fresh, ending).unlink(missing_ok=True)
    harvest = Harvest()
    target = connect(fresh, "fsync", 4 * 1024 * 1024)
    try:
        migrate(target, fresh)
        target.execute("BEGIN")
        _copy(path, target, harvest)
        target.execute("COMMIT")
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        target.close()
    aside = _aside_name(path)
    for ending in ("-shm", "-wal", ""):
        if beside(path, ending).exists():
            os.rename(beside(path, ending), beside(aside, ending))
    os.rename(fresh, path)
    _sync_directory(path.parent)
    line = f"{path.name}: {reason}; set aside as {aside.name}; kept {harvest.summary()}"
    return [line, *harvest.losses] if any(harvest.kept.values()) else [line]


def _copy(path: Path, target: sqlite3.Connection, harvest: Harvest) -> None:
    """Copy table by table; a first page that is gone is replaced in a copy, since all tables hang on it."""
    if not _copy_from(path, target, harvest):
        patched = beside(path, ".patched")
        try:
            if _with_first_page_of(beside(path, ".new"), path, patched):
                _copy_from(patched, target, harvest)
        finally:
            for ending in ("", "-wal", "-shm"):
                beside(patched, ending).unlink(missing_ok=True)


def _copy_from(path: Path, target: sqlite3.Connection, harvest: Harvest) -> bool:
    """False when nothing can be read because the file's first page does not make sense."""
    source = sqlite3.connect(path, isolation_level=None)
    source.text_factory = bytes
    try:
        if not _tables(source):
            return False
        for table in TABLES:
            harvest.take(source, target, table)
        return True
    finally:
        source.close()


def _tables(source: sqlite3.Connection) -> set[bytes]:
    """The names of those of our tables that the file's schema still has."""
    try:
        # reads a file that is shorter than it says, and a schema that it finds odd
        source.execute("PRAGMA writable_schema = ON")
        source.execute("PRAGMA query_only = ON")
        names = {name for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return set()
    return names.intersection(table.name.encode() for table in TABLES)


def _with_first_page_of(model: Path, damaged: Path, patched: Path) -> bool:
    """Copy the damaged file under the first page of a new database of the same schema.

    The migrations make the same tables in the same order, so their root pages are where the new file has them.
    """
    with damaged.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
    probe = sqlite3.connect(":memory:")
    try:
        probe.execute("PRAGMA page_size = 4096")
        probe.execute("PRAGMA auto_vacuum = INCREMENTAL")
        migrate(probe, model)
        first_page = bytearray(probe.serialize()[:4096])
    finally:
        probe.close()
    pages = size // 4096
    if pages < 2:
        return False
    struct.pack_into(">I", first_page, 28, pages)
    struct.pack_into(">II", first_page, 32, 0, 0)  # no free pages
    first_page[92:96] = first_page[24:28]  # the size above is the one to believe
    with damaged.open("rb") as source, patched.open("wb") as target:
        target.write(first_page)
        source.seek(4096)
        while chunk := source.read(1 << 20):
            target.write(chunk)
        target.truncate(pages * 4096)
    return True


def _aside_name(path: Path) -> Path:
    """forebay.db.damaged-YYYYMMDD-HHMMSS, numbered on when that is taken."""
    base = beside(path, time.strftime(".damaged-%Y%m%d-%H%M%S"))
    name, number = base, 1
    while any(beside(name, ending).exists() for ending in ("", "-wal", "-shm")):
        number += 1
        name = beside(base, f"-{number}")
    return name


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
