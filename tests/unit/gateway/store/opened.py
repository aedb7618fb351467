"""A store on a real file, whose callbacks a test can wait for."""

import queue
from pathlib import Path
from typing import Any

from gateway.core.batch import Batch, Snapshot
from gateway.store.sqlite import Store

WAIT_S = 60.0


class Opened:
    """A Store with its answers in queues."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.done: queue.Queue[tuple[int, str | None]] = queue.Queue()
        self.found: queue.Queue[tuple[int, list[tuple[int, bytes]]]] = queue.Queue()
        self.store = Store(
            path,
            on_done=lambda number, reason: self.done.put((number, reason)),
            on_read=lambda token, segments: self.found.put((token, segments)),
            **options,
        )
        self.snapshot: Snapshot = self.store.open()
        self.snapshot.bridge = list(self.snapshot.bridge)  # as whoever starts with it: before the store does
        self.store.start()
        self.closed = False

    def commit(self, batch: Batch) -> str | None:
        self.store.submit(batch)
        number, reason = self.done.get(timeout=WAIT_S)
        assert number == batch.number
        return reason

    def read(self, *ids: int) -> list[tuple[int, bytes]]:
        self.store.read(7, list(ids))
        token, segments = self.found.get(timeout=WAIT_S)
        assert token == 7
        return segments

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.store.close()
