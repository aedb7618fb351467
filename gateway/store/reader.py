"""Reads segments of the log, at the start on the caller's thread and later on one of its own."""

import json
import logging
import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, final

from gateway.store.connection import Connect, one_line
from gateway.store.load import read_segments

_log: Final = logging.getLogger("forebay.store")

OnRead = Callable[[int, list[tuple[int, bytes]]], None]


@final
class SegmentReader:
    """Gives every segment that was asked for, in that order; b"" for one that is gone or damaged."""

    def __init__(self, connect: Connect, on_read: OnRead) -> None:
        self.damaged = 0
        self._connect = connect
        self._on_read = on_read
        self._connection = connect()
        # attach now: while this connection holds the log's index, a failed commit that reached the log file can never
        # come back to life through a recovery when the writer reopens
        self._connection.execute("SELECT count(*) FROM meta").fetchall()
        self._jobs: SimpleQueue[tuple[int, list[int]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="store-reader", daemon=True)
        self._thread.start()

    def submit(self, token: int, ids: list[int]) -> None:
        """Ask for segments; ``on_read`` gets them on the reader's thread."""
        self._jobs.put((token, ids))

    def close(self) -> None:
        """Answer what was asked, then end."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            token, ids = job
            self._on_read(token, self.fetch(ids))

    def fetch(self, ids: list[int]) -> list[tuple[int, bytes]]:
        """The records of these segments, now, on this thread."""
        try:
            found = read_segments(self._connection, json.dumps(ids))
        except sqlite3.Error:
            found = self._fetch_singly(ids)
        for segment_id, records in found.items():
            if records is None:
                self.damaged += 1
                _log.warning("segment %d of the message log is damaged: its messages are lost", segment_id)
        return [(segment_id, found.get(segment_id) or b"") for segment_id in ids]

    def _fetch_singly(self, ids: list[int]) -> dict[int, bytes | None]:
        # one bad page must not cost its neighbours, and a passing error must not cost anything
        self._reopen()
        found: dict[int, bytes | None] = {}
        for segment_id in ids:
            try:
                found.update(read_segments(self._connection, json.dumps([segment_id])))
            except sqlite3.Error as error:
                _log.warning("segment %d of the message log cannot be read: %s", segment_id, one_line(error))
                found[segment_id] = None
        return found

    def _reopen(self) -> None:
        try:
            fresh = self._connect()
        except sqlite3.Error:
            return  # the old one may still serve
        self._connection.close()
        self._connection = fresh
