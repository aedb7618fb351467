"""Takes messages from a broker into a file, and acknowledges what is on disk there and nothing else."""

import asyncio
import fcntl
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from gateway.client import Client, Delivery
from gateway.collect.files import File, FileError, Row

_BATCH_S: Final = 0.02  # a batch waits so long for more
_AGAIN_S: Final = 1.0  # before a file that cannot be written is tried again
_HELD: Final = 10  # batches that may wait before we read no more
_ID: Final = "forebay-id"
_DIGITS: Final = 20  # more a gateway never says, and no number is made of them
_RECEIVED: Final = "forebay-received"


@final
@dataclass(slots=True)
class Totals:
    """What was done; ``lag_ms`` of the newest message that says when its gateway got it, -1 when none does."""

    stored: int = 0
    repeated: int = 0
    lag_ms: int = -1


@final
class Identity:
    """A client id for the life of an output: in a file beside it, which is locked as long as this is."""

    def __init__(self, output: Path) -> None:
        self._path = output.with_name(output.name + ".id")
        self._file = -1
        self.client_id = ""
        self.is_new = False  # it was made up by this

    def take(self) -> str:
        """The client id, made up where there is none yet. Raises FileError."""
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileError(f"{self._path}: another collector uses it") from None
            said = os.pread(self._file, 200, 0).decode(errors="replace").strip()
            if not said:
                said = f"collect-{uuid.uuid4()}"
                self.is_new = True
                os.pwrite(self._file, said.encode() + b"\n", 0)
                os.fsync(self._file)
                folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
                os.fsync(folder)
                os.close(folder)
        except OSError as error:
            raise FileError(f"{self._path}: cannot be written: {error.strerror}") from None
        if not said.isprintable() or "\ufffd" in said:
            raise FileError(f"{self._path}: expected a client id, found {said!r}")
        self.client_id = said
        return said

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@final
class Collector:
    """Batches close at ``batch`` messages or 20 ms after their first; while one is written the next gathers.

    They also close at the number at which the last two of them ended, all the same: a broker sends no more than its
    window before it gets an answer, and waiting for more would be in vain.

    A file that cannot be written is tried again for ever, while the broker keeps what it did not get acknowledged;
    ``said`` gets a line for people about it. With ``count`` it ends after so many (0 = it takes none until stopped);
    what is more stays with the broker.
    """

    def __init__(self, file: File, batch: int, said: Callable[[str], object], count: int | None = None) -> None:
        self.totals = Totals()
        self.ended = asyncio.Event()
        self._file, self._batch, self._said, self._left = file, batch, said, count
        self._client: Client | None = None
        self._waiting: list[Delivery] = []
        self._came = asyncio.Event()
        self._full = asyncio.Event()
        self._is_broken = False  # the file, and it was said
        self._goal = batch  # messages at which this batch closes
        self._last = 0  # of the batch before

    def attach(self, client: Client) -> None:
        """The client whose reading stops where no Receive Maximum bounds what comes."""
        self._client = client

    def deliver(self, one: Delivery) -> None:
        """Take a message."""
        if self._left is not None:
            if self._left <= 0:
                return
            self._left -= 1
        self._waiting.append(one)
        self._came.set()
        waiting = len(self._waiting)
        if waiting >= self._goal or self._left == 0:
            self._full.set()
            if waiting >= self._batch * _HELD and self._client is not None:
                self._client.hold(True)

    def stop(self) -> None:
        """Store what was taken, and end."""
        self.ended.set()
        self._left = 0
        self._came.set()
        self._full.set()

    async def run(self) -> None:
        """Until stopped or ``count`` is reached, and all that was taken is stored and acknowledged."""
        while True:
            while not self._waiting:
                if self.ended.is_set():
                    return
                self._came.clear()
                await self._came.wait()
            await self._gathered()
            taken, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
            await self._store([_row(one) for one in taken])
            for one in taken:
                one.ack()
            if self._client is not None and len(self._waiting) < self._batch:
                self._client.hold(False)
            if self._left == 0 and not self._waiting:
                self.ended.set()

    async def _gathered(self) -> None:
        """The batch is whole."""
        is_late = False
        if len(self._waiting) < self._goal and not self.ended.is_set():
            self._full.clear()
            try:
                async with asyncio.timeout(_BATCH_S):
                    await self._full.wait()
            except TimeoutError:
                is_late = True
        count = min(len(self._waiting), self._batch)
        if is_late or count != self._goal:
            self._goal = count if count == self._last else self._batch
        self._last = count

    async def _store(self, rows: list[Row]) -> None:
        while True:
            try:
                fresh = await asyncio.to_thread(self._file.write, rows)
                break
            except FileError as error:
                if not self._is_broken:
                    self._said(f"{error}; trying again, the broker keeps what comes")
                self._is_broken = True
                await asyncio.sleep(_AGAIN_S)
        if self._is_broken:
            self._is_broken = False
            self._said("the file can be written again")
        self.totals.stored += fresh
        self.totals.repeated += len(rows) - fresh
        for row in reversed(rows):
            if row.ingest:
                self.totals.lag_ms = max(0, row.received - int(row.ingest.partition("/")[2]))
                break


def _row(one: Delivery) -> Row:
    """As it is stored."""
    properties, ingest = _properties(one)
    return Row(one.topic, one.payload, one.qos, one.retain, time.time_ns() // 1_000_000, properties, ingest)


def _properties(one: Delivery) -> tuple[dict[str, Any], str]:
    """Those of MQTT 5.0 that are there, and the gateway's name for the message: its ingest id and time."""
    found = one.properties
    said: dict[str, Any] = {}
    if found.user_properties:
        said["user"] = [list(pair) for pair in found.user_properties]
    if found.content_type is not None:
        said["content_type"] = found.content_type
    if found.response_topic is not None:
        said["response_topic"] = found.response_topic
    if found.correlation_data is not None:
        said["correlation_data"] = found.correlation_data.hex()
    if found.payload_format_indicator >= 0:
        said["payload_format"] = found.payload_format_indicator
    if found.message_expiry_interval >= 0:
        said["expiry_s"] = found.message_expiry_interval
    if not found.user_properties:
        return said, ""
    user = dict(found.user_properties)
    id, received = user.get(_ID, ""), user.get(_RECEIVED, "")
    is_ours = all(one.isdecimal() and len(one) <= _DIGITS for one in (id, received))
    return said, f"{id}/{received}" if is_ours else ""
