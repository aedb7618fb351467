"""Copies on their way: at once, through the broker's ``$delayed``, or through the journal on our own disk.

A copy is safe when ``make`` says so: the broker has acknowledged it, or the journal has it on disk.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, final

from gateway.consumer.journal import Journal, JournalError, Waiting
from gateway.consumer.message import Outgoing
from gateway.mqtt import reasons

DELAYED_MAX_S: Final = 4_294_967
"""The longest delay that ``$delayed`` takes."""

_DELAYED_TOPIC_MAX: Final = 65_535 - len(f"$delayed/{DELAYED_MAX_S}/")
_TRANSIENT: Final = frozenset(
    {reasons.UNSPECIFIED_ERROR, reasons.IMPLEMENTATION_SPECIFIC_ERROR, reasons.QUOTA_EXCEEDED}
)
_PAUSE_MIN_S: Final = 0.1
_PAUSE_MAX_S: Final = 30.0
_POLL_S: Final = 1.0  # another consumer may write to the same journal
_BURST: Final = 100

_log = logging.getLogger("forebay.consumer")
_R = TypeVar("_R")

Publish = Callable[[Outgoing], Awaitable[int]]
"""Resolves with the broker's reason code, over as many connections as it takes. Raises what ends it for good."""


def _boottime_ms() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"since {_boottime_ms()}"  # never that of another run


@final
class Copies:
    """``through_broker`` says whether the broker of this connection has ``$delayed``."""

    def __init__(self, publish: Publish, journal: Path, clock_ms: Callable[[], int] = _boottime_ms) -> None:
        self.through_broker: bool = False
        self.journaled: int = 0  # copies that wait in the journal
        self.unread: int = 0  # that the broker has for nobody
        self._publish = publish
        self._path = journal
        self._clock_ms = clock_ms
        self._journal: Journal | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._adding: list[tuple[Outgoing, int, asyncio.Future[None]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._publishing: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()

    async def make(self, message: Outgoing, delay_s: float) -> bool:
        """Whether the copy is safe now; False where nobody takes it, which is logged."""
        if delay_s <= 0:
            return await self._send(message)
        seconds = math.ceil(delay_s)
        if self.through_broker and seconds <= DELAYED_MAX_S and len(message.topic.encode()) <= _DELAYED_TOPIC_MAX:
            delayed = message._replace(topic=f"$delayed/{seconds}/{message.topic}")
            code = await self._publish(delayed)
            if code < 0x80:
                return True
            _log.warning(
                "the broker does not delay a copy (reason code 0x%02x): it waits in the journal",
                code,
                extra={"topic": message.topic, "reason_code": code},
            )
        return await self._keep(message, delay_s)

    async def _send(self, message: Outgoing) -> bool:
        """Publish now, again while the broker says that it cannot at this moment."""
        pause_s = _PAUSE_MIN_S
        while True:
            code = await self._publish(message)
            if code < 0x80:
                self._note_unread(message, code)
                return True
            if code not in _TRANSIENT:
                _log.error(
                    "the broker refuses a copy to %s (reason code 0x%02x)",
                    message.topic,
                    code,
                    extra={"topic": message.topic, "reason_code": code},
                )
                return False
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _note_unread(self, message: Outgoing, code: int) -> None:
        if code == reasons.NO_MATCHING_SUBSCRIBERS:
            self.unread += 1
            _log.warning(
                "nobody subscribes to %s: what is published there is gone",
                message.topic,
                extra={"topic": message.topic},
            )

    # The journal

    async def start(self) -> None:
        """Take up what an earlier run left, later where another process has it locked. Raises JournalError."""
        if not self._path.exists():
            return
        try:
            await self._open()
        except JournalError as error:
            if not error.is_busy:
                raise
            _log.warning("%s; tried again", error)
            self._opening = asyncio.get_running_loop().create_task(self._open_later())

    async def _open_later(self) -> None:
        while self._journal is None:
            await asyncio.sleep(_POLL_S)
            try:
                await self._open()
            except JournalError as error:
                if not error.is_busy:
                    _log.error("%s", error)

    async def _open(self) -> None:
        async with self._lock:
            if self._journal is None:
                await self._open_now()

    async def _open_now(self) -> None:
        journal = Journal(self._path, _boot())
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "journal")
        note = await self._in_thread(partial(journal.open, self._clock_ms()))
        if note:
            _log.error("%s", note)
        self._journal = journal
        self.journaled = await self._in_thread(journal.count)
        self._publishing = asyncio.get_running_loop().create_task(self._publish_due(journal))

    async def _in_thread(self, work: Callable[[], _R]) -> _R:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _keep(self, message: Outgoing, delay_s: float) -> bool:
        properties = message.properties  # made for this copy
        if properties is not None and properties.message_expiry_interval > delay_s:
            properties.message_expiry_interval -= int(delay_s)  # it runs while the copy waits
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._adding.append((message, math.ceil(delay_s * 1000), kept))
        if self._committing is None:
            self._committing = asyncio.get_running_loop().create_task(self._commit())
        try:
            await kept
        except JournalError as error:
            _log.error("a copy to %s cannot be kept: %s", message.topic, error, extra={"topic": message.topic})
            return False
        return True

    async def _commit(self) -> None:
        """Write all that gathered while the last was written, as one."""
        try:
            while self._adding:
                adding, self._adding = [one for one in self._adding if not one[2].done()], []
                rows = [(message, delay_ms) for message, delay_ms, _ in adding]
                try:
                    await self._open()
                    journal = self._journal
                    assert journal is not None
                    await self._in_thread(partial(journal.add, rows, self._clock_ms()))
                except JournalError as error:
                    if error.is_busy:  # their originals wait with them
                        self._adding = adding + self._adding
                        await asyncio.sleep(_PAUSE_MIN_S)
                        continue
                    _fail(adding, error)
                    continue
                except Exception as error:  # who waits must hear of it, whatever it is
                    _fail(adding, JournalError(f"{self._path}: {error}"))
                    continue
                self.journaled += len(rows)
                self._changed.set()
                for _, _, kept in adding:
                    if not kept.done():
                        kept.set_result(None)
        finally:
            self._committing = None

    async def _publish_due(self, journal: Journal) -> None:
        while True:
            self._changed.clear()
            try:
                wait_s = await self._publish_some(journal)
            except JournalError as error:
                wait_s = _POLL_S
                if not error.is_busy:
                    _log.error("the journal cannot be read: %s", error)
                    wait_s = _PAUSE_MAX_S
            except Exception:  # what waits must not wait for ever
                _log.exception("%s: copies cannot be published", self._path)
                wait_s = _PAUSE_MAX_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    async def _publish_some(self, journal: Journal) -> float:
        """Publish what is due; returns for how many seconds there is nothing to do."""
        now_ms = self._clock_ms()
        damaged = journal.damaged
        waiting = await self._in_thread(partial(journal.due, now_ms, _BURST))
        if journal.damaged > damaged:
            _log.error(
                "%s: %d copies make no sense: set aside in the table damaged", self._path, journal.damaged - damaged
            )
        if not waiting:
            next_ms = await self._in_thread(journal.next_due_ms)
            self.journaled = await self._in_thread(journal.count)
            return _POLL_S if next_ms is None else min(_POLL_S, max(0, next_ms - now_ms) / 1000)
        results = await asyncio.gather(*[self._publish_one(one) for one in waiting])
        done = [one.id for one, taken in zip(waiting, results, strict=True) if taken]
        await self._in_thread(partial(journal.remove, done))
        for one, taken in zip(waiting, results, strict=True):
            if not taken:
                later_ms = self._clock_ms() + int(_PAUSE_MAX_S * 1000)
                await self._in_thread(partial(journal.postpone, one.id, later_ms))
        self.journaled = await self._in_thread(journal.count)
        return 0.0

    async def _publish_one(self, one: Waiting) -> bool:
        try:
            code = await self._publish(one.message)
        except Exception:
            _log.exception("a copy to %s cannot be published: it stays in the journal", one.message.topic)
            return False
        if code >= 0x80:
            _log.error(
                "the broker refuses a copy to %s (reason code 0x%02x): it stays in the journal",
                one.message.topic,
                code,
                extra={"topic": one.message.topic, "reason_code": code},
            )
            return False
        self._note_unread(one.message, code)
        return True

    async def close(self) -> None:
        """Nothing is published any more; what waits is on disk."""
        if self._committing is not None:
            await self._committing
        for task in (self._opening, self._publishing):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._opening = self._publishing = None
        if self._journal is not None and self._thread is not None:
            await self._in_thread(self._journal.close)
            self._journal = None
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None


def _fail(adding: list[tuple[Outgoing, int, "asyncio.Future[None]"]], error: JournalError) -> None:
    for _, _, kept in adding:
        if not kept.done():
            kept.set_exception(error)
