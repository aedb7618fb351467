"""Finds the leaf pages of a table whose inner pages are damaged, and lets SQLite read them one at a time.

The file's pointer map (it is there because of auto_vacuum) names the parent of every page, free pages excepted, so a
leaf can be told to belong to a table even when no path from the root leads to it. In a copy of the file each leaf in
turn is put in the root's place, which makes it the whole table: no record has to be decoded here.
"""

import os
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from gateway.store.connection import PAGE_BYTES

_LEAF_KINDS: Final = (0x0D, 0x0A)  # of a table, and of one without a rowid
_TREE_PAGE: Final = 5  # in the pointer map: a page of a b-tree that is not its root
_MAPPED: Final = PAGE_BYTES // 5  # pages that one page of the map describes
_LOCK_PAGE: Final = 0x40000000 // PAGE_BYTES + 1
_DEPTH_MAX: Final = 20


def each_leaf(copy: Path, roots: dict[int, str]) -> Iterator[tuple[str, sqlite3.Connection]]:
    """(table, connection in which the table consists of one of its leaves), for every leaf below the given roots.

    ``copy`` is written to. What the connection reads may still be damaged.
    """
    with copy.open("r+b", buffering=0) as file:
        pages = file.seek(0, os.SEEK_END) // PAGE_BYTES
        parents = _parents(file, pages)
        # no write-ahead log beside the copy: each change of the counter below is what makes SQLite read anew
        _write(file, 18, b"\x01\x01")
        originals = {root: _read(file, root) for root in roots}
        counter = 1
        connection = sqlite3.connect(copy, isolation_level=None)
        connection.text_factory = bytes
        try:
            for page in sorted(parents):
                root = _root_of(page, parents)
                leaf = _read(file, page)
                if root not in roots or leaf[0] not in _LEAF_KINDS:
                    continue
                counter += 1
                _write(file, (root - 1) * PAGE_BYTES, leaf)
                _write(file, 24, struct.pack(">I", counter))
                _write(file, 92, struct.pack(">I", counter))
                yield roots[root], connection
                _write(file, (root - 1) * PAGE_BYTES, originals[root])
        finally:
            connection.close()


def _parents(file: BinaryIO, pages: int) -> dict[int, int]:
    """The parent of every page that belongs to a b-tree, as far as the pointer map can be read."""
    parents: dict[int, int] = {}
    for first in range(2, pages + 1, _MAPPED + 1):
        at = first + 1 if first == _LOCK_PAGE else first
        entries = _read(file, at)
        for index in range(_MAPPED):
            kind, parent = struct.unpack_from(">BI", entries, 5 * index)
            page = at + 1 + index
            if kind == _TREE_PAGE and page <= pages and page != _LOCK_PAGE:
                parents[page] = parent
    return parents


def _root_of(page: int, parents: dict[int, int]) -> int:
    for _ in range(_DEPTH_MAX):
        if page not in parents:
            break
        page = parents[page]
    return page


def _read(file: BinaryIO, page: int) -> bytes:
    return os.pread(file.fileno(), PAGE_BYTES, (page - 1) * PAGE_BYTES).ljust(PAGE_BYTES, b"\x00")


def _write(file: BinaryIO, offset: int, content: bytes) -> None:
    os.pwrite(file.fileno(), content, offset)
