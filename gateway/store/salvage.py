"""Gets what can be read out of a damaged database into a new one, and sets the damaged files aside.

The new database is built beside the damaged one and swapped in by renames, so that a crash on the way loses nothing.
"""

import os
import shutil
import sqlite3
import struct
import time
from pathlib import Path
from typing import Final

from gateway.store.connection import PAGE_BYTES, connect
from gateway.store.harvest import TABLES, Harvest, Table
from gateway.store.leaves import each_leaf
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
    target = connect(fresh, "fsync", 4 * 1024 * 1024)
    try:
        migrate(target, fresh)
        target.execute("BEGIN")
        harvest = Harvest(target)
        _copy(path, harvest)
        kept, losses = harvest.summary(), harvest.losses()
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
    line = f"{path.name}: {reason}; set aside as {aside.name}; kept {kept}"
    return [line] if kept == "nothing" else [line, *losses]


def _copy(path: Path, harvest: Harvest) -> None:
    """Walk the tables; where a page at or below their roots is gone, look at their leaves in a copy of the file.

    A first page that is gone is replaced in the copy, since all tables hang on it.
    """
    copy = beside(path, ".patched")
    try:
        found = _walk(path, harvest)
        if not found and _with_first_page_of(path, copy):
            found = _walk(copy, harvest)
        if harvest.gapped:
            if not copy.exists():
                shutil.copyfile(path, copy)
            roots = {root: table.name for root, table in found.items() if table.name in harvest.gapped}
            tables = {table.name: table for table in TABLES}
            for name, source in each_leaf(copy, roots):
                harvest.add_leaf(source, tables[name])
    except OSError as error:  # most likely no room for the copy: what the walk found is kept
        harvest.note(f"the damaged parts got no closer look: {error.strerror}")
    finally:
        for ending in ("", "-wal", "-shm"):
            beside(copy, ending).unlink(missing_ok=True)


def _walk(path: Path, harvest: Harvest) -> dict[int, Table]:
    """The tables by root page; none when the file's first page does not make sense."""
    source = sqlite3.connect(path, isolation_level=None)
    source.text_factory = bytes
    try:
        found = _tables(source)
        for table in found.values():
            harvest.walk(source, table)
        return found
    finally:
        source.close()


def _tables(source: sqlite3.Connection) -> dict[int, Table]:
    """Those of our tables that the file's schema still has, by root page."""
    try:
        # reads a file that is shorter than it says, and a schema that it finds odd
        source.execute("PRAGMA writable_schema = ON")
        source.execute("PRAGMA query_only = ON")
        roots = dict(source.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"))
    except sqlite3.Error:
        return {}
    return {roots[table.name.encode()]: table for table in TABLES if table.name.encode() in roots}


def _with_first_page_of(damaged: Path, patched: Path) -> bool:
    """Copy the damaged file under the first page of a new database of the same schema.

    The migrations make the same tables in the same order, so their root pages are where the new file has them.
    """
    with damaged.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
    probe = sqlite3.connect(":memory:")
    try:
        probe.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        probe.execute("PRAGMA auto_vacuum = INCREMENTAL")
        migrate(probe, damaged)
        first_page = bytearray(probe.serialize()[:PAGE_BYTES])
    finally:
        probe.close()
    pages = size // PAGE_BYTES
    if pages < 2:
        return False
    struct.pack_into(">I", first_page, 28, pages)
    struct.pack_into(">II", first_page, 32, 0, 0)  # no free pages
    first_page[92:96] = first_page[24:28]  # the size above is the one to believe
    with damaged.open("rb") as source, patched.open("wb") as target:
        target.write(first_page)
        source.seek(PAGE_BYTES)
        while chunk := source.read(1 << 20):
            target.write(chunk)
        target.truncate(pages * PAGE_BYTES)
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
